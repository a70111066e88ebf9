"""The disassembly of a kernel, parsed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.sass.module import Module, read_module

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


@dataclass
class Disassembly:
    """A kernel, its constant banks, and the places of its labels."""

    instructions: list[Instruction]
    labels: dict[str, int]
    banks: dict[int, bytes]
    index_of: dict[int, int]  # by offset
    module: Module | None = None  # whose memory the banks point to


def _split(text: str) -> list[str]:
    """Operands, which commas outside brackets separate."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def disassemble(cubin: Path, kernel: str, nvdisasm: str = "nvdisasm") -> Disassembly:
    """The kernel of a module whose mangled name contains `kernel`."""
    command = [nvdisasm, "-c", str(cubin)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    module = read_module(cubin.read_bytes(), kernel)
    return replace(parse(text, kernel, module.banks), module=module)


def parse(text: str, kernel: str, banks: dict[int, bytes]) -> Disassembly:
    """The same from the output of nvdisasm; `banks` as in `Module`."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    inside, function = False, "kernel"
    for line in text.splitlines():
        if line.startswith(".text."):
            inside, function = kernel in line, "kernel"
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
    index_of = {instruction.offset: i for i, instruction in enumerate(instructions)}
    return Disassembly(instructions, labels, banks, index_of)
