"""Operations on integers and predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import (
    MASK32,
    Execute,
    is_predicate,
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


def add(i: Instruction, kinds: list[str]) -> Execute:
    """IADD3 and IADD3.X, with carries."""
    ops = list(i.operands)
    destination = set_word(ops.pop(0))
    carry_out = [set_predicate(ops.pop(0)) for _ in range(2) if is_predicate(ops[0])]
    sources = ops[:3]
    carry_in = [predicate(p) for p in ops[3:]]
    extended = "X" in kinds
    getters = []
    negatives = 0
    for text in sources:
        if text.startswith("-") and not text[1:].startswith("0x"):
            negatives += 1
            getters.append(wide(word("~" + text[1:])))
        else:
            getters.append(wide(word(text)))

    def run(w: Warp) -> None:
        total = getters[0](w) + getters[1](w) + getters[2](w)
        if extended:
            for p in carry_in:
                total = total + p(w)
        else:
            total = total + np.uint64(negatives)
        carry = total >> np.uint64(32)
        destination(w, total & MASK32)
        if carry_out:
            carry_out[0](w, carry >= 1)
            for set_carry in carry_out[1:]:
                set_carry(w, carry >= 2)

    return run


def multiply_add(i: Instruction, kinds: list[str]) -> Execute:
    """IMAD in all its forms."""
    ops = list(i.operands)
    target = ops.pop(0)
    carry_out = set_predicate(ops.pop(0)) if is_predicate(ops[0]) else None
    if "MOV" in kinds:
        ops = ["RZ", "RZ", ops[2]]
    a, b = ops[0], ops[1]
    is_unsigned = "U32" in kinds
    carry_in = predicate(ops[3]) if "X" in kinds else None
    if "WIDE" in kinds or "HI" in kinds:
        get_a, get_b = word(a), word(b)
        addend = pair(ops[2])
        high = "HI" in kinds
        store = set_word(target) if high else set_pair(target)

        def multiply(w: Warp) -> None:
            x, y = np.asarray(get_a(w), np.uint32), np.asarray(get_b(w), np.uint32)
            if is_unsigned:
                product = x.astype(np.uint64) * y.astype(np.uint64)
            else:
                product = (signed(x).astype(np.int64) * signed(y).astype(np.int64)).view(np.uint64)
            if high:
                store(w, (product + addend(w)) >> np.uint64(32))
                return
            extra = addend(w)
            total = product + extra
            overflows = total < product
            if carry_in is not None:
                more = total + carry_in(w)
                overflows |= more < total
                total = more
            store(w, total)
            if carry_out is not None:
                carry_out(w, overflows)

        return multiply
    get_a, get_b, get_c = wide(word(a)), wide(word(b)), wide(word(ops[2]))
    destination = set_word(target)
    if "MOV" in kinds:
        return lambda w: destination(w, get_c(w))

    def run(w: Warp) -> None:
        total = ((get_a(w) * get_b(w)) & MASK32) + get_c(w)
        if carry_in is not None:
            total = total + carry_in(w)
        destination(w, total & MASK32)

    return run


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_STRICT = {"LE": "LT", "GE": "GT"}


def combine(kinds: list[str], value: Any, other: Any) -> Any:
    """A comparison and another predicate."""
    if "OR" in kinds:
        return value | other
    if "XOR" in kinds:
        return value ^ other
    return value & other


def set_if(i: Instruction, kinds: list[str]) -> Execute:
    """ISETP."""
    first, second = set_predicate(i.operands[0]), set_predicate(i.operands[1])
    a, b = word(i.operands[2]), word(i.operands[3])
    other = predicate(i.operands[4])
    low = predicate(i.operands[5]) if "EX" in kinds else None
    name = kinds[0]
    compare = COMPARE[_STRICT.get(name, name) if low else name]
    is_unsigned = "U32" in kinds

    def run(w: Warp) -> None:
        x, y = np.asarray(a(w), np.uint32), np.asarray(b(w), np.uint32)
        value = compare(x, y) if is_unsigned else compare(signed(x), signed(y))
        if low is not None:
            if name == "NE":
                value = value | low(w)
            elif name == "EQ":
                value = value & low(w)
            else:
                value = value | ((x == y) & low(w))
        first(w, combine(kinds, value, other(w)))
        second(w, combine(kinds, ~value, other(w)))

    return run


def _logic_function(table: int) -> Callable[[Any, Any, Any], Any]:
    def apply(a: Any, b: Any, c: Any) -> Any:
        total = None
        for k in range(8):
            if table >> k & 1:
                term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
                total = term if total is None else total | term
        return total if total is not None else (a & ~a)

    known: dict[int, Callable[[Any, Any, Any], Any]] = {
        0xC0: lambda a, b, c: a & b,
        0x30: lambda a, b, c: a & ~b,
        0xFC: lambda a, b, c: a | b,
        0x3C: lambda a, b, c: a ^ b,
        0xF8: lambda a, b, c: a | (b & c),
        0xFE: lambda a, b, c: a | b | c,
        0x80: lambda a, b, c: a & b & c,
        0x33: lambda a, b, c: ~b,
    }
    return known.get(table, apply)


def logic(i: Instruction, kinds: list[str]) -> Execute:
    """LOP3: any function of three words."""
    ops = list(i.operands)
    nonzero = set_predicate(ops.pop(0)) if is_predicate(ops[0]) else None
    destination = set_word(ops[0])
    a, b, c = (word(t) for t in ops[1:4])
    function = _logic_function(int(ops[4], 16))
    extra = predicate(ops[5])

    def run(w: Warp) -> None:
        value = function(
            np.asarray(a(w), np.uint32), np.asarray(b(w), np.uint32), np.asarray(c(w), np.uint32)
        )
        destination(w, value)
        if nonzero is not None:
            nonzero(w, (value != 0) | extra(w))

    return run


def logic_predicates(i: Instruction, kinds: list[str]) -> Execute:
    """PLOP3: any two functions of three predicates."""
    ops = i.operands
    first, second = set_predicate(ops[0]), set_predicate(ops[1])
    a, b, c = (predicate(t) for t in ops[2:5])
    one, two = _logic_function(int(ops[5], 16)), _logic_function(int(ops[6], 16))

    def run(w: Warp) -> None:
        values = a(w), b(w), c(w)
        first(w, one(*values))
        second(w, two(*values))

    return run


def permute(i: Instruction, kinds: list[str]) -> Execute:
    """PRMT: bytes picked from two words."""
    destination = set_word(i.operands[0])
    a, b = wide(word(i.operands[1])), wide(word(i.operands[3]))
    selector = wide(word(i.operands[2]))

    def pick(both: Any, code: Any) -> Any:
        result = np.uint64(0)
        for k in range(4):
            digit = (code >> np.uint64(4 * k)) & np.uint64(0xF)
            byte = (both >> (np.uint64(8) * (digit & np.uint64(7)))) & np.uint64(0xFF)
            sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            byte = np.where(digit & np.uint64(8), sign, byte)
            result = result | byte << np.uint64(8 * k)
        return result

    def run(w: Warp) -> None:
        both = a(w) | b(w) << np.uint64(32)
        destination(w, pick(both, selector(w)))

    return run


def shift(i: Instruction, kinds: list[str]) -> Execute:
    """SHF: 64 bits, high and low, shifted; one word of it is kept."""
    destination = set_word(i.operands[0])
    low, count, high = (
        wide(word(i.operands[1])),
        wide(word(i.operands[2])),
        wide(word(i.operands[3])),
    )
    left = kinds[0] == "L"
    is_high, wraps = "HI" in kinds, "W" in kinds
    is_signed = "S32" in kinds or "S64" in kinds
    bits = 64 if "U64" in kinds or "S64" in kinds else 32

    def run(w: Warp) -> None:
        n = count(w)
        n = n % np.uint64(bits) if wraps else np.minimum(n, np.uint64(bits))
        lo, hi = low(w), high(w)
        if left:
            both = lo | hi << np.uint64(32)
            shifted = np.where(n >= 64, np.uint64(0), both << np.minimum(n, np.uint64(63)))
            value = shifted >> np.uint64(32) if is_high else shifted & MASK32
        elif bits == 32 and is_high:
            # The high word alone, as the low word of what is shifted out is not asked for.
            if is_signed:
                top = hi.astype(np.uint32).view(np.int32).astype(np.int64)
                value = (top >> np.minimum(n, np.uint64(31)).astype(np.int64)).astype(
                    np.uint64
                ) & MASK32
            else:
                value = hi >> np.minimum(n, np.uint64(63))
        else:
            both = lo | hi << np.uint64(32)
            if is_signed:
                moved = both.view(np.int64) >> np.minimum(n, np.uint64(63)).astype(np.int64)
                both = moved.view(np.uint64)
            else:
                both = np.where(n >= 64, np.uint64(0), both >> np.minimum(n, np.uint64(63)))
            value = both >> np.uint64(32) if is_high else both & MASK32
        destination(w, value)

    return run


def minimum(i: Instruction, kinds: list[str]) -> Execute:
    """VIMNMX and VIADDMNMX."""
    ops = list(i.operands)
    destination = set_word(ops.pop(0))
    adds = i.mnemonic.startswith("VIADD")
    a, b = word(ops[0]), word(ops[1])
    c = word(ops[2]) if adds else None
    smaller = predicate(ops[-1])
    is_unsigned = "U32" in kinds

    def run(w: Warp) -> None:
        x, y = np.asarray(a(w), np.uint32), np.asarray(b(w), np.uint32)
        if c is not None:
            x, y = x + y, np.asarray(c(w), np.uint32)
        if not is_unsigned:
            x, y = signed(x), signed(y)
        value = np.where(smaller(w), np.minimum(x, y), np.maximum(x, y))
        destination(w, value.astype(np.int64) & 0xFFFFFFFF)

    return run


def shifted_add(i: Instruction, kinds: list[str]) -> Execute:
    """LEA."""
    ops = list(i.operands)
    destination = set_word(ops.pop(0))
    carry_out = set_predicate(ops.pop(0)) if is_predicate(ops[0]) else None
    carry_in = predicate(ops.pop()) if "X" in kinds else None
    a, b = wide(word(ops[0])), wide(word(ops[1]))
    c = wide(word(ops[2])) if "HI" in kinds else None
    count = np.uint64(int(ops[-1], 16))

    def run(w: Warp) -> None:
        x = a(w)
        if c is not None:
            x = ((x | c(w) << np.uint64(32)) >> (np.uint64(32) - count)) & MASK32
        else:
            x = (x << count) & MASK32
        total = x + b(w)
        if carry_in is not None:
            total = total + carry_in(w)
        destination(w, total & MASK32)
        if carry_out is not None:
            carry_out(w, total >> np.uint64(32) != 0)

    return run
