"""What each operation of the machine code does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sass.control import control, vote
from sass.floats import floating_point
from sass.integers import (
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
from sass.memory import load_constant, load_or_store
from sass.moves import simple
from sass.operands import Execute

if TYPE_CHECKING:
    from sass.code import Code, Instruction
    from sass.warp import Warp

FAMILIES: dict[str, Callable[[Any, list[str]], Execute]] = {
    "IADD3": add,
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
    "VOTE": vote,
    "LDC": load_constant,
    "ULDC": load_constant,
    **dict.fromkeys(("LD", "LDL", "LDS", "LDG", "ST", "STL", "STS", "STG"), load_or_store),
}


def compile_operation(i: Instruction, code: Code) -> Execute:
    """What executes it for the lanes in `Warp.mask`; for what is not known, an error."""
    name, *kinds = i.mnemonic.split(".")
    run = control(i, kinds, code) or simple(i, kinds) or floating_point(i, kinds)
    if run is None and name in FAMILIES:
        run = FAMILIES[name](i, kinds)
    if run is not None:
        return run

    def unknown(w: Warp) -> None:
        raise NotImplementedError(f"{i.mnemonic} {', '.join(i.operands)} at {i.offset:#x}")

    return unknown
