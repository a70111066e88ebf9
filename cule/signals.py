"""Signals that end a command after its current step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

#: Signals that ask a command to end: Ctrl-C, and what systems send.
END = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def signals_call(react: Callable[[int], object], kinds: Sequence[int] = END) -> Iterator[list[int]]:
    """Handle signals by calling a function with them; give the list of those that arrive.

    In the main thread; elsewhere none arrive.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(kind: int, _: object) -> None:
        received.append(kind)
        react(kind)

    before = {kind: signal.signal(kind, receive) for kind in kinds}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
