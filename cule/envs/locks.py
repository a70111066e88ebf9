"""Calls of one environment from several threads."""

from __future__ import annotations

import functools
import inspect
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


_Class = TypeVar("_Class", bound=type)


def calls_one_at_a_time(owner: _Class) -> _Class:
    """Public methods of a class, and what pickles it, wait for each other: `one_at_a_time`."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__getstate__"):
            setattr(owner, name, one_at_a_time(member))
    return owner


def is_held_elsewhere(lock: threading.RLock) -> bool:
    """Whether another thread is inside a call; in a forked child, that it was at the fork."""
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False
