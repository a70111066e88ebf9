"""Shuffled batches of a playback, through a window of bounded size."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cule.datasets.playback import ReplayStep
from cule.device import free_host_bytes
from cule.envs.checks import Array
from cule.errors import CapacityError
from cule.files import format_bytes


class Transitions(NamedTuple):
    """A batch of B transitions: numpy arrays, or torch tensors on the CPU."""

    obs: Array
    """Observations before the step; uint8 ``[B, ...]``."""

    action: Array
    """Indices into `Dataset.action_set`; int64 ``[B]``."""

    reward: Array
    """As of `AtariVectorEnv.step`; int32 ``[B]``."""

    next_obs: Array
    """Observations after the step; uint8 ``[B, ...]``."""

    terminated: Array
    """The episode terminated; bool ``[B]``."""

    truncated: Array
    """The episode was truncated; bool ``[B]``."""

    trajectory: Array
    """Which trajectories of the dataset; int64 ``[B]``."""

    step: Array
    """Which steps of them; int64 ``[B]``."""


class _Window:
    """Transitions that wait to be drawn."""

    def __init__(self, capacity: int, seed: int) -> None:
        self._capacity = capacity
        self._rng = np.random.default_rng(seed)
        self._columns: tuple[NDArray[np.generic], ...] = ()
        self.size = 0

    def add(self, rows: tuple[NDArray[np.generic], ...]) -> None:
        if not self._columns:
            wanted = self._capacity * sum(r.itemsize * math.prod(r.shape[1:]) for r in rows)
            if wanted > (free := free_host_bytes()):
                raise CapacityError(
                    f"a window of {self._capacity:,} transitions needs {format_bytes(wanted)}; "
                    f"{format_bytes(free)} are free"
                )
            self._columns = tuple(np.empty((self._capacity, *r.shape[1:]), r.dtype) for r in rows)
        stop = self.size + len(rows[0])
        for column, row in zip(self._columns, rows, strict=True):
            column[self.size : stop] = row
        self.size = stop

    def draw(self, count: int) -> Transitions:
        """Take out random transitions; the last ones fill their places."""
        chosen = self._rng.choice(self.size, count, replace=False)
        batch = Transitions(*(column[chosen] for column in self._columns))
        left = self.size - count
        holes = np.sort(chosen[chosen < left])
        tail = np.setdiff1d(np.arange(left, self.size), chosen)
        for column in self._columns:
            column[holes] = column[tail]
        self.size = left
        return batch


def shuffled(
    steps: Iterator[ReplayStep], num_envs: int, batch_size: int, window: int, seed: int
) -> Iterator[Transitions]:
    """Every valid transition once, in random order within the window; the last batch is smaller."""
    waiting = _Window(window + num_envs, seed)
    for item in steps:
        ids = item.trajectory
        columns = (
            *(item.obs, item.action, item.reward, item.next_obs, item.terminated, item.truncated),
            *(ids, np.full(len(ids), item.step, np.int64)),
        )
        waiting.add(tuple(column[item.valid] for column in columns))
        while waiting.size > window:
            yield waiting.draw(batch_size)
    while waiting.size:
        yield waiting.draw(min(batch_size, waiting.size))


def as_tensors(batches: Iterator[Transitions]) -> Iterator[Transitions]:
    """The same batches as torch tensors, which share the memory of the arrays."""
    torch = importlib.import_module("torch")
    for batch in batches:
        yield Transitions(*(torch.from_numpy(column) for column in batch))
