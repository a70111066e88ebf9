"""Operations on integers and predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sass import operands as op
from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import Compile, Execute, Get
from benchmarks.sass.warp import Warp


def _add(i: Instruction, kinds: list[str]) -> Execute:
    """IADD3 and IADD3.X, with carries."""
    target, *ops = i.operands
    store, carry_out = op.set_word(target), []
    while op.is_predicate(ops[0]):
        carry_out.append(op.set_predicate(ops.pop(0)))
    is_negative = [text[0] == "-" and not text.startswith("-0x") for text in ops[:3]]
    addends = [op.wide("~" + t[1:] if n else t) for t, n in zip(ops, is_negative, strict=False)]
    ones = np.uint64(sum(is_negative))
    if "X" in kinds:
        addends += [op.predicate(text) for text in ops[3:]]
        ones = np.uint64(0)

    def run(w: Warp) -> None:
        total = sum((get(w) for get in addends), ones)
        store(w, total)
        for k, set_carry in enumerate(carry_out, 1):
            set_carry(w, total >> op.HIGH >= k)

    return run


def _multiply_add(i: Instruction, kinds: list[str]) -> Execute:
    """IMAD in all its forms."""
    target, *ops = i.operands
    carry_out = op.set_predicate(ops.pop(0) if op.is_predicate(ops[0]) else "PT")
    carry_in = op.predicate(ops[3] if "X" in kinds else "!PT")
    is_high, is_wide = "HI" in kinds, "WIDE" in kinds
    store = (op.set_pair if is_wide else op.set_word)(target)
    a, b = map(op.wide if "U32" in kinds else op.sign_extended, ops[:2])
    c = (op.pair if is_wide or is_high else op.wide)(ops[2])

    def run(w: Warp) -> None:
        product = a(w) * b(w)
        total = product + c(w)
        more = total + carry_in(w)
        store(w, more >> op.HIGH if is_high else more)
        carry_out(w, (total < product) | (more < total))

    return run


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
COMBINE: dict[str, Callable[[Any, Any], Any]] = {"OR": np.logical_or, "XOR": np.logical_xor}
_STRICT = {"LE": "LT", "GE": "GT"}


def set_comparison(ops: list[str], kinds: list[str], compare: Get) -> Execute:
    """Combine a comparison and its opposite with another predicate."""
    first, second, other = op.set_predicate(ops[0]), op.set_predicate(ops[1]), op.predicate(ops[4])
    combine = next((COMBINE[kind] for kind in kinds if kind in COMBINE), np.logical_and)

    def run(w: Warp) -> None:
        value, more = compare(w), other(w)
        results = combine(value, more), combine(~value, more)
        first(w, results[0])
        second(w, results[1])

    return run


def _set_if(i: Instruction, kinds: list[str]) -> Execute:
    """ISETP."""
    a, b = op.word(i.operands[2]), op.word(i.operands[3])
    low = op.predicate(i.operands[5]) if "EX" in kinds else None
    name = kinds[0]
    compare = COMPARE[_STRICT.get(name, name) if low else name]
    dtype = np.uint32 if "U32" in kinds else np.int32

    def value(w: Warp) -> Any:
        x, y = a(w).view(dtype), b(w).view(dtype)
        found = compare(x, y)
        if low is None:
            return found
        if name == "NE":
            return found | low(w)
        return found & low(w) if name == "EQ" else found | ((x == y) & low(w))

    return set_comparison(i.operands, kinds, value)


def _logic_function(text: str) -> Callable[..., Any]:
    """The function of three operands with a given truth table."""
    table = int(text, 16)

    def function(*operands: Any) -> Any:
        total = operands[0] & ~operands[0]
        for k in range(8):
            if table >> k & 1:
                a, b, c = (x if k >> 2 - n & 1 else ~x for n, x in enumerate(operands))
                total = total | a & b & c
        return total

    return function


def _logic(i: Instruction, kinds: list[str]) -> Execute:
    """LOP3: any function of three words."""
    ops = list(i.operands)
    nonzero = op.set_predicate(ops.pop(0) if op.is_predicate(ops[0]) else "PT")
    store, extra = op.set_word(ops[0]), op.predicate(ops[5])

    def store_both(w: Warp, value: Any) -> None:
        store(w, value)
        nonzero(w, (value != 0) | extra(w))

    return op.apply(store_both, _logic_function(ops[4]), *map(op.word, ops[1:4]))


def _logic_predicates(i: Instruction, kinds: list[str]) -> Execute:
    """PLOP3: any two functions of three predicates."""
    stores = [op.set_predicate(text) for text in i.operands[:2]]
    operands = [op.predicate(text) for text in i.operands[2:5]]
    functions = [_logic_function(text) for text in i.operands[5:7]]

    def run(w: Warp) -> None:
        values = [get(w) for get in operands]
        results = [function(*values) for function in functions]
        for store, result in zip(stores, results, strict=True):
            store(w, result)

    return run


def _pick_bytes(low: Any, selector: Any, high: Any) -> Any:
    """Bytes of two words; bit 3 of a digit of the selector repeats the byte's sign."""
    both, result = low | high << op.HIGH, np.uint64(0)
    for k in range(4):
        digit = selector >> np.uint64(4 * k) & np.uint64(0xF)
        byte = both >> np.uint64(8) * (digit & np.uint64(7)) & np.uint64(0xFF)
        byte = np.where(digit & np.uint64(8), np.uint64(0xFF) * (byte >> np.uint64(7)), byte)
        result = result | byte << np.uint64(8 * k)
    return result


