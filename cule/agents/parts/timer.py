"""Fractions of training time: acting, stepping environments, learning.

On a CPU the host clock is exact. A GPU runs behind the host, so CUDA events are recorded instead
and read when a row of progress is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

#: Rounds on a GPU that are timed between two readings; each takes a few events.
MAX_ROUNDS = 256


class PhaseTimer:
    """Times the phases of rounds: "collect", "emulate" inside it, and "round" around both."""

    def __init__(self, device: torch.device, *, separates_emulation: bool = True) -> None:
        """Start at zero; emulation on a GPU that `device` does not wait for cannot be separated."""
        self._device = device
        self._separates_emulation = separates_emulation
        self._reset()

    def _reset(self) -> None:
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._num_rounds = 0
        self._is_timing = False

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body as a phase; on a GPU only inside a round."""
        if self._device.type != "cuda":
            start_s = time.perf_counter()
            try:
                yield
            finally:
                self._add(name, time.perf_counter() - start_s)
            return
        if torch.cuda.is_current_stream_capturing():
            self._separates_emulation = False  # the phases of a CUDA graph cannot be timed
            yield
            return
        is_round = name == "round"
        if is_round:
            self._num_rounds += 1
            self._is_timing = self._num_rounds <= MAX_ROUNDS
        if not self._is_timing:
            yield
            return
        start = self._record()
        yield
        self._events.append((name, start, self._record()))
        if is_round:
            self._is_timing = False

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def _record(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        # Not the current stream of torch's current device, which may be another GPU.
        event.record(torch.cuda.current_stream(self._device))
        return event

    def read_shares(self) -> dict[str, float]:
        """Fractions of the rounds since the last call, which must be complete.

        "learn_share" alone where a CUDA graph holds whole steps or emulation cannot be separated;
        empty without a timed round, or where other processes collect.
        """
        if self._events:
            self._events[-1][2].synchronize()
        for name, start, end in self._events:
            self._add(name, start.elapsed_time(end) / 1000)
        whole, collect, emulate = (
            self._seconds.get(name, 0.0) for name in ("round", "collect", "emulate")
        )
        self._reset()
        if not whole or not collect:
            return {}
        shares = {"learn_share": max(1.0 - collect / whole, 0.0)}
        if self._separates_emulation:
            shares["act_share"] = (collect - emulate) / whole
            shares["emulate_share"] = emulate / whole
        return shares
