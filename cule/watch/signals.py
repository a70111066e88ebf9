"""Signals that end a command after its current step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def signals_call(stop: Callable[[], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM by calling a function."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        kind: signal.signal(kind, lambda *_: stop()) for kind in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
