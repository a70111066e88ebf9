"""Operands of machine code: getters and setters of words, pairs of words, and predicates."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sass.warp import Warp

Get = Callable[[Warp], Any]
Execute = Callable[[Warp], None]

ZERO = 255
MASK32 = np.uint64(0xFFFFFFFF)
REGISTER = re.compile(r"(-|~)?(\|)?(U?R)(\d+|Z)(?:\.B([0-3]))?\|?")
CONSTANT = re.compile(r"(-|~)?c\[0x(\w+)\]\[(?:(R\w+))?\+?(-?0x\w+)?\]")
MEMORY = re.compile(r"\[(?:(R\d+|RZ)(?:\.\w+)*)?\+?(?:(UR\d+))?\+?(-?0x[0-9a-f]+)?\]")
#: Bytes of what a suffix of an operation says; 4 without.
SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def register_number(text: str) -> int:
    """Number of R12, R12.64, UR3, RZ."""
    match = REGISTER.fullmatch(text)
    assert match, text
    return ZERO if match[4] == "Z" else int(match[4])


def file_of(text: str) -> str:
    """The attribute of a warp that holds a register."""
    return "uniform" if "UR" in text else "registers"


def word(text: str) -> Get:
    """Getter of a 32-bit operand, its sign or complement applied."""
    match = REGISTER.fullmatch(text)
    if match:
        number, uniform, sign = register_number(text), match[3] == "UR", match[1]
        if match[4] == "Z":
            value = np.uint32(0 if sign != "~" else 0xFFFFFFFF)
            return lambda w: value
        if match[5] is not None:
            low = np.uint32(8 * int(match[5]))
            assert sign is None
            return lambda w: w.registers[number] >> low & np.uint32(0xFF)
        if sign is None:
            if uniform:
                return lambda w: w.uniform[number]
            return lambda w: w.registers[number]
        if sign == "~":
            return lambda w: ~(w.uniform if uniform else w.registers)[number]
        return lambda w: (~(w.uniform if uniform else w.registers)[number]) + np.uint32(1)
    match = CONSTANT.fullmatch(text)
    if match:
        return constant(match, 4)
    value = np.uint32(immediate(text))
    return lambda w: value


def constant(match: re.Match[str], size: int) -> Get:
    """Getter of a value of a constant bank."""
    bank, offset = int(match[2], 16), int(match[4] or "0", 16)
    if match[3] is None:
        return lambda w: (
            np.uint64(w.constant(bank, offset, size))
            if size == 8
            else np.uint32(w.constant(bank, offset, size))
        )
    index = register_number(match[3])

    def get(w: Warp) -> Any:
        at = w.registers[index]
        values = np.zeros(w.lanes, np.uint64)
        for lane in np.flatnonzero(w.mask):
            values[lane] = w.constant(bank, int(at[lane]) + offset, size)
        return values

    return get


def immediate(text: str) -> int:
    """A number as a word."""
    if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", text):
        return int(text, 0) & 0xFFFFFFFF
    return int(struct.unpack("<I", struct.pack("<f", float(text)))[0])


def predicate(text: str) -> Get:
    """Getter of a predicate, `!` applied."""
    name = text.lstrip("!")
    if text.startswith("!"):
        return lambda w: ~w.predicates[name]
    return lambda w: w.predicates[name]


def set_word(text: str) -> Callable[[Warp, Any], None]:
    """Setter of a 32-bit register."""
    number = register_number(text)
    if number == ZERO:
        return lambda w, value: None
    if file_of(text) == "uniform":

        def set_uniform(w: Warp, value: Any) -> None:
            np.copyto(w.uniform[number], value, where=w.mask, casting="unsafe")

        return set_uniform

    def set_register(w: Warp, value: Any) -> None:
        np.copyto(w.registers[number], value, where=w.mask, casting="unsafe")

    return set_register


def set_pair(text: str) -> Callable[[Warp, Any], None]:
    """Setter of two registers."""
    number = register_number(text)
    if number == ZERO:
        return lambda w, value: None
    file = file_of(text)

    def store(w: Warp, value: Any) -> None:
        words = getattr(w, file)
        value = np.asarray(value, np.uint64)
        np.copyto(words[number], value & MASK32, where=w.mask, casting="unsafe")
        np.copyto(words[number + 1], value >> np.uint64(32), where=w.mask, casting="unsafe")

    return store


def pair(text: str) -> Get:
    """Getter of 64 bits."""
    match = REGISTER.fullmatch(text)
    if match:
        number, file = register_number(text), file_of(text)
        if number == ZERO:
            return lambda w: np.uint64(0)

        def get(w: Warp) -> Any:
            words = getattr(w, file)
            return words[number].astype(np.uint64) | words[number + 1].astype(
                np.uint64
            ) << np.uint64(32)

        return get
    match = CONSTANT.fullmatch(text)
    if match:
        return constant(match, 8)
    value = np.uint64(immediate(text))
    return lambda w: value


def set_predicate(text: str) -> Callable[[Warp, Any], None]:
    """Setter of a predicate."""
    if text in ("PT", "UPT"):
        return lambda w, value: None

    def store(w: Warp, value: Any) -> None:
        np.copyto(w.predicates[text], value, where=w.mask)

    return store


def is_predicate(text: str) -> bool:
    """Whether an operand is one."""
    return re.fullmatch(r"!?U?P[T\d]", text) is not None


def wide(get: Get) -> Get:
    """A getter's words as 64 bits."""
    return lambda w: np.asarray(get(w)).astype(np.uint64)


def signed(value: Any) -> Any:
    """Words as int32."""
    return np.asarray(value, np.uint32).view(np.int32)
