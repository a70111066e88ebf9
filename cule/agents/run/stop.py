"""Requests to stop a training run, by SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import torch

from cule.agents.parts.distributed import max_over_ranks, world_size
from cule.signals import END, signals_call

#: Seconds from SIGTERM to the interruption of a round or evaluation that has not ended, and from
#: there to that of saving.
PATIENCE_S = 3.0
SAVE_PATIENCE_S = 1.5


class TimeIsUp(KeyboardInterrupt):
    """A round, an evaluation or saving has not ended in time after SIGTERM."""


class StopRequest:
    """Turns the first signal of `END` into a flag; another interrupts immediately.

    `PATIENCE_S` after SIGTERM, which systems follow by SIGKILL, what runs is interrupted, and again
    every `SAVE_PATIENCE_S`.

    Attributes:
        is_set: Whether this process was asked to stop.
        kind: The signal; 0 without one.
    """

    def __init__(self) -> None:
        """Start without a request."""
        self.is_set = False
        self.kind = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the context, in the main thread."""
        with signals_call(self._receive, (*END, signal.SIGALRM)):
            try:
                yield
            finally:
                if self.is_set:
                    signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _receive(self, kind: int) -> None:
        if kind == signal.SIGALRM:
            raise TimeIsUp
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set, self.kind = True, kind
        if kind == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_S, SAVE_PATIENCE_S)

    def is_set_on_any_rank(self, device: torch.device) -> bool:
        """Whether any process was asked to stop."""
        if world_size() == 1:
            return self.is_set
        wanted = max_over_ranks(torch.tensor(float(self.is_set), device=device))
        return float(wanted) > 0.0
