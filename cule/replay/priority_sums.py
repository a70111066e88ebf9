"""`PrioritySums`: what a priority weighs, summed by blocks, with draws in proportion.

Weights are integers (int64): multiples of a unit of 2**-20. Integer sums do not depend on the order
of addition, so the sum of a block is exactly the sum of its leaves after any number of updates, on
every device, and a draw can never land on a leaf of weight 0 by rounding.

Leaves are cut into blocks. An update writes its leaves and then sums up every block it touched
again, which needs no atomic additions and no care about duplicates. A draw looks up its block in
the prefix sums of all blocks, then its leaf in the prefix sums of that block: two vectorised
look-ups instead of one a level of a tree.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from cule import _core
from cule.replay import native
from cule.replay.native import as_array

#: Leaves a block, 128. Small blocks make updates and the second step of draws cheap, large ones the
#: first step.
BLOCK_LEAVES: int = _core.BLOCK_LEAVES

#: Integer units of a weight of 1.
UNITS: int = _core.PRIORITY_UNITS

#: All weights together stay below this, so that no sum overflows.
MAX_TOTAL_UNITS = 2**62


class PrioritySums:
    """Weights of leaves; see the top of this file.

    Attributes:
        leaves: Weight of every leaf in units; int64 ``[num_leaves rounded up + 1]``. The last one
            is waste: it counts for nothing.
        block_sums: Their sums; int64 ``[blocks]``.
        max_units: Most that one leaf may weigh.
        waste: Index of the waste leaf, for writes that shall have no effect.
        native: The same for the processor, over the same leaves; None on other devices.
    """

    def __init__(self, num_leaves: int, device: torch.device) -> None:
        """All weights are 0.

        Args:
            num_leaves: Leaves.
            device: Where they live.
        """
        num_blocks = -(-num_leaves // BLOCK_LEAVES)
        self.waste = num_blocks * BLOCK_LEAVES
        # No more than float64 holds exactly.
        self.max_units = min(MAX_TOTAL_UNITS // self.waste, 2**52)
        self.leaves = torch.zeros(self.waste + 1, dtype=torch.int64, device=device)
        self.block_sums = torch.zeros(num_blocks, dtype=torch.int64, device=device)
        self.native: _core.PrioritySums | None = None
        if native.is_used(device):
            views = as_array(self.leaves), as_array(self.block_sums)
            self.native = _core.PrioritySums(*views, self.max_units)

    @property
    def _blocks(self) -> Tensor:
        return self.leaves[: self.waste].view(-1, BLOCK_LEAVES)

    def total(self) -> Tensor:
        """Sum of all weights, in units; int64 scalar."""
        if self.native is not None:
            return torch.tensor(self.native.total())
        return self.block_sums.sum()

    def units(self, priorities: Tensor, alpha: float) -> Tensor:
        """What priorities weigh: ``p ** alpha`` in units.

        Args:
            priorities: At least 0; any shape, floating. Infinity and everything else too large for
                `max_units` weighs `max_units`. 0 weighs 0 whatever alpha is; anything above 0
                weighs at least one unit.
            alpha: Exponent.

        Returns:
            int64, as `priorities`.
        """
        wanted = priorities.to(torch.float64).pow(alpha) * UNITS
        weighed = wanted.clamp(min=1.0, max=float(self.max_units)).round().to(torch.int64)
        return torch.where(priorities > 0, weighed, 0)

    def largest_priority(self, alpha: float) -> float:
        """The priority that weighs `max_units`; the largest float64 where it would be more."""
        if alpha == 0:
            return sys.float_info.max
        exponent = math.log2(self.max_units / UNITS) / alpha
        return 2.0**exponent if exponent < 1023 else sys.float_info.max

    def assign(self, index: Tensor, units: Tensor) -> None:
        """Set some leaves; of several values for one leaf the largest counts.

        Args:
            index: Leaves, or `waste`; int64 ``[B]``.
            units: Their weights; int64 ``[B]``.
        """
        if self.native is not None:
            self.native.assign(as_array(index.contiguous()), as_array(units.contiguous()))
            return
        self.leaves.index_fill_(0, index, 0)
        self.leaves.scatter_reduce_(0, index, units, "amax")
        self.resum(index // BLOCK_LEAVES)

    def resum(self, blocks: Tensor) -> None:
        """Sum up some blocks again; numbers past the last block mean the last."""
        blocks = blocks.clamp(max=self.block_sums.shape[0] - 1)
        sums = self._blocks.index_select(0, blocks).sum(dim=1)
        self.block_sums.index_copy_(0, blocks, sums)

    def rebuild(self) -> None:
        """Sum up everything again, after leaves have been written from outside."""
        if self.native is not None:
            self.native.restore()
            return
        self.block_sums.copy_(self._blocks.sum(dim=1))

    def draw(self, fractions: Tensor) -> Tensor:
        """Leaves at some fractions of the total weight.

        Args:
            fractions: From 0 to below 1; float64 ``[B]``.

        Returns:
            int64 ``[B]``: leaves, each in proportion to its weight. If all weights are 0, any.
        """
        if self.native is not None:
            return torch.from_numpy(self.native.draw(as_array(fractions.contiguous())))
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