def _permute(i: Instruction, kinds: list[str]) -> Execute:
    """PRMT."""
    return op.apply(op.set_word(i.operands[0]), _pick_bytes, *map(op.wide, i.operands[1:4]))


def _shift(i: Instruction, kinds: list[str]) -> Execute:
    """SHF: 64 bits, high and low, shifted; one word of it is kept."""
    is_left, is_high, wraps = kinds[0] == "L", "HI" in kinds, "W" in kinds
    is_signed = "S32" in kinds or "S64" in kinds
    bits = np.uint64(64 if "U64" in kinds or "S64" in kinds else 32)

    def shift(low: Any, count: Any, high: Any) -> Any:
        count = count % bits if wraps else np.minimum(count, bits)
        both = low | high << op.HIGH
        if is_left:
            both = both << count
        elif is_signed:
            both = (both.view(np.int64) >> count.view(np.int64)).view(np.uint64)
        else:
            both = both >> count
        return both >> op.HIGH if is_high else both

    return op.apply(op.set_word(i.operands[0]), shift, *map(op.wide, i.operands[1:4]))


def _minimum(i: Instruction, kinds: list[str]) -> Execute:
    """VIMNMX and VIADDMNMX."""
    target, *ops = i.operands
    dtype = np.uint32 if "U32" in kinds else np.int32

    def pick(is_minimum: Any, *values: Any) -> Any:
        *addends, y = (value.view(dtype) for value in values)
        x = sum(addends[1:], addends[0])
        return np.where(is_minimum, np.minimum(x, y), np.maximum(x, y))

    sources = ops[: 3 if i.mnemonic.startswith("VIADD") else 2]
    return op.apply(op.set_word(target), pick, op.predicate(ops[-1]), *map(op.word, sources))


def _shifted_add(i: Instruction, kinds: list[str]) -> Execute:
    """LEA."""
    target, *ops = i.operands
    store = op.set_word(target)
    carry_out = op.set_predicate(ops.pop(0) if op.is_predicate(ops[0]) else "PT")
    carry_in = op.predicate(ops.pop() if "X" in kinds else "!PT")
    is_high = "HI" in kinds
    a, b, c = op.wide(ops[0]), op.wide(ops[1]), op.wide(ops[2] if is_high else "RZ")
    count = np.uint64(int(ops[-1], 16))

    def run(w: Warp) -> None:
        both = a(w) | c(w) << op.HIGH
        shifted = both >> op.HIGH - count if is_high else both << count
        total = (shifted & op.MASK32) + b(w) + carry_in(w)
        store(w, total)
        carry_out(w, total >> op.HIGH != 0)

    return run


INTEGERS: dict[str, Compile] = {
    **dict.fromkeys(("IADD3", "UIADD3"), _add),
    "IMAD": _multiply_add,
    "ISETP": _set_if,
    **dict.fromkeys(("LOP3", "ULOP3"), _logic),
    "PLOP3": _logic_predicates,
    "PRMT": _permute,
    **dict.fromkeys(("SHF", "USHF"), _shift),
    **dict.fromkeys(("VIMNMX", "VIADDMNMX"), _minimum),
    **dict.fromkeys(("LEA", "ULEA"), _shifted_add),
}
