"""Floating point, of which the kernels have little."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.sass import operands as op
from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.integers import COMPARE, set_comparison
from benchmarks.sass.operands import Compile, Execute, Get, Store
from benchmarks.sass.warp import Warp


def _single(text: str) -> Get:
    """Getter of float32, sign and bars applied."""
    get, sign = op.word(text.lstrip("-").strip("|")), np.float32(-1 if text.startswith("-") else 1)
    if "|" in text:
        return lambda w: sign * np.abs(get(w).view(np.float32))
    return lambda w: sign * get(w).view(np.float32)


def _double(text: str) -> Get:
    """Getter of float64, its sign applied."""
    sign = -1.0 if text.startswith("-") else 1.0
    plain = text.lstrip("-")
    if op.REGISTER.fullmatch(plain) or op.CONSTANT.fullmatch(plain):
        get = op.pair(plain)
        return lambda w: sign * get(w).view(np.float64)
    return lambda w: np.full(w.lanes, sign * float(plain))


def _set_single(text: str) -> Store:
    store = op.set_word(text)
    return lambda w, value: store(w, value.astype(np.float32).view(np.uint32))


def _set_double(text: str) -> Store:
    store = op.set_pair(text)
    return lambda w, value: store(w, value.astype(np.float64).view(np.uint64))


def _round_up(whole: Any) -> Any:
    exact = whole.astype(np.float64)
    near = exact.astype(np.float32)
    return np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)


def _from_integer(i: Instruction, kinds: list[str]) -> Execute | None:
    """I2F to float64, or to float32 rounded up."""
    to, text = i.operands
    if "F64" not in kinds and "RP" not in kinds:
        return None
    extended = (op.wide if "U32" in kinds else op.sign_extended)(text)

    def whole(w: Warp) -> Any:
        return extended(w).view(np.int64)

    if "F64" in kinds:
        return op.apply(_set_double(to), np.float64, whole)
    return op.apply(_set_single(to), _round_up, whole)


def _to_integer(i: Instruction, kinds: list[str]) -> Execute | None:
    """F2I, towards 0; float32 to uint32 only, with saturation."""
    to, text = i.operands
    if "F64" in kinds:
        return op.apply(op.set_word(to), lambda x: np.trunc(x).astype(np.int64), _double(text))
    if "U32" not in kinds:
        return None

    def saturate(x: Any) -> Any:
        return np.clip(np.nan_to_num(x.astype(np.float64)), 0, 0xFFFFFFFF).astype(np.uint64)

    return op.apply(op.set_word(to), saturate, _single(text))


def _reciprocal(i: Instruction, kinds: list[str]) -> Execute | None:
    """MUFU.RCP, and RCP64H of the high word of a float64."""
    to, text = i.operands
    if kinds[0] not in ("RCP", "RCP64H"):
        return None
    get_high, get_single, is_single = op.wide(text), _single(text), kinds[0] == "RCP"
    store_single, store_high = _set_single(to), op.set_word(to)

    def run(w: Warp) -> None:
        with np.errstate(divide="ignore", over="ignore"):
            if is_single:
                store_single(w, 1 / get_single(w))
            else:
                inverse = 1.0 / (get_high(w) << op.HIGH).view(np.float64)
                store_high(w, inverse.view(np.uint64) >> op.HIGH)

    return run


def _compare(i: Instruction, kinds: list[str]) -> Execute:
    """DSETP and FSETP."""
    x, y = map(_double if i.mnemonic.startswith("D") else _single, i.operands[2:4])
    name = kinds[0]
    is_unordered = name == "NAN" or (name.endswith("U") and name != "U")

    def value(w: Warp) -> Any:
        one, two = x(w), y(w)
        nan = np.isnan(one) | np.isnan(two)
        found = nan if name == "NAN" else COMPARE[name[:2]](one, two)
        return found | nan if is_unordered else found & ~nan

    return set_comparison(i.operands, kinds, value)


def _widen(i: Instruction, kinds: list[str]) -> Execute | None:
    """F2F, float32 to float64 only."""
    to, text = i.operands
    return op.apply(_set_double(to), np.float64, _single(text)) if kinds == ["F64", "F32"] else None


def _of_doubles(function: Any) -> Compile:
    return lambda i, kinds: op.apply(
        _set_double(i.operands[0]), function, *map(_double, i.operands[1:])
    )


FLOATS: dict[str, Compile] = {
    "I2F": _from_integer,
    "F2I": _to_integer,
    "F2F": _widen,
    "MUFU": _reciprocal,
    "DADD": _of_doubles(lambda a, *rest: a + rest[-1]),
    "DMUL": _of_doubles(lambda a, b: a * b),
    "DFMA": _of_doubles(lambda a, b, c: a * b + c),
    "FFMA": lambda i, kinds: op.apply(
        _set_single(i.operands[0]),
        lambda a, b, c: a.astype(np.float64) * b + c,
        *map(_single, i.operands[1:]),
    ),
    **dict.fromkeys(("DSETP", "FSETP"), _compare),
}
