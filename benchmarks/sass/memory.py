"""Loads and stores of every space, and of constants."""

from __future__ import annotations

import re

import numpy as np

from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import (
    CONSTANT,
    MEMORY,
    SIZES,
    ZERO,
    Execute,
    constant,
    pair,
    register_number,
    set_pair,
    set_word,
    word,
)
from benchmarks.sass.warp import LOCAL_BASE, SHARED_BASE, Warp


def load_or_store(i: Instruction, kinds: list[str]) -> Execute:
    """Loads and stores of every space."""
    name = i.mnemonic.split(".")[0]
    is_store = name in ("ST", "STL", "STS", "STG")
    size = next((SIZES[k] for k in kinds if k in SIZES), 4)
    is_signed = "S8" in kinds or "S16" in kinds
    place = next(k for k, t in enumerate(i.operands) if "[" in t)
    text = re.sub(r"desc\[UR\d+\]", "", i.operands[place])
    match = MEMORY.fullmatch(text)
    assert match, i.operands
    base = register_number(match[1]) if match[1] else ZERO
    extra = word(match[2]) if match[2] else None
    offset = int(match[3] or "0", 16)
    is_wide = ".64" in text
    value_text = i.operands[1 - place]
    parts = [(0, value_text)]
    if size == 16:  # two of 64 bits
        size, number = 8, register_number(value_text)
        parts.append((8, value_text if number == ZERO else f"R{number + 2}"))
    get, set_ = (pair, set_pair) if size == 8 else (word, set_word)
    values_at = [(delta, get(register), set_(register)) for delta, register in parts]
    local, shared = name in ("LDL", "STL"), name in ("LDS", "STS")

    def run(w: Warp) -> None:
        low = w.registers[base]
        high = w.registers[base + 1] if is_wide and base != ZERO else None
        more = extra(w) if extra is not None else None
        lanes = np.flatnonzero(w.mask)
        addresses = {}
        for lane in lanes:
            address = int(low[lane]) + offset
            if high is not None:
                address += int(high[lane]) << 32
            elif more is not None:
                address += int(more[lane])
            if local:
                address = LOCAL_BASE + (address & 0xFFFFFFFF)
            elif shared:
                address = SHARED_BASE + (address & 0xFFFFFFFF)
            addresses[lane] = address
        for delta, value_of, store_to in values_at:
            values = np.zeros(w.lanes, np.uint64)
            if is_store:
                values[:] = value_of(w)
            for lane in lanes:
                address = addresses[lane] + delta
                if is_store:
                    mask = (1 << 8 * size) - 1
                    w.store_generic(int(lane), address, size, int(values[lane]) & mask)
                else:
                    value = w.load_generic(int(lane), address, size)
                    if is_signed and value >> (8 * size - 1):
                        value |= 0xFFFFFFFF << 8 * size & 0xFFFFFFFF
                    values[lane] = value
            if not is_store:
                store_to(w, values)

    return run


def load_constant(i: Instruction, kinds: list[str]) -> Execute:
    """LDC and ULDC."""
    match = CONSTANT.fullmatch(i.operands[1])
    assert match, i.operands
    size = next((SIZES[k] for k in kinds if k in SIZES), 4)
    if size == 16:
        raise NotImplementedError(i.mnemonic)
    get = constant(match, size)
    store = (set_pair if size == 8 else set_word)(i.operands[0])
    return lambda w: store(w, get(w))
