"""Operations that move, pick or count bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sass import operands as op
from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import Compile, Execute, Get
from benchmarks.sass.warp import SHARED_BASE, Warp


def _of_words(function: Callable[..., Any], count: int = 1) -> Compile:
    """An operation that stores a function of words."""
    return lambda i, kinds: op.apply(
        op.set_word(i.operands[0]), function, *map(op.word, i.operands[1 : 1 + count])
    )


def _of_each(function: Callable[[int], int]) -> Compile:
    """An operation that stores a function of a word."""
    return _of_words(lambda words: np.array([function(int(x)) for x in words], np.int64))


def _select(i: Instruction, kinds: list[str]) -> Execute:
    to, a, b, condition = i.operands
    return op.apply(op.set_word(to), np.where, op.predicate(condition), op.word(a), op.word(b))


def _extend_sign(i: Instruction, kinds: list[str]) -> Execute | None:
    bits = int(i.operands[2], 16)
    shift, dtype = np.uint32(32 - bits), np.uint32 if "U32" in kinds else np.int32
    return _of_words(lambda a: (a << shift).view(dtype) >> shift.astype(dtype))(i, kinds)


def _find_highest(i: Instruction, kinds: list[str]) -> Execute | None:
    """FLO; with SH, zeros above the highest bit. -1 for 0."""
    counts_zeros = "SH" in kinds
    find = _of_each(lambda x: 32 - x.bit_length() if counts_zeros and x else x.bit_length() - 1)
    return find(i, kinds)


_SPECIAL: dict[str, Get] = {
    "SR_TID.X": lambda w: np.arange(w.lanes),
    "SR_CTAID.X": lambda w: w.block,
    "SR_SWINHI": lambda w: SHARED_BASE >> 32,
    "SR_CgaCtaId": lambda w: 0,
}


def _read_special(i: Instruction, kinds: list[str]) -> Execute | None:
    get = _SPECIAL.get(i.operands[1])
    return get and op.apply(op.set_word(i.operands[0]), lambda value: value, get)


def _broadcast(i: Instruction, kinds: list[str]) -> Execute:
    """R2UR: the word of the first lane."""
    if op.is_predicate(i.operands[0]):
        return lambda w: None
    store, get = op.set_word(i.operands[0]), op.word(i.operands[1])
    return lambda w: store(w, get(w)[w.mask][0])


def _reduce(i: Instruction, kinds: list[str]) -> Execute:
    store, get = op.set_word(i.operands[0]), op.word(i.operands[1])
    reductions: dict[str, Any] = {"OR": np.bitwise_or, "MIN": np.minimum, "MAX": np.maximum}
    function = reductions.get(kinds[0], np.add)
    return lambda w: store(w, function.reduce(get(w)[w.mask]))


def _numbers(mask: str) -> list[int]:
    """Predicates in a mask; all if it is a register."""
    bits = 0x7F if mask.startswith("R") else int(mask, 16)
    return [k for k in range(7) if bits >> k & 1]


def _pack(i: Instruction, kinds: list[str]) -> Execute:
    """P2R: predicates to bits of a word."""
    to, _, base_text, mask = i.operands
    store, base, numbers = op.set_word(to), op.word(base_text), _numbers(mask)

    def pack(w: Warp) -> None:
        value = base(w)
        for k in numbers:
            bit = np.uint32(1 << k)
            value = np.where(w.predicates[f"P{k}"], value | bit, value & ~bit)
        store(w, value)

    return pack


def _unpack(i: Instruction, kinds: list[str]) -> Execute:
    """R2P: bits of a word to predicates."""
    get = op.word(i.operands[1])
    stores = [(np.uint32(k), op.set_predicate(f"P{k}")) for k in _numbers(i.operands[2])]

    def unpack(w: Warp) -> None:
        words = get(w)
        for k, store in stores:
            store(w, words >> k & 1 != 0)

    return unpack


MOVES: dict[str, Compile] = {
    **dict.fromkeys(("MOV", "UMOV"), _of_words(lambda a: a)),
    "VIADD": _of_words(np.add, 2),
    **dict.fromkeys(("SEL", "USEL", "FSEL"), _select),
    "IABS": _of_words(lambda a: np.abs(a.view(np.int32))),
    "SGXT": _extend_sign,
    "BREV": _of_each(lambda x: int(f"{x:032b}"[::-1], 2)),
    "FLO": _find_highest,
    "POPC": _of_each(int.bit_count),
    "CS2R": lambda i, kinds: op.apply(op.set_pair(i.operands[0]), lambda: np.uint64(0)),
    **dict.fromkeys(("S2R", "S2UR"), _read_special),
    "R2UR": _broadcast,
    "REDUX": _reduce,
    "P2R": _pack,
    "R2P": _unpack,
}
