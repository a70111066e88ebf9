"""A kernel's disassembly, read."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from sass.module import Module, read_module
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
    module: Module | None = None  # whose memory the banks point to


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
    module = read_module(cubin.read_bytes(), kernel)
    code = parse(text, kernel, module.banks)
    code.module = module
    return code


def parse(text: str, kernel: str, banks: dict[int, bytes]) -> Code:
    """The same from what nvdisasm has printed; `banks`: as in `Module`."""
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
