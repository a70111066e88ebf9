"""Operations that move, pick or count bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import (
    Execute,
    is_predicate,
    predicate,
    set_pair,
    set_word,
    signed,
    word,
)
from benchmarks.sass.warp import SHARED_BASE, Warp


def simple(i: Instruction, kinds: list[str]) -> Execute | None:
    """One of them; None for another operation."""
    name, ops = i.mnemonic.split(".")[0], i.operands
    if name in ("MOV", "UMOV"):
        store, get = set_word(ops[0]), word(ops[1])
        return lambda w: store(w, get(w))
    if name == "VIADD":
        store, a, b = set_word(ops[0]), word(ops[1]), word(ops[2])
        return lambda w: store(w, np.asarray(a(w), np.uint32) + np.asarray(b(w), np.uint32))
    if name in ("SEL", "USEL", "FSEL"):
        store, a, b, p = set_word(ops[0]), word(ops[1]), word(ops[2]), predicate(ops[3])
        return lambda w: store(w, np.where(p(w), a(w), b(w)))
    if name == "IABS":
        store, a = set_word(ops[0]), word(ops[1])
        return lambda w: store(w, np.abs(signed(a(w)).astype(np.int64)))
    if name == "SGXT":
        store, a, bits = set_word(ops[0]), word(ops[1]), int(ops[2], 16)
        if "U32" in kinds:
            return lambda w: store(w, np.asarray(a(w), np.uint32) & np.uint32((1 << bits) - 1))
        shift = np.int32(32 - bits)
        return lambda w: store(w, ((signed(a(w)) << shift) >> shift).view(np.uint32))
    if name == "BREV":
        store, a = set_word(ops[0]), word(ops[1])

        def reverse(w: Warp) -> None:
            words = np.broadcast_to(np.asarray(a(w), np.uint32), (w.lanes,))
            store(w, np.array([int(f"{int(x):032b}"[::-1], 2) for x in words], np.uint64))

        return reverse
    if name == "FLO":
        store, a = set_word(ops[0]), word(ops[1])
        shifts = "SH" in kinds

        def find(w: Warp) -> None:
            words = np.broadcast_to(np.asarray(a(w), np.uint32), (w.lanes,))
            found = [int(x).bit_length() - 1 for x in words]
            store(
                w,
                np.array(
                    [(31 - n if shifts and n >= 0 else n) & 0xFFFFFFFF for n in found], np.uint64
                ),
            )

        return find
    if name == "POPC":
        store, a = set_word(ops[0]), word(ops[1])
        return lambda w: store(
            w, np.array([int(x).bit_count() for x in np.broadcast_to(np.asarray(a(w)), (w.lanes,))])
        )
    if name == "CS2R":
        store = set_pair(ops[0])
        return lambda w: store(w, np.zeros(w.lanes, np.uint64))
    if name in ("S2R", "S2UR"):
        store, special = set_word(ops[0]), ops[1]

        def read(w: Warp) -> None:
            if special == "SR_TID.X":
                store(w, np.arange(w.lanes, dtype=np.uint32))
            elif special == "SR_CTAID.X":
                store(w, np.uint32(w.block))
            elif special == "SR_SWINHI":
                store(w, np.uint32(SHARED_BASE >> 32))
            elif special == "SR_CgaCtaId":
                store(w, np.uint32(0))
            else:
                raise NotImplementedError(special)

        return read
    if name == "R2UR":
        if is_predicate(ops[0]):
            return lambda w: None
        store, get = set_word(ops[0]), word(ops[1])

        def broadcast(w: Warp) -> None:
            values = np.broadcast_to(np.asarray(get(w)), (w.lanes,))
            store(w, values[np.flatnonzero(w.mask)[0]])

        return broadcast
    if name == "REDUX":
        store, get = set_word(ops[0]), word(ops[1])
        reduce: Any = {"OR": np.bitwise_or, "MIN": np.minimum, "MAX": np.maximum}.get(
            kinds[0], np.add
        )
        return lambda w: store(
            w, reduce.reduce(np.broadcast_to(np.asarray(get(w)), (w.lanes,))[w.mask])
        )
    if name == "P2R":
        store = set_word(ops[0])
        bits = int(ops[3], 16) if not ops[3].startswith("R") else 0x7F
        base = word(ops[2])

        def pack(w: Warp) -> None:
            value = np.broadcast_to(np.asarray(base(w), np.uint32), (w.lanes,)) & np.uint32(
                ~bits & 0xFFFFFFFF
            )
            for k in range(7):
                if bits >> k & 1:
                    value = value | w.predicates[f"P{k}"].astype(np.uint32) << np.uint32(k)
            store(w, value)

        return pack
    if name == "R2P":
        get, bits = word(ops[1]), int(ops[2], 16)

        def unpack(w: Warp) -> None:
            words = np.broadcast_to(np.asarray(get(w), np.uint32), (w.lanes,))
            for k in range(7):
                if bits >> k & 1:
                    np.copyto(w.predicates[f"P{k}"], (words >> np.uint32(k) & 1) != 0, where=w.mask)

        return unpack
    return None
