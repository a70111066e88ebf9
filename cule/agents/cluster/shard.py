"""`Shard`: a part of a prioritized replay memory, with one ring for each of its actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cule.errors import InvalidArgumentError
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay

if TYPE_CHECKING:
    from cule.agents.cluster.acting import Block

#: Ids of a ring have this many bits; those above are the number of the ring.
RING_BITS = 42


class Stored(NamedTuple):
    """Content of a shard, with which it confirms a block."""

    num_valid: int
    """Transitions that can be sampled."""

    max_priority: float
    """Largest priority so far."""

    num_stored: int
    """Steps that have been stored so far."""


class Shard:
    """Rings of transitions, sampled together in proportion to their priorities."""

    def __init__(self, options: dict[str, Any], first_ring: int, actors: Sequence[int]) -> None:
        """Allocate a ring for each actor.

        Args:
            options: Keywords of `PrioritizedOptions` of one ring.
            first_ring: Number of the ring of actor 0; that of actor i is larger by i.
            actors: Indices of the actors.
        """
        torch.set_num_threads(1)
        seed = options["seed"]
        self.rings = {
            first_ring + index: PrioritizedReplay(
                PrioritizedOptions(**{**options, "seed": (seed + first_ring + index) % 2**31})
            )
            for index in actors
        }
        self.next_block = dict.fromkeys(self.rings, 0)
        self.num_stored = 0
        self.generator = torch.Generator().manual_seed(seed + first_ring + min(actors))

    def ready(self) -> None:
        """Return when the memory has been allocated."""

    def insert(self, ring: int, number: int, block: Block) -> Stored:
        """Store block `number` of a ring; each number follows the last one."""
        if number != self.next_block[ring]:
            raise InvalidArgumentError(
                f"number is {number}; the next block of ring {ring} must be {self.next_block[ring]}"
            )
        self.next_block[ring] += 1
        memory = self.rings[ring]
        if block.start is not None:
            memory.start(block.start)
        terminated, truncated, life_lost, first = block.flags
        finals = None
        if len(block.finals):
            finals = np.zeros_like(block.frames)
            finals[truncated] = block.finals
        memory.append_block(
            frames=block.frames,
            actions=block.actions,
            rewards=block.rewards,
            terminated=terminated,
            truncated=truncated if finals is not None else None,
            life_lost=life_lost,
            first=first,
            final_frames=finals,
        )
        # The transitions that these steps completed, as `newest_ids` after each of them.
        num_steps, n = block.rewards.shape
        oldest = memory.head - memory.options.n_step - num_steps + 1
        ids = torch.arange(oldest * n, (oldest + num_steps) * n)
        priorities = torch.from_numpy(np.array(block.priorities)).flatten()
        exist = ids >= 0
        memory.update_priorities(ids[exist], priorities[exist])
        self.num_stored += num_steps * n
        return self.stored()

    def stored(self) -> Stored:
        """Count the content of the shard."""
        rings = self.rings.values()
        return Stored(
            sum(int(ring.num_valid) for ring in rings),
            max(float(ring.max_priority) for ring in rings),
            self.num_stored,
        )

    def sample(self, batch_size: int) -> list[NDArray[Any]] | None:
        """Sample in proportion to the priorities in all rings; the arrays of a `Batch`.

        Returns None if no transition has a priority. Probabilities are those within the shard.
        Weights are 0 for transitions that must not be learned from, and otherwise positive.
        """
        masses = {number: float(ring.total_mass()) for number, ring in self.rings.items()}
        total = sum(masses.values())
        if not total:
            return None
        # One sample from each B-th of the total, as in a single ring.
        fractions = (np.arange(batch_size) + torch.rand((), generator=self.generator).item()) / (
            batch_size
        )
        ends = np.cumsum(list(masses.values())) / total
        counts = np.bincount(np.searchsorted(ends[:-1], fractions, "right"), minlength=len(masses))
        parts = []
        for (number, ring), count in zip(self.rings.items(), counts.tolist(), strict=True):
            if not count:
                continue
            batch = ring.sample(count)
            parts.append(
                batch._replace(
                    ids=batch.ids + (number << RING_BITS),
                    probabilities=batch.probabilities * (masses[number] / total),
                )
            )
        whole = Batch(*(torch.cat(values) for values in zip(*parts, strict=True)))
        return [value.numpy() for value in whole]

    def update_priorities(self, ids: NDArray[np.int64], priorities: NDArray[Any]) -> None:
        """Set the priorities of transitions of this shard, as `PrioritizedReplay` does."""
        numbers = ids >> RING_BITS
        for number, ring in self.rings.items():
            mine = numbers == number
            ring.update_priorities(ids[mine] & ((1 << RING_BITS) - 1), priorities[mine])
