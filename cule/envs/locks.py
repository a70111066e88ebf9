"""Calls of one environment from several threads."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, cast


class Locked(Protocol):
    """Owner of a lock for all its calls."""

    _lock: threading.RLock


_Method = TypeVar("_Method", bound=Callable[..., object])


def one_at_a_time(method: _Method) -> _Method:
    """Calls from several threads wait for each other, by the lock of the environment."""

    @functools.wraps(method)
    def wrapper(self: Locked, *args: object, **kwargs: object) -> object:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, wrapper)
