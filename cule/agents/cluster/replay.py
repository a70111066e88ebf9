"""`ClusterReplay`: the sharded memory as the learner sees it, with prefetched batches."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cule.replay import Batch

if TYPE_CHECKING:
    from cule.agents.cluster.group import ClusterGroup

#: Batches requested ahead of the one that is learned from.
PREFETCH = 2


class _Part(NamedTuple):
    """Requested samples of a shard."""

    shard: int
    ring: int  # first ring of the shard, which another shard in its place does not have
    reply: Any


class ClusterReplay:
    """Batches from all shards; a shard gives an equal share of each.

    A batch was sampled `PREFETCH` updates before it is learned from. Its importance weights are
    those of the probabilities with which it was really sampled.
    """

    def __init__(self, group: ClusterGroup, device: torch.device) -> None:
        """Request nothing yet."""
        self._group, self._device = group, device
        self._requests: deque[list[_Part]] = deque()

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled, as of the last confirmed blocks."""
        return sum(shard.num_valid for shard in self._group.stored)

    @property
    def max_priority(self) -> float:
        """Largest priority so far."""
        return max(shard.max_priority for shard in self._group.stored)

    @property
    def num_ready(self) -> int:
        """Requested batches that have arrived."""
        replies = [part.reply for parts in self._requests for part in parts]
        if not replies:
            return 0
        ray = self._group.ray
        ready, _ = ray.wait(replies, num_returns=len(replies), timeout=0)
        return sum(all(part.reply in ready for part in parts) for parts in self._requests)

    def sample(self, batch_size: int, beta: float) -> Batch:
        """Return the oldest requested batch, and request another.

        Waits for a batch, and for transitions where all shards are empty.
        """
        while True:
            self._group.pump()
            while len(self._requests) <= PREFETCH:
                self._requests.append(self._request(batch_size))
            found = [self._fetch(part) for part in self._requests.popleft()]
            parts = [part for part in found if part is not None]
            if parts:
                return self._merge(parts, batch_size, beta)

    def _request(self, batch_size: int) -> list[_Part]:
        group = self._group
        while not (filled := [i for i, shard in enumerate(group.stored) if shard.num_valid]):
            group.pump(wait=True)
        filled = filled[:batch_size]
        sizes = [batch_size // len(filled)] * len(filled)
        sizes[0] += batch_size - sum(sizes)
        return [
            _Part(i, group.first_rings[i], group.shards[i].sample.remote(size))
            for i, size in zip(filled, sizes, strict=True)
        ]

    def _fetch(self, part: _Part) -> Batch | None:
        """The samples of a shard; None from one that was replaced, or has no priorities yet."""
        group = self._group
        if group.first_rings[part.shard] != part.ring:
            return None
        try:
            arrays = group.result(part.reply)
        except group.gone:
            group.replace_shard(part.shard)
            return None
        return None if arrays is None else Batch(*arrays)

    def _merge(self, parts: list[Batch], batch_size: int, beta: float) -> Batch:
        """A batch from the samples of shards; smaller where a shard was lost."""
        total = sum(len(part.ids) for part in parts)
        probabilities = np.concatenate(
            [np.asarray(part.probabilities, np.float64) * len(part.ids) / total for part in parts]
        )
        usable = np.concatenate([np.asarray(part.weights) > 0 for part in parts])
        raw = np.where(usable, np.maximum(probabilities, 1e-30) ** -beta, 0.0)
        joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        whole = Batch(*map(torch.from_numpy, joined))._replace(
            weights=torch.from_numpy((raw / max(raw.max(), 1e-30)).astype(np.float32)),
            probabilities=torch.from_numpy(probabilities.astype(np.float32)),
        )
        if self._device.type == "cpu":
            return whole
        return Batch(*(x.pin_memory().to(self._device, non_blocking=True) for x in whole))

    def update_priorities(self, ids: Tensor, priorities: Tensor) -> None:
        """Send new priorities to the shards; those of replaced shards have no effect."""
        given = ids.cpu().numpy(), priorities.detach().cpu().numpy()
        for shard, mine in self._group.shards_of(given[0]):
            shard.update_priorities.remote(given[0][mine], given[1][mine])
