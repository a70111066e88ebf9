"""A kernel that can be executed: its machine code, and the executor, compiled when first needed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sass import latencies
from benchmarks.sass.disassembly import Disassembly, Instruction
from benchmarks.sass.encoding import INSTRUCTION, Encoder

NATIVE = Path(__file__).parent / "native"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-frounding-math", "-fPIC", "-shared", "-Wall")
#: Instructions of the warps of a block, beyond which it is taken not to end.
LIMIT = 2_000_000_000
#: Where a kernel's parameters begin in constant bank 0.
PARAMETERS = 0x210
#: Generic addresses of local and of shared memory, and the size of a lane's stack (warp.hpp).
LOCAL_BASE, SHARED_BASE, LOCAL_BYTES = 0x9000_0000_0000, 0xA000_0000_0000, 8192
BANKS = 5
#: In place of a file: a barrier of the block, where warps wait for each other.
BARRIER = "barrier"


class _Code(ctypes.Structure):
    _fields_ = [
        ("instructions", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("banks", ctypes.c_void_p),
        ("index_of", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("branch", "indirect", "barrier")),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("code", _Code),
        ("index", ctypes.c_uint32 * 3),
        ("size", ctypes.c_uint32 * 3),
        ("totals", ctypes.c_void_p),
        ("limit", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("at", ctypes.c_uint32),
        ("message", ctypes.c_char * 200),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    """The executor, compiled once for each version of its source."""
    sources = sorted(NATIVE.glob("*.?pp"))
    digest = hashlib.sha256(repr(FLAGS).encode())
    for source in sources:
        digest.update(source.read_bytes())
    name = f"cule-sass-{os.getuid()}-{digest.hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir()) / name
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / name
            compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
            files = [str(source) for source in sources if source.suffix == ".cpp"]
            subprocess.run([compiler, *FLAGS, *files, "-o", str(made)], check=True)
            shutil.copy(made, path.with_suffix(f".{os.getpid()}"))
        os.replace(path.with_suffix(f".{os.getpid()}"), path)
    library = ctypes.CDLL(str(path))
    library.sass_names.restype = ctypes.c_char_p
    assert library.sass_instruction_bytes() == INSTRUCTION.itemsize
    assert library.sass_launch_bytes() == ctypes.sizeof(_Launch)
    return library


def _waits(i: Instruction) -> bool:
    return i.mnemonic.startswith("BAR.")


@functools.cache
def _encoder() -> Encoder:
    return Encoder(*(_library().sass_names(what).decode() for what in range(3)))


@dataclass
class Totals:
    """Cost of executed instructions."""

    instructions: int = 0
    """Warp instructions."""

    lanes: int = 0
    """Active lanes, summed over these."""

    cycles: int = 0
    """From the instruction before, summed over warps."""

    def __iadd__(self, other: Totals) -> Totals:
        """Add each."""
        self.instructions += other.instructions
        self.lanes += other.lanes
        self.cycles += other.cycles
        return self


@dataclass
class Executed:
    """Cost of a block: totals per source line, and time."""

    places: dict[tuple[str, str], Totals] = field(default_factory=dict)
    """By function and file, or `BARRIER`."""

    cycles: int = 0
    """Until its last warp was done, each running alone."""

    def total(self) -> int:
        """Warp instructions."""
        return sum(totals.instructions for totals in self.places.values())


class Kernel:
    """A kernel that can be executed."""

    def __init__(self, code: Disassembly) -> None:
        """Encode every instruction."""
        self.code = code
        names = [(i.function, BARRIER if _waits(i) else i.file) for i in code.instructions]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._places = list(numbers)
        self._records = _encoder().encode(code, [numbers[name] for name in names])
        offsets = [i.offset for i in code.instructions]
        self._index_of = np.zeros(len(offsets), np.uint32)
        self._index_of[np.array(offsets, np.int64) // 16] = np.arange(len(offsets))

    def run(
        self,
        parameters: bytes,
        block: tuple[int, int, int] = (0, 0, 0),
        threads: tuple[int, int, int] = (32, 1, 1),
        blocks: tuple[int, int, int] = (1, 1, 1),
    ) -> Executed:
        """Execute one block.

        Args:
            parameters: As the kernel takes them, each aligned to its size.
            block: Its place in the grid.
            threads: Of a block.
            blocks: Of the grid.

        Raises:
            NotImplementedError: The block comes to an instruction that is not known.
            RuntimeError: Lanes wait for each other, or the block does not end.
        """
        totals = np.zeros((len(self._places), 3), np.uint64)
        banks = self._banks(parameters, threads, blocks)
        pointers = (ctypes.c_char_p * BANKS)(*banks)
        launch = _Launch(
            code=_Code(
                self._records.ctypes.data,
                len(self._records),
                ctypes.addressof(pointers),
                self._index_of.ctypes.data,
                latencies.BRANCH,
                latencies.INDIRECT,
                latencies.BARRIER,
            ),
            index=block,
            size=threads,
            totals=totals.ctypes.data,
            limit=LIMIT,
        )
        error = _library().sass_run(ctypes.byref(launch))
        if error:
            i = self.code.instructions[min(launch.at, len(self._records) - 1)]
            where = f"{i.mnemonic} {', '.join(i.operands)} at {i.offset:#x}"
            kind = NotImplementedError if error == 1 else RuntimeError
            raise kind(f"{launch.message.decode()} {where}".strip())
        found = {
            place: Totals(*map(int, row))
            for place, row in zip(self._places, totals, strict=True)
            if row[0]
        }
        return Executed(found, launch.cycles)

    def _banks(
        self, parameters: bytes, threads: tuple[int, ...], blocks: tuple[int, ...]
    ) -> list[bytes]:
        """Constant banks; bank 0 as a driver fills it for a launch."""
        bank = bytearray(PARAMETERS)
        words: dict[int, Any] = {4 * k: value for k, value in enumerate((*threads, *blocks))}
        words |= {0x18: SHARED_BASE, 0x20: LOCAL_BASE, 0x28: LOCAL_BYTES}
        for at, value in words.items():
            size = 8 if at in (0x18, 0x20) else 4
            bank[at : at + size] = value.to_bytes(size, "little")
        others = self.code.module.banks
        rest = [others.get(number, b"") for number in range(1, BANKS)]
        return [data + bytes(16) for data in (bytes(bank) + parameters, *rest)]
