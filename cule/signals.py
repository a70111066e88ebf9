"""Signals that end a command after its current step."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Sequence

#: What a terminal sends when it is closed; nothing on Windows.
_HANGUP = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()

#: Signals that ask a command to end: Ctrl-C, what systems send, and that a terminal is closed.
END = (signal.SIGINT, signal.SIGTERM, *_HANGUP)


@contextlib.contextmanager
def signals_call(react: Callable[[int], object], kinds: Sequence[int] = END) -> Iterator[list[int]]:
    """Handle signals by calling a function with them; give the list of those that arrive.

    In the main thread; elsewhere none arrive. Handlers outside of Python stay, and SIGHUP is
    ignored where the process ignores it, as under nohup, and after another signal: shells and the
    system send it twice. Output for a terminal that is closed is discarded.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(kind: int, _: object) -> None:
        if kind in _HANGUP:
            _discard_output_of_closed_terminal()
            if received:
                return
        received.append(kind)
        react(kind)

    def is_ours(kind: int) -> bool:
        handler = signal.getsignal(kind)
        return handler is not None and not (kind in _HANGUP and handler is signal.SIG_IGN)

    before = {kind: signal.signal(kind, receive) for kind in filter(is_ours, kinds)}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _discard_output_of_closed_terminal() -> None:
    """Connect standard streams of a terminal that is closed, where writing fails, to no file."""
    for stream in (1, 2):
        with contextlib.suppress(OSError):  # the stream is closed
            if stat.S_ISCHR(os.fstat(stream).st_mode) and not os.isatty(stream):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream)
                os.close(null)


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Let `END` arrive when the block has ended, which so is never left half done."""
    received: list[int] = []
    try:
        with signals_call(lambda _: None) as received:
            yield
    finally:
        for kind in received:
            signal.raise_signal(kind)
