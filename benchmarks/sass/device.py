"""The GPU that times are predicted for, and how long it takes for a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A GPU; the defaults are those of an H100 with 132 multiprocessors."""

    multiprocessors: int = 132
    schedulers: int = 4
    """Of a multiprocessor; each issues at most one instruction in a cycle."""

    clock_hz: float = 1.755e9
    issue_efficiency: float = 0.6
    """Share of the issue slots that are used when there are always warps enough."""

    registers: int = 16384
    """Of a scheduler; a warp gets them in units of `register_unit`."""

    register_unit: int = 256
    shared_bytes: int = 227 * 1024
    """Of a multiprocessor; each block takes `block_shared_bytes` more than it asks for."""

    block_shared_bytes: int = 1024
    warps: int = 64
    """At most on a multiprocessor."""

    blocks: int = 32
    """Likewise."""

    def resident_blocks(self, registers: int, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that are on the device at once."""
        warps = -(-threads // 32)
        unit = self.register_unit
        of_warp = -(-max(registers, 1) * 32 // unit) * unit
        most_warps = min(self.warps, self.registers // of_warp * self.schedulers)
        by_shared = self.shared_bytes // (shared_bytes + self.block_shared_bytes)
        return self.multiprocessors * min(self.blocks, most_warps // warps, by_shared)

    def latency_s(self, cycles: float, blocks: int, resident: int) -> float:
        """Blocks that each take so many cycles alone, as many at once as are resident."""
        return -(-blocks // resident) * cycles / self.clock_hz

    def issue_s(self, instructions: float) -> float:
        """Warp instructions, spread evenly over all schedulers."""
        slots = self.multiprocessors * self.schedulers * self.issue_efficiency
        return instructions / slots / self.clock_hz
