"""Operands of machine code: getters and setters of words, pairs of words, and predicates.

A getter returns an array with a value for each lane; a setter changes the lanes in `Warp.mask`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.warp import BARRIERS, UNIFORM, Warp

Get = Callable[[Warp], Any]
Store = Callable[[Warp, Any], None]
Execute = Callable[[Warp], None]
#: Compiles an instruction, given the parts of its mnemonic after the name; None: not known.
Compile = Callable[[Instruction, list[str]], Execute | None]

MASK32 = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)
REGISTER = re.compile(r"(-|~)?\|?(U?R|B)(\d+|Z)(?:\.B([0-3]))?\|?")
CONSTANT = re.compile(r"(-|~)?c\[0x(\w+)\]\[(?:(R\w+))?\+?(-?0x\w+)?\]")
MEMORY = re.compile(r"\[(?:(R\d+|RZ)(?:\.\w+)*)?\+?(?:(UR\d+))?\+?(-?0x[0-9a-f]+)?\]")
#: Bytes of what a suffix of an operation says; 4 without.
SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_FILES = {"R": (0, 255), "UR": (UNIFORM, 63), "B": (BARRIERS, 0)}


def register_number(text: str) -> int:
    """Row of R12, UR3, B0 or RZ in `Warp.registers`."""
    match = REGISTER.fullmatch(text)
    assert match, text
    first, zero = _FILES[match[2]]
    return first + int(zero if match[3] == "Z" else match[3])


def word(text: str) -> Get:
    """Getter of a 32-bit operand, its sign or complement applied; uint32."""
    if match := CONSTANT.fullmatch(text):
        get = constant(match, 4)
    elif match := REGISTER.fullmatch(text):
        number, byte = register_number(text), match[4]
        if byte is not None:
            assert match[1] is None
            low = np.uint32(8 * int(byte))
            return lambda w: w.registers[number] >> low & np.uint32(0xFF)

        def get(w: Warp) -> Any:
            return w.registers[number]
    else:
        value = np.uint32(immediate(text))
        return lambda w: np.full(w.lanes, value)
    if match[1] is None:
        return get
    one = np.uint32(match[1] == "-")
    return lambda w: ~get(w) + one


def constant(match: re.Match[str], size: int) -> Get:
    """Getter of a value of a constant bank."""
    bank, offset = int(match[2], 16), int(match[4] or "0", 16)
    dtype = np.uint64 if size == 8 else np.uint32
    if match[3] is None:
        return lambda w: np.full(w.lanes, w.constant(bank, offset, size), dtype)
    index = register_number(match[3])

    def get(w: Warp) -> Any:
        values = np.zeros(w.lanes, dtype)
        for lane in np.flatnonzero(w.mask):
            values[lane] = w.constant(bank, int(w.registers[index, lane]) + offset, size)
        return values

    return get


def immediate(text: str) -> int:
    """A number as a word."""
    if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", text):
        return int(text, 0) & 0xFFFFFFFF
    return int(struct.unpack("<I", struct.pack("<f", float(text)))[0])


def wide(text: str) -> Get:
    """Getter of a 32-bit operand as uint64."""
    get = word(text)
    return lambda w: get(w).astype(np.uint64)


def sign_extended(text: str) -> Get:
    """Getter of a signed 32-bit operand as uint64."""
    get = word(text)
    return lambda w: get(w).view(np.int32).astype(np.uint64)


def pair(text: str) -> Get:
    """Getter of 64 bits."""
    if match := CONSTANT.fullmatch(text):
        return constant(match, 8)
    if REGISTER.fullmatch(text) is None:
        return wide(text)
    number = register_number(text)
    return lambda w: (
        w.registers[number].astype(np.uint64) | w.registers[number + 1].astype(np.uint64) << HIGH
    )


def predicate(text: str) -> Get:
    """Getter of a predicate, `!` applied."""
    name = text.lstrip("!")
    if text.startswith("!"):
        return lambda w: ~w.predicates[name]
    return lambda w: w.predicates[name]


def set_word(text: str) -> Store:
    """Setter of a 32-bit register to the low bits of integers."""
    number = register_number(text)
    if text.endswith("Z"):
        return lambda w, value: None
    return lambda w, value: np.copyto(w.registers[number], value, where=w.mask, casting="unsafe")


def set_pair(text: str) -> Store:
    """Setter of two registers to uint64."""
    number = register_number(text)
    if text.endswith("Z"):
        return lambda w, value: None

    def store(w: Warp, value: Any) -> None:
        for k, half in enumerate((value, value >> HIGH)):
            np.copyto(w.registers[number + k], half, where=w.mask, casting="unsafe")

    return store


def set_predicate(text: str) -> Store:
    """Setter of a predicate."""
    if text in ("PT", "UPT"):
        return lambda w, value: None
    return lambda w, value: np.copyto(w.predicates[text], value, where=w.mask)


def is_predicate(text: str) -> bool:
    """Whether an operand is one."""
    return re.fullmatch(r"!?U?P[T\d]", text) is not None


def apply(store: Store, function: Callable[..., Any], *operands: Get) -> Execute:
    """Store a function of operands."""
    return lambda w: store(w, function(*(get(w) for get in operands)))
