"""Stopping a run on SIGINT or SIGTERM, after a complete round."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import torch

from cule.agents.training.distributed import max_over_ranks, world_size


class StopRequest:
    """Turns the first SIGINT or SIGTERM into a flag; a second one interrupts immediately.

    Attributes:
        is_set: Whether this process was asked to stop.
    """

    def __init__(self) -> None:
        """Start without a request."""
        self.is_set = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the context, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        for kind in before:
            signal.signal(kind, self._receive)
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _receive(self, kind: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True

    def is_set_on_any_rank(self, device: torch.device) -> bool:
        """Whether any process was asked to stop."""
        if world_size() == 1:
            return self.is_set
        wanted = max_over_ranks(torch.tensor(float(self.is_set), device=device))
        return float(wanted) > 0.0
