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


class PhaseTimer:
    """Times of the parts of rounds: "collect", "emulate" within it, and "round" around both."""

    def __init__(self, device: torch.device, *, tells_emulation: bool = True) -> None:
        """Begin.

        Args:
            device: Where the network is.
            tells_emulation: False where consoles are on a GPU that this device does not wait for.
        """
        self._device = device
        self._tells_emulation = tells_emulation
        self._begin()

    def _begin(self) -> None:
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, Any, Any]] = []
        self._num_rounds = 0
        self._is_looking = False

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside, on a GPU only within rounds."""
        if self._device.type != "cuda":
            began = time.perf_counter()
            try:
                yield
            finally:
                spent = time.perf_counter() - began
                self._seconds[name] = self._seconds.get(name, 0.0) + spent
            return
        if torch.cuda.is_current_stream_capturing():
            self._tells_emulation = False  # replays of a graph cannot be timed in parts
            yield
            return
        is_round = name == "round"
        if is_round:
            self._num_rounds += 1
            self._is_looking = self._num_rounds <= MOST_ROUNDS
        if not self._is_looking:
            yield
            return
        start = self._stamp()
        yield
        self._events.append((name, start, self._stamp()))
        if is_round:
            self._is_looking = False

    def _stamp(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))  # torch's own may be another GPU's
        return event

    def read_shares(self) -> dict[str, float]:
        """Shares of the rounds since the last call, which on a GPU have to be over.

        Returns:
            "act_share", "emulate_share" and "learn_share". Without the first two where both are in
            one CUDA graph, or emulation is not told; nothing where no round was, or others collect.
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
        if self._tells_emulation:
            shares["act_share"] = (collect - emulate) / whole
            shares["emulate_share"] = emulate / whole
        return shares
