"""Signals that end a command after its current step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def signals_call(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Handle SIGINT and SIGTERM by calling a function; give the list of those that arrive."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(kind: int, _: FrameType | None) -> None:
        received.append(kind)
        stop()

    before = {kind: signal.signal(kind, receive) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
