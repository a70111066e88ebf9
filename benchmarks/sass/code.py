"""A kernel's disassembly, read."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sass.operands import Execute
from sass.operations import compile_operation

_LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[T\d])\s+)?([A-Z0-9_.]+)\s*(.*?)\s*;?\s*$")
_REMARK = re.compile(r"\(\*.*?\*\)")
_LABEL = re.compile(r"(\.L_x_\d+|\$\S+):")


@dataclass
class Instruction:
    """One line of the disassembly."""

    offset: int
    guard: str | None
    mnemonic: str
    operands: list[str]
    function: str  # that it belongs to
    run: Execute | None = None


@dataclass
class Code:
    """A kernel, its constant banks, and where its labels stand."""

    instructions: list[Instruction]
    labels: dict[str, int]
    banks: dict[int, bytes]
    index_of: dict[int, int] = field(default_factory=dict)


def _split(text: str) -> list[str]:
    """Operands: commas outside brackets part them."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def load(cubin: Path, kernel: str, nvdisasm: str = "nvdisasm") -> Code:
    """The kernel whose mangled name holds `kernel`."""
    command = [nvdisasm, "-c", str(cubin)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return parse(text, kernel, _constant_banks(cubin.read_bytes(), kernel))


def parse(text: str, kernel: str, banks: dict[int, bytes]) -> Code:
    """The same from what nvdisasm has printed; `banks` are the constant banks but bank 0."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    inside, function = False, "kernel"
    for line in text.splitlines():
        if line.startswith(".text."):
            inside = kernel in line
            function = "kernel"
            continue
        if not inside:
            continue
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(instructions)
            if label[1].startswith("$"):
                function = label[1].split("$")[-1]
            continue
        found = _LINE.match(_REMARK.sub("", line))
        if found:
            operands = _split(found[4].replace(".reuse", ""))
            offset = int(found[1], 16)
            instructions.append(Instruction(offset, found[2], found[3], operands, function))
    code = Code(instructions, labels, banks)
    code.index_of = {instruction.offset: i for i, instruction in enumerate(instructions)}
    for instruction in instructions:
        instruction.run = compile_operation(instruction, code)
    return code


def _constant_banks(module: bytes, kernel: str) -> dict[int, bytes]:
    """Constant banks 2 and 3, from the sections of the ELF file."""
    table = int.from_bytes(module[0x28:0x30], "little")
    count = int.from_bytes(module[0x3C:0x3E], "little")
    names_at = int.from_bytes(module[0x3E:0x40], "little")
    heads = np.frombuffer(module, np.uint32, 16 * count, table).reshape(count, 16)
    names = int(heads[names_at][6])
    banks = {}
    for head in heads:
        begin = names + int(head[0])
        name = module[begin : module.index(b"\0", begin)].decode()
        match = re.fullmatch(r"\.nv\.constant([23])(?:\.(.*))?", name)
        if match and (match[2] is None or kernel in match[2]):
            banks[int(match[1])] = module[int(head[6]) : int(head[6] + head[8])]
    return banks
