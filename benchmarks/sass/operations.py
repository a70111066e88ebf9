"""What each operation of the machine code does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.sass.control import control, vote
from benchmarks.sass.disassembly import Disassembly, Instruction
from benchmarks.sass.floats import floating_point
from benchmarks.sass.integers import (
    add,
    logic,
    logic_predicates,
    minimum,
    multiply_add,
    permute,
    set_if,
    shift,
    shifted_add,
)
from benchmarks.sass.memory import load_constant, load_or_store
from benchmarks.sass.moves import simple
from benchmarks.sass.operands import Execute
from benchmarks.sass.warp import Warp

FAMILIES: dict[str, Callable[[Any, list[str]], Execute]] = {
    "IADD3": add,
    "UIADD3": add,
    "IMAD": multiply_add,
    "ISETP": set_if,
    "LOP3": logic,
    "ULOP3": logic,
    "PLOP3": logic_predicates,
    "PRMT": permute,
    "SHF": shift,
    "USHF": shift,
    "VIMNMX": minimum,
    "VIADDMNMX": minimum,
    "LEA": shifted_add,
    "ULEA": shifted_add,
    "VOTE": vote,
    "LDC": load_constant,
    "ULDC": load_constant,
    **dict.fromkeys(("LD", "LDL", "LDS", "LDG", "ST", "STL", "STS", "STG"), load_or_store),
}


def compile_operation(i: Instruction, code: Disassembly) -> Execute:
    """A function that executes the instruction for the lanes in `Warp.mask`.

    For an unknown instruction the function raises `NotImplementedError`.
    """
    name, *kinds = i.mnemonic.split(".")
    run = control(i, kinds, code) or simple(i, kinds) or floating_point(i, kinds)
    if run is None and name in FAMILIES:
        run = FAMILIES[name](i, kinds)
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
        self._operations = [compile_operation(i, code) for i in code.instructions]

    def run(self, parameters: bytes, block: int = 0) -> Counter[str]:
        """Execute one block of one warp; instructions executed, by function."""
        warp = Warp(self.code, parameters, block)
        warp.run(self._operations)
        return warp.executed
