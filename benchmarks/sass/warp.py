"""A warp: registers, memory, and the places of its lanes."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.sass.disassembly import Disassembly

Words = NDArray[np.uint32]
Mask = NDArray[np.bool_]

#: Generic addresses of a lane's local and of a block's shared memory begin here.
LOCAL_BASE = 0x9000_0000_0000
SHARED_BASE = 0xA000_0000_0000
LOCAL_BYTES = 8192
SHARED_BYTES = 1 << 16
#: Rows of registers: R0 ... R254 and RZ, UR0 ... UR62 and URZ, B0 ... B15. A row of zeros follows
#: each of the first two kinds, so that a pair of zero registers is 0.
UNIFORM = 257
BARRIERS = UNIFORM + 65
#: Where a kernel's parameters begin in constant bank 0.
PARAMETERS = 0x210


@dataclass
class Group:
    """Lanes that are at the same place."""

    mask: int
    at: int
    waits: tuple[str, int] | None = None  # kind and mask of what they wait for


class Warp:
    """32 lanes that execute one kernel; `run` returns when all have left."""

    def __init__(self, code: Disassembly, parameters: bytes, block: int, lanes: int = 32) -> None:
        """The only warp of a block."""
        self.code = code
        self.lanes = lanes
        self.everyone = (1 << lanes) - 1
        self.registers = np.zeros((BARRIERS + 16, lanes), np.uint32)
        names = [f"{prefix}P{i}" for prefix in ("", "U") for i in range(7)]
        self.predicates: dict[str, Mask] = {name: np.zeros(lanes, bool) for name in names}
        self.predicates |= {"PT": np.ones(lanes, bool), "UPT": np.ones(lanes, bool)}
        self.local = [memoryview(bytearray(LOCAL_BYTES)) for _ in range(lanes)]
        self.shared = memoryview(bytearray(SHARED_BYTES))
        bank = bytearray(PARAMETERS + len(parameters) + 16)
        bank[PARAMETERS : PARAMETERS + len(parameters)] = parameters
        bank[0:4] = lanes.to_bytes(4, "little")
        bank[0x28:0x2C] = LOCAL_BYTES.to_bytes(4, "little")
        bank[0x20:0x28] = LOCAL_BASE.to_bytes(8, "little")
        bank[0x18:0x20] = SHARED_BASE.to_bytes(8, "little")
        self.banks = {0: bytes(bank), **code.banks}
        self.block = block
        self.mask: Mask = np.ones(lanes, bool)  # lanes that execute the present instruction
        self.all: Mask = self.mask
        self.groups = [Group(self.everyone, 0)]
        self.group = self.groups[0]
        self.moved = False  # `group` has diverged, left or begun to wait
        self.executed: Counter[str] = Counter()

    def bits(self, mask: int) -> Mask:
        """As booleans."""
        return np.array([mask >> i & 1 for i in range(self.lanes)], bool)

    def number(self, mask: Mask) -> int:
        """As bits."""
        return sum(1 << int(i) for i in np.flatnonzero(mask))

    def run(self, operations: Sequence[Callable[[Warp], None]]) -> None:
        """Execute the operations of the kernel's instructions until every lane has left."""
        instructions = self.code.instructions
        counts = [0] * len(instructions)
        while self.groups:
            ready = [g for g in self.groups if g.waits is None]
            if not ready:
                raise RuntimeError(f"lanes wait for each other: {self.groups}")
            group = self.group = ready[-1]
            self.all = self.bits(group.mask)
            self.moved = False
            while not self.moved:
                i = group.at
                instruction = instructions[i]
                counts[i] += 1
                group.at = i + 1
                guard = instruction.guard
                if guard is None:
                    self.mask = self.all
                elif guard[0] == "!":
                    self.mask = self.all & ~self.predicates[guard[1:]]
                else:
                    self.mask = self.all & self.predicates[guard]
                if guard is not None and not self.mask.any():
                    continue
                operations[i](self)
        for instruction, count in zip(instructions, counts, strict=True):
            self.executed[instruction.function] += count

    def jump(self, target: int) -> None:
        """The lanes in `mask` jump; the others, if any, continue."""
        taken = self.number(self.mask)
        group = self.group
        if taken == group.mask:
            group.at = target
            return
        group.mask &= ~taken
        self.groups.append(Group(taken, target))
        self.moved = True

    def leave(self) -> None:
        """EXIT."""
        gone = self.number(self.mask)
        self.group.mask &= ~gone
        if not self.group.mask:
            self.groups.remove(self.group)
        self.registers[BARRIERS:] &= ~np.uint32(gone)
        self.moved = True
        self.release()

    def wait(self, kind: str, masks: Words) -> None:
        """The group waits, each lane for those in its mask."""
        group = self.group
        self.groups.remove(group)
        inside = self.bits(group.mask)
        for mask in {int(mask) for mask in masks[inside]}:
            members = self.number(inside & (masks == mask))
            self.groups.append(Group(members, group.at, (kind, mask)))
        self.moved = True
        self.release()

    def release(self) -> None:
        """Groups whose lanes have all arrived continue, together."""
        alive = sum(group.mask for group in self.groups)
        for waits, at in {(g.waits, g.at) for g in self.groups if g.waits is not None}:
            here = [g for g in self.groups if g.waits == waits and g.at == at]
            arrived = sum(group.mask for group in here)
            if waits[1] & alive & ~arrived == 0:
                self.groups = [g for g in self.groups if g not in here]
                self.groups.append(Group(arrived, at))

    def constant(self, bank: int, offset: int, bytes_: int = 4) -> int:
        """A value of a constant bank."""
        return int.from_bytes(self.banks[bank][offset : offset + bytes_], "little")

    def memory(self, lane: int, address: int, size: int) -> memoryview:
        """The bytes at a generic address."""
        if address >= SHARED_BASE:
            return self.shared[address - SHARED_BASE :][:size]
        if address >= LOCAL_BASE:
            return self.local[lane][address - LOCAL_BASE :][:size]
        return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")
