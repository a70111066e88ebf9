"""What the time of a training run goes to: acting, emulating, learning.

On a CPU the host's time tells. A GPU is busy later than it is asked; there, events tell, which the
device stamps as it comes to them, and which are read when a row of progress is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch

#: Rounds on a GPU that are looked at between two readings; each takes a few events.
MOST_ROUNDS = 256


class Clock:
    """Times of the parts of rounds: "collect", "emulate" within it, and "round" around both."""

    def __init__(self, device: torch.device) -> None:
        """Begin.

        Args:
            device: Where the network is.
        """
        self._is_gpu = device.type == "cuda"
        self._begin()
        self._emulates_in_graphs = False

    def _begin(self) -> None:
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, Any, Any]] = []
        self._num_rounds = 0

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        if not self._is_gpu:
            began = time.perf_counter()
            try:
                yield
            finally:
                spent = time.perf_counter() - began
                self._seconds[name] = self._seconds.get(name, 0.0) + spent
            return
        if torch.cuda.is_current_stream_capturing():
            self._emulates_in_graphs = True  # whose replays cannot be timed in parts
            yield
            return
        self._num_rounds += name == "round"
        if self._num_rounds > MOST_ROUNDS:
            yield
            return
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        yield
        end.record()
        self._events.append((name, start, end))

    def read_shares(self) -> dict[str, float]:
        """Shares of the rounds since the last call, which on a GPU have to be over.

        Returns:
            "act_share", "emulate_share" and "learn_share". Without the first two where both are in
            one CUDA graph; nothing where no round was, or others collect.
        """
        if self._events:
            self._events[-1][2].synchronize()
        for name, start, end in self._events:
            self._seconds[name] = self._seconds.get(name, 0.0) + start.elapsed_time(end) / 1000
        whole, collect = (self._seconds.get(name, 0.0) for name in ("round", "collect"))
        emulate = self._seconds.get("emulate", 0.0)
        self._begin()
        if not whole or not collect:
            return {}
        shares = {"learn_share": max(1.0 - collect / whole, 0.0)}
        if not self._emulates_in_graphs:
            shares["act_share"] = (collect - emulate) / whole
            shares["emulate_share"] = emulate / whole
        return shares
