"""Floating point, of which the kernels have little."""

from __future__ import annotations

import numpy as np

from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.integers import COMPARE, combine
from benchmarks.sass.operands import (
    CONSTANT,
    REGISTER,
    Execute,
    Get,
    pair,
    predicate,
    set_pair,
    set_predicate,
    set_word,
    signed,
    wide,
    word,
)
from benchmarks.sass.warp import Warp


def _float(get: Get) -> Get:
    return lambda w: (
        np.broadcast_to(np.asarray(get(w), np.uint32), (w.lanes,)).copy().view(np.float32)
    )


def _double(text: str) -> Get:
    sign = -1.0 if text.startswith("-") else 1.0
    plain = text.lstrip("-")
    if not (REGISTER.fullmatch(plain) or CONSTANT.fullmatch(plain)):
        value = float(plain)
        return lambda w: np.full(w.lanes, sign * value)
    get = pair(plain)
    return lambda w: sign * np.broadcast_to(get(w), (w.lanes,)).copy().view(np.float64)


def floating_point(i: Instruction, kinds: list[str]) -> Execute | None:
    """Floating point, of which the kernels have little."""
    ops = i.operands
    name = i.mnemonic.split(".")[0]
    if name == "I2F":
        if "F64" in kinds:
            get = word(ops[1])
            store_pair = set_pair(ops[0])
            has_sign = "U32" not in kinds
            return lambda w: store_pair(
                w,
                (signed(get(w)) if has_sign else np.asarray(get(w), np.uint32))
                .astype(np.float64)
                .view(np.uint64),
            )
        if "RP" not in kinds:
            return None  # another rounding
        get = word(ops[1])
        store = set_word(ops[0])
        has_sign = "U32" not in kinds

        def convert(w: Warp) -> None:
            whole = np.broadcast_to(np.asarray(get(w), np.uint32), (w.lanes,))
            exact = (signed(whole.copy()) if has_sign else whole).astype(np.float64)
            near = exact.astype(np.float32)
            up = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
            store(w, up.astype(np.float32).view(np.uint32))

        return convert
    if name == "MUFU" and kinds[0] == "RCP":
        get_float, store = _float(word(ops[1])), set_word(ops[0])

        def reciprocal(w: Warp) -> None:
            with np.errstate(divide="ignore", over="ignore"):
                store(w, (np.float32(1) / get_float(w)).astype(np.float32).view(np.uint32))

        return reciprocal
    if name == "F2I" and "U32" in kinds and "F64" not in kinds:
        get_float, store = _float(word(ops[1])), set_word(ops[0])
        return lambda w: store(
            w,
            np.clip(np.nan_to_num(get_float(w).astype(np.float64)), 0, 0xFFFFFFFF).astype(
                np.uint64
            ),
        )
    if name in ("DADD", "DMUL", "DFMA"):
        store, doubles = set_pair(ops[0]), [_double(t) for t in ops[1:]]

        def compute(w: Warp) -> None:
            values = [get(w) for get in doubles]
            if name == "DADD":
                result = values[0] + values[-1]
            else:
                result = values[0] * values[1] + (values[2] if name == "DFMA" else 0.0)
            store(w, result.view(np.uint64))

        return compute
    if name == "FFMA":
        store, floats = set_word(ops[0]), [_float_operand(t) for t in ops[1:]]
        return lambda w: store(
            w,
            (floats[0](w).astype(np.float64) * floats[1](w) + floats[2](w))
            .astype(np.float32)
            .view(np.uint32),
        )
    if name in ("DSETP", "FSETP"):
        first, second, other = set_predicate(ops[0]), set_predicate(ops[1]), predicate(ops[4])
        is_double = name == "DSETP"
        x, y = ((_double(t) if is_double else _float_operand(t)) for t in ops[2:4])
        unordered = kinds[0] == "NAN" or (kinds[0].endswith("U") and kinds[0] != "U")

        def compare(w: Warp) -> None:
            one, two = x(w), y(w)
            nan = np.isnan(one) | np.isnan(two)
            value = nan if kinds[0] == "NAN" else COMPARE[kinds[0][:2]](one, two)
            value = value | nan if unordered else value & ~nan
            first(w, combine(kinds, value, other(w)))
            second(w, combine(kinds, ~value, other(w)))

        return compare
    if name == "F2F" and kinds == ["F64", "F32"]:
        store, get_float = set_pair(ops[0]), _float_operand(ops[1])
        return lambda w: store(w, get_float(w).astype(np.float64).view(np.uint64))
    if name == "F2I" and "F64" in kinds:
        store, get_double = set_word(ops[0]), _double(ops[1])
        return lambda w: store(w, np.trunc(get_double(w)).astype(np.int64))
    if name == "MUFU" and kinds[0] == "RCP64H":
        store, get_word = set_word(ops[0]), wide(word(ops[1]))

        def reciprocal_high(w: Warp) -> None:
            whole = np.broadcast_to(get_word(w) << np.uint64(32), (w.lanes,)).copy()
            with np.errstate(divide="ignore"):
                store(w, (1.0 / whole.view(np.float64)).view(np.uint64) >> np.uint64(32))

        return reciprocal_high
    return None


def _float_operand(text: str) -> Get:
    """With sign and bars."""
    plain = text.lstrip("-").strip("|")
    get = _float(word(plain))
    sign = np.float32(-1 if text.startswith("-") else 1)
    if "|" in text:
        return lambda w: sign * np.abs(get(w))
    return lambda w: sign * get(w)
