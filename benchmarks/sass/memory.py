"""Loads and stores of every space, and of constants."""

from __future__ import annotations

import re

import numpy as np

from benchmarks.sass import operands as op
from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import Compile, Execute
from benchmarks.sass.warp import LOCAL_BASE, SHARED_BASE, Warp

_SPACES = {"LDL": LOCAL_BASE, "STL": LOCAL_BASE, "LDS": SHARED_BASE, "STS": SHARED_BASE}


def _load_or_store(i: Instruction, kinds: list[str]) -> Execute:
    name = i.mnemonic.split(".")[0]
    is_store, space = name.startswith("ST"), _SPACES.get(name)
    size = next((op.SIZES[k] for k in kinds if k in op.SIZES), 4)
    is_signed = "S8" in kinds or "S16" in kinds
    place = next(k for k, t in enumerate(i.operands) if "[" in t)
    text = re.sub(r"desc\[UR\d+\]", "", i.operands[place])
    match = op.MEMORY.fullmatch(text)
    assert match, i.operands
    base = (op.pair if ".64" in text else op.wide)(match[1] or "RZ")
    extra = op.wide(match[2] or "RZ")
    offset = np.uint64(int(match[3] or "0", 16) % 2**64)
    value_text = i.operands[1 - place]
    parts = [(0, value_text)]
    if size == 16:  # two of 64 bits
        size = 8
        is_zero = value_text == "RZ"
        parts.append((8, "RZ" if is_zero else f"R{op.register_number(value_text) + 2}"))
    get, set_ = (op.pair, op.set_pair) if size == 8 else (op.wide, op.set_word)
    values_at = [(delta, get(register), set_(register)) for delta, register in parts]

    def run(w: Warp) -> None:
        addresses = base(w) + extra(w) + offset
        if space is not None:
            addresses = np.uint64(space) + (addresses & op.MASK32)
        for delta, value_of, store in values_at:
            values = value_of(w)
            for lane in np.flatnonzero(w.mask):
                memory = w.memory(int(lane), int(addresses[lane]) + delta, size)
                if is_store:
                    memory[:] = int(values[lane]).to_bytes(8, "little")[:size]
                else:
                    value = int.from_bytes(memory, "little", signed=is_signed)
                    values[lane] = value % 2**64
            if not is_store:
                store(w, values)

    return run


def _load_constant(i: Instruction, kinds: list[str]) -> Execute | None:
    match = op.CONSTANT.fullmatch(i.operands[1])
    assert match, i.operands
    size = next((op.SIZES[k] for k in kinds if k in op.SIZES), 4)
    if size == 16:
        return None
    get = op.constant(match, size)
    store = (op.set_pair if size == 8 else op.set_word)(i.operands[0])
    return lambda w: store(w, get(w))


MEMORIES: dict[str, Compile] = {
    **dict.fromkeys(("LD", "LDL", "LDS", "LDG", "ST", "STL", "STS", "STG"), _load_or_store),
    **dict.fromkeys(("LDC", "ULDC"), _load_constant),
}
