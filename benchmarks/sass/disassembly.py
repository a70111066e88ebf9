"""The disassembly of a kernel, parsed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.sass.module import Module, read_module

_LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[T\d])\s+)?([\w.]+)\s*(.*?)\s*;?\s*$")
_REMARK = re.compile(r"\(\*.*?\*\)")
_LABEL = re.compile(r"(\.L_x_\d+|\$\S+):")
#: In paths of headers that are not what an instruction is for: the toolkit's, and helpers.
_HELPERS = re.compile(
    r"/include/|/csrc/base/|/csrc/console/ram\.hpp|/csrc/cuda/(lane_|line_state|bytes16)"
)
_FILE = re.compile(r'\s*//## File "(.*?)"')


@dataclass
class Instruction:
    """One line of the disassembly."""

    offset: int  # in `Module.code`
    guard: str | None
    mnemonic: str
    operands: list[str]
    function: str  # that it belongs to: mangled, or "kernel"
    file: str = ""  # of the source, if the module says so


@dataclass(frozen=True)
class Control:
    """Hints of the compiler to the scheduler of a warp, in the upper bits of an instruction."""

    stall: int = 1  # cycles until the warp's next instruction, at least
    write_scoreboard: int = 7  # released when the result is there; 7: none
    read_scoreboard: int = 7  # released when the operands have been read
    waits: int = 0  # mask of scoreboards that must be released before


@dataclass
class Disassembly:
    """A kernel, and the places of its labels."""

    instructions: list[Instruction]
    labels: dict[str, int]
    module: Module
    controls: list[Control] = field(default_factory=list)


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


def read_control(code: bytes, offset: int) -> Control:
    """Read the hints of the instruction at a place of the machine code."""
    (high,) = struct.unpack_from("<Q", code, offset + 8)
    return Control(high >> 41 & 0xF, high >> 46 & 7, high >> 49 & 7, high >> 52 & 0x3F)


def find_nvdisasm() -> str:
    """On the path, or in the Python package."""
    if shutil.which("nvdisasm"):
        return "nvdisasm"
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(root).glob("*/bin/nvdisasm")):
            return str(path)
    raise FileNotFoundError("nvdisasm: install the Python package nvidia-cuda-nvdisasm")


def disassemble(cubin: Path, kernel: str) -> Disassembly:
    """The kernel of a module with a mangled name, and the functions that it reaches."""
    command = [find_nvdisasm(), "-c", "-gi", str(cubin)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    module = read_module(cubin.read_bytes(), kernel)
    found = parse(text, module)
    found.controls = [read_control(module.code, i.offset) for i in found.instructions]
    return found


def parse(text: str, module: Module) -> Disassembly:
    """The same from the output of nvdisasm, without controls; an instruction has 16 bytes."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    start, place, function, file, is_fresh = -1, 0, "kernel", "", False
    for line in text.splitlines():
        if line.startswith(".text."):
            section = line[6:].rstrip(":")
            start, file = module.starts.get(section, -1), ""
            function = "kernel" if start == 0 else section
            place = start // 16
            if start >= 0:
                labels[section] = place
            continue
        if start < 0:
            continue
        if label := _LABEL.match(line):
            labels[label[1]] = place
            if label[1].startswith("$"):
                function = label[1].split("$")[-1]
        elif name := _FILE.match(line):
            # Of what is inlined, the innermost comes first; helpers do not count.
            if not is_fresh or _HELPERS.search(file):
                file = name[1]
            is_fresh = True
        elif found := _LINE.match(_REMARK.sub("", line)):
            offset = start + int(found[1], 16)
            place = offset // 16 + 1
            word = f"{module.words.get(offset, 0):#x}"
            operands = [
                word if operand.startswith(("32@lo", "32@hi")) else operand
                for operand in _split(found[4].replace(".reuse", ""))
            ]
            instructions.append(Instruction(offset, found[2], found[3], operands, function, file))
            is_fresh = False
    instructions.sort(key=lambda i: i.offset)
    return Disassembly(instructions, labels, module)
