"""Branches, calls, barriers and votes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from benchmarks.sass import operands as op
from benchmarks.sass.disassembly import Instruction
from benchmarks.sass.operands import Compile, Execute
from benchmarks.sass.warp import Warp


def _jump(w: Warp, label: str) -> None:
    w.jump(w.code.labels[re.sub(r"^`\(|\)$", "", label)])


def _scatter(w: Warp, offsets: Any) -> None:
    """Each lane continues at its own offset."""
    mask = w.mask
    for target in {int(offset) for offset in offsets[mask]}:
        w.mask = mask & (offsets == target)
        w.jump(w.code.index_of[target])


def _branch(i: Instruction, kinds: list[str]) -> Execute:
    label = i.operands[-1]
    if "DIV" in kinds:
        expected = op.word(i.operands[0])

        def diverged(w: Warp) -> None:
            if int(expected(w)[w.mask][0]) & w.everyone != w.group.mask:
                _jump(w, label)

        return diverged
    condition = op.predicate(i.operands[0] if len(i.operands) == 2 else "PT")

    def run(w: Warp) -> None:
        w.mask = w.mask & condition(w)
        if w.mask.any():
            _jump(w, label)

    return run


def _branch_indexed(i: Instruction, kinds: list[str]) -> Execute:
    """BRX: relative to the next instruction."""
    register, _, rest = i.operands[0].partition(" ")
    get, base = op.word(register), int(rest or "0", 16) + i.offset + 16
    return lambda w: _scatter(w, get(w).view(np.int32).astype(np.int64) + base)


def _return(i: Instruction, kinds: list[str]) -> Execute:
    get = op.word(i.operands[0].split(" ")[0])
    return lambda w: _scatter(w, get(w))


def _begin(i: Instruction, kinds: list[str]) -> Execute:
    """BSSY: the lanes of a barrier."""
    store = op.set_word(i.operands[0])
    return lambda w: store(w, w.number(w.mask))


def _meet(i: Instruction, kinds: list[str]) -> Execute:
    """BSYNC and WARPSYNC."""
    kind = i.mnemonic.split(".")[0]
    if "ALL" in kinds:
        return lambda w: w.wait(kind, np.full(w.lanes, w.everyone))
    get = op.word(i.operands[0])
    return lambda w: w.wait(kind, get(w) & np.uint32(w.everyone))


def _leave_barrier(i: Instruction, kinds: list[str]) -> Execute:
    """BREAK."""
    number = op.register_number(i.operands[-1])
    leaves = op.predicate(i.operands[0] if len(i.operands) == 2 else "PT")

    def run(w: Warp) -> None:
        mask = w.mask & leaves(w)
        if not mask.any():
            return
        barrier, gone = w.registers[number], w.number(mask)
        before = int(barrier[mask][0])
        np.copyto(barrier, barrier & ~np.uint32(gone), where=w.bits(before))
        for group in w.groups:
            if group.waits == ("BSYNC", before):
                group.waits = ("BSYNC", before & ~gone)
        w.release()

    return run


def _move_barrier(i: Instruction, kinds: list[str]) -> Execute:
    """BMOV."""
    to, source = i.operands
    store, get = op.set_word(to), op.word(source)
    clear = op.set_word(source if "CLEAR" in kinds else "RZ")

    def run(w: Warp) -> None:
        store(w, get(w))
        clear(w, 0)

    return run


def _vote(i: Instruction, kinds: list[str]) -> Execute:
    ops = list(i.operands)
    ballot = op.set_word("RZ" if op.is_predicate(ops[0]) else ops.pop(0))
    result, condition = op.set_predicate(ops[0]), op.predicate(ops[1])

    def run(w: Warp) -> None:
        votes = condition(w) & w.mask
        ballot(w, w.number(votes))
        result(w, votes[w.mask].all() if "ALL" in kinds else votes.any())

    return run


CONTROL: dict[str, Compile] = {
    "BRA": _branch,
    "BRX": _branch_indexed,
    "CALL": lambda i, kinds: lambda w: _jump(w, i.operands[0]),
    "RET": _return,
    "EXIT": lambda i, kinds: Warp.leave,
    **dict.fromkeys(("NOP", "BAR", "ENDCOLLECTIVE"), lambda i, kinds: lambda w: None),
    "BSSY": _begin,
    **dict.fromkeys(("BSYNC", "WARPSYNC"), _meet),
    "BREAK": _leave_barrier,
    "BMOV": _move_barrier,
    "VOTE": _vote,
}
