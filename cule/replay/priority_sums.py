"""Priorities as integer masses, summed by blocks, and sampling in proportion to them.

A mass (int64) is a multiple of 2**-20. The order of integer additions does not matter, so the sum
of a block is exactly that of its leaves after any number of updates, on every device, and rounding
never selects a leaf of mass 0.

An update writes leaves and then sums every block that it touched, which needs no atomic additions
and tolerates duplicates. A sample finds its block in the prefix sums of all blocks, then its leaf
in those of the block: two vectorized look-ups instead of one for each level of a tree.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from cule import _core
from cule.replay import native
from cule.replay.native import as_array
from cule.replay.options import PrioritizedOptions

#: Leaves of a block, 128. Small blocks make updates and the second step of sampling fast, large
#: ones the first step.
BLOCK_LEAVES: int = _core.BLOCK_LEAVES

#: Mass of a priority of 1.
MASS_SCALE: int = _core.MASS_SCALE

#: Bound of the total, so that no sum overflows.
MAX_TOTAL = 2**62

_TINY = torch.finfo(torch.float64).tiny


class PrioritySums:
    """Masses of leaves; see the top of this file.

    Attributes:
        leaves: Mass of every leaf; int64 ``[num_leaves rounded up + 1]``. The last one is outside
            all sums.
        block_sums: Sums of the blocks; int64 ``[blocks]``.
        max_mass: Largest mass of a leaf.
        waste: Index of the last leaf, for writes without an effect.
        native: The same for the CPU, over the same leaves; None on other devices.
    """

    def __init__(self, num_leaves: int, device: torch.device) -> None:
        """Allocate leaves of mass 0."""
        num_blocks = -(-num_leaves // BLOCK_LEAVES)
        self.waste = num_blocks * BLOCK_LEAVES
        # No more than float64 represents exactly.
        self.max_mass = min(MAX_TOTAL // self.waste, 2**52)
        self.leaves = torch.zeros(self.waste + 1, dtype=torch.int64, device=device)
        self.block_sums = torch.zeros(num_blocks, dtype=torch.int64, device=device)
        self.native: _core.PrioritySums | None = None
        if native.is_used(device):
            views = as_array(self.leaves), as_array(self.block_sums)
            self.native = _core.PrioritySums(*views, self.max_mass)

    @property
    def _blocks(self) -> Tensor:
        return self.leaves[: self.waste].view(-1, BLOCK_LEAVES)

    def total(self) -> Tensor:
        """Sum of all masses; int64 scalar."""
        if self.native is not None:
            return torch.tensor(self.native.total())
        return self.block_sums.sum()

    def masses(self, priorities: Tensor, alpha: float) -> Tensor:
        """Masses of nonnegative priorities, ``p ** alpha``; int64, shape of `priorities`.

        Those too large for `max_mass`, infinity included, get `max_mass`. 0 gets 0 for every alpha,
        others at least 1.
        """
        wanted = priorities.to(torch.float64).pow(alpha) * MASS_SCALE
        masses = wanted.clamp(min=1.0, max=float(self.max_mass)).round().to(torch.int64)
        return torch.where(priorities > 0, masses, 0)

    def largest_priority(self, alpha: float) -> float:
        """The priority of `max_mass`; at most the largest float64."""
        if alpha == 0:
            return sys.float_info.max
        exponent = math.log2(self.max_mass / MASS_SCALE) / alpha
        return 2.0**exponent if exponent < 1023 else sys.float_info.max

    def assign(self, index: Tensor, masses: Tensor) -> None:
        """Set leaves, int64 ``[B]``; if an index occurs several times, its largest mass counts."""
        if self.native is not None:
            self.native.assign(as_array(index.contiguous()), as_array(masses.contiguous()))
            return
        self.leaves.index_fill_(0, index, 0)
        self.leaves.scatter_reduce_(0, index, masses, "amax")
        self.update_sums(index // BLOCK_LEAVES)

    def update_sums(self, blocks: Tensor) -> None:
        """Recompute the sums of blocks; indices past the last block mean the last."""
        blocks = blocks.clamp(max=self.block_sums.shape[0] - 1)
        sums = self._blocks.index_select(0, blocks).sum(dim=1)
        self.block_sums.index_copy_(0, blocks, sums)

    def rebuild(self) -> None:
        """Recompute all sums, after leaves have been written directly."""
        if self.native is not None:
            self.native.rebuild()
            return
        self.block_sums.copy_(self._blocks.sum(dim=1))

    def sample(self, fractions: Tensor) -> Tensor:
        """Leaves at fractions of the total in [0, 1), float64 ``[B]``; any leaves if it is 0."""
        if self.native is not None:
            return torch.from_numpy(self.native.sample(as_array(fractions.contiguous())))
        prefix = self.block_sums.cumsum(0)
        total = prefix[-1]
        target = (fractions * total).to(torch.int64)
        target = torch.minimum(target, total - 1).clamp(min=0)
        block = torch.searchsorted(prefix, target, right=True)
        block = block.clamp(max=prefix.shape[0] - 1)
        within = target - (prefix[block] - self.block_sums[block])
        running = self._blocks.index_select(0, block).cumsum(1)
        leaf = (running <= within[:, None]).sum(dim=1).clamp(max=BLOCK_LEAVES - 1)
        return block * BLOCK_LEAVES + leaf


class Priorities:
    """The priorities of a buffer, one a leaf, and the importance weights that follow from them."""

    def __init__(self, num_leaves: int, options: PrioritizedOptions, device: torch.device) -> None:
        """Allocate the sums."""
        self._alpha = options.alpha
        self.sums = PrioritySums(num_leaves, device)
        self.max_priority = torch.ones((), dtype=torch.float64, device=device)
        self.num_rejected = torch.zeros((), dtype=torch.int64, device=device)
        self.largest_priority = self.sums.largest_priority(options.alpha)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint holds, by name."""
        sums = {"leaves": self.sums.leaves, "block_sums": self.sums.block_sums}
        return {**sums, "max_priority": self.max_priority, "num_rejected": self.num_rejected}

    def most(self) -> dict[str, Tensor]:
        """The largest values of `tensors`, which have none below 0."""
        return {
            "leaves": torch.tensor(self.sums.max_mass),
            "max_priority": torch.tensor(sys.float_info.max, dtype=torch.float64),
        }

    def accept(self, priorities: Tensor, fallback: Tensor) -> Tensor:
        """Replace invalid priorities by `fallback`; count them, and update `max_priority`."""
        is_rejected = ~(priorities >= 0)  # true for NaN
        self.num_rejected.add_(is_rejected.sum())
        accepted = torch.where(is_rejected, fallback, priorities)
        largest = accepted.clamp(max=self.largest_priority).amax()
        self.max_priority.copy_(torch.maximum(self.max_priority, largest))
        return accepted

    def masses(self, accepted: Tensor) -> Tensor:
        """Masses of accepted priorities; int64, shape of `accepted`."""
        return self.sums.masses(accepted, self._alpha)

    def update(self, leaves: Tensor, is_live: Tensor, priorities: Tensor) -> None:
        """Set the priorities of those leaves that are live; all arguments ``[B]``."""
        priorities = torch.where(is_live, priorities, 0.0)
        accepted = self.accept(priorities, torch.full_like(self.max_priority, -1.0))
        leaves = torch.where(is_live & (accepted >= 0), leaves, self.sums.waste)
        self.sums.assign(leaves, self.masses(accepted))

    def sample(self, uniform: Tensor) -> Tensor:
        """Sample leaves in proportion to their masses by random numbers; float64 ``[B]``."""
        size = len(uniform)
        return self.sums.sample((torch.arange(size, device=uniform.device) + uniform) / size)

    def weigh(
        self, leaves: Tensor, num_valid: Tensor | int, is_usable: Tensor, beta: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        """Importance weights over the largest of them, and probabilities; float32 ``[B]`` each.

        `is_usable`, bool ``[B]``, is false where a weight must be 0.
        """
        total = self.sums.total().clamp(min=1)
        probabilities = self.sums.leaves[leaves].to(torch.float64) / total.to(torch.float64)
        weights = (num_valid * probabilities).clamp(min=_TINY).pow(-beta)
        weights = torch.where((probabilities > 0) & is_usable, weights, 0.0)
        weights = weights / weights.amax().clamp(min=_TINY)
        return weights.to(torch.float32), probabilities.to(torch.float32)
