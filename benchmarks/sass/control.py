"""Branches, calls, barriers and votes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from benchmarks.sass.disassembly import Disassembly, Instruction
from benchmarks.sass.operands import (
    Execute,
    is_predicate,
    predicate,
    register_number,
    set_predicate,
    set_word,
    word,
)
from benchmarks.sass.warp import Warp


def control(i: Instruction, kinds: list[str], code: Disassembly) -> Execute | None:
    """Branches, calls and barriers."""
    name, ops = i.mnemonic.split(".")[0], i.operands

    def label(text: str) -> int:
        return code.labels[re.sub(r"^`\(|\)$", "", text)]

    if name == "BRA" and "DIV" in kinds:
        mask, target = word(ops[0]), label(ops[1])

        def divergent(w: Warp) -> None:
            wanted = int(np.asarray(mask(w))[np.flatnonzero(w.mask)[0]])
            if wanted & ((1 << w.lanes) - 1) != w.group.mask:
                w.jump(target)

        return divergent
    if name == "BRA":
        target = label(ops[-1])
        if len(ops) == 2:
            condition = predicate(ops[0])

            def conditional(w: Warp) -> None:
                w.mask = w.mask & condition(w)
                if w.mask.any():
                    w.jump(target)

            return conditional
        return lambda w: w.jump(target)
    if name == "BRX":
        register, _, rest = ops[0].partition(" ")
        index, base = register_number(register), int(rest or "0", 16) + i.offset + 16
        return lambda w: _scatter(
            w, w.registers[index].view(np.int32).astype(np.int64) + base, code
        )
    if name == "CALL":
        target = label(ops[0])
        return lambda w: w.jump(target)
    if name == "RET":
        index = register_number(ops[0].split(" ")[0])
        return lambda w: _scatter(w, w.registers[index].astype(np.int64), code)
    if name == "EXIT":
        return lambda w: w.leave()
    if name in ("NOP", "BAR", "ENDCOLLECTIVE"):
        return lambda w: None
    if name == "BSSY":
        barrier = int(ops[0][1:])

        def begin(w: Warp) -> None:
            members = w.number(w.mask)
            for lane in np.flatnonzero(w.mask):
                w.barriers[lane][barrier] = members

        return begin
    if name == "BSYNC":
        barrier = int(ops[0][1:])
        return lambda w: w.wait("barrier", [b[barrier] for b in w.barriers])
    if name == "BREAK":
        barrier = int(ops[-1][1:])
        leaves = predicate(ops[0] if len(ops) == 2 else "PT")

        def leave(w: Warp) -> None:
            mask = w.mask & leaves(w)
            gone = w.number(mask)
            if not gone:
                return
            before = w.barriers[int(np.flatnonzero(mask)[0])][barrier]
            for lane in range(w.lanes):
                if before >> lane & 1:
                    w.barriers[lane][barrier] &= ~gone
            for group in w.groups:
                if group.waits == ("barrier", before):
                    group.waits = ("barrier", before & ~gone)
            w.release()

        return leave
    if name == "BMOV":
        return _move_barrier(i, kinds)
    if name == "WARPSYNC":
        if "ALL" in kinds:
            return lambda w: w.wait("warp", [(1 << w.lanes) - 1] * w.lanes)
        get = word(ops[0])

        def meet(w: Warp) -> None:
            masks = np.broadcast_to(np.asarray(get(w)), (w.lanes,))
            w.wait("warp", [int(m) & ((1 << w.lanes) - 1) for m in masks])

        return meet
    return None


def _move_barrier(i: Instruction, kinds: list[str]) -> Execute:
    to, source = i.operands
    clears = "CLEAR" in kinds
    if re.fullmatch(r"B\d+", to):
        barrier, get = int(to[1:]), word(source)

        def restore(w: Warp) -> None:
            values = np.broadcast_to(np.asarray(get(w)), (w.lanes,))
            for lane in np.flatnonzero(w.mask):
                w.barriers[lane][barrier] = int(values[lane])

        return restore
    barrier, store = int(source[1:]), set_word(to)

    def save(w: Warp) -> None:
        store(w, np.array([b[barrier] for b in w.barriers], np.uint64))
        if clears:
            for lane in np.flatnonzero(w.mask):
                w.barriers[lane][barrier] = 0

    return save


def _scatter(w: Warp, offsets: Any, code: Disassembly) -> None:
    """Each lane goes to its own offset."""
    lanes = [int(lane) for lane in np.flatnonzero(w.mask)]
    targets = {int(offsets[lane]) for lane in lanes}
    if len(targets) == 1:
        w.jump(code.index_of[targets.pop()])
        return
    everyone = w.mask
    for target in targets:
        w.mask = everyone & (offsets == target)
        w.jump(code.index_of[target])


def vote(i: Instruction, kinds: list[str]) -> Execute:
    """VOTE."""
    ops = list(i.operands)
    ballot = None if is_predicate(ops[0]) else set_word(ops.pop(0))
    result = set_predicate(ops[0])
    condition = predicate(ops[1])

    def run(w: Warp) -> None:
        votes = w.number(condition(w) & w.mask)
        if ballot is not None:
            ballot(w, np.uint32(votes))
        result(w, np.bool_(votes == w.number(w.mask) if "ALL" in kinds else votes != 0))

    return run
