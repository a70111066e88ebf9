"""What each operation of the machine code does."""

from __future__ import annotations

from collections import Counter

from benchmarks.sass.control import CONTROL
from benchmarks.sass.disassembly import Disassembly, Instruction
from benchmarks.sass.floats import FLOATS
from benchmarks.sass.integers import INTEGERS
from benchmarks.sass.memory import MEMORIES
from benchmarks.sass.moves import MOVES
from benchmarks.sass.operands import Execute
from benchmarks.sass.warp import Warp

OPERATIONS = {**CONTROL, **MOVES, **INTEGERS, **FLOATS, **MEMORIES}


def compile_operation(i: Instruction) -> Execute:
    """A function that executes the instruction for the lanes in `Warp.mask`.

    For an unknown instruction the function raises `NotImplementedError`.
    """
    name, *kinds = i.mnemonic.split(".")
    run = OPERATIONS[name](i, kinds) if name in OPERATIONS else None
    if run is not None:
        return run

    def unknown(w: Warp) -> None:
        raise NotImplementedError(f"{i.mnemonic} {', '.join(i.operands)} at {i.offset:#x}")

    return unknown


class Kernel:
    """A kernel that can be executed."""

    def __init__(self, code: Disassembly) -> None:
        """Compile every instruction."""
        self.code = code
        self._operations = [compile_operation(i) for i in code.instructions]

    def run(self, parameters: bytes, block: int = 0) -> Counter[str]:
        """Execute one block of one warp; instructions executed, by function."""
        warp = Warp(self.code, parameters, block)
        warp.run(self._operations)
        return warp.executed
