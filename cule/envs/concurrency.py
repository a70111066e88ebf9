"""Environments in several threads, which take turns, and in forked processes, which have none.

A process that ``os.fork`` has made has neither the threads nor the GPU of its parent.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from cule.envs.errors import CallOrderError


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
    """Public methods of a class, and what pickles it, wait for each other: `one_at_a_time`.

    All but `Forkable.leave_behind`: the thread that held the lock at a fork is not in the child.
    """
    for name, member in list(vars(owner).items()):
        is_call = name == "__getstate__" or not name.startswith("_")
        if inspect.isfunction(member) and is_call and name != "leave_behind":
            setattr(owner, name, one_at_a_time(member))
    return owner


def is_held_elsewhere(lock: threading.RLock) -> bool:
    """Whether another thread was inside a call at the fork that made this process.

    The lock must be replaced then. A signal's handler that raises can leave it held.
    """
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


class Forkable(Protocol):
    """Owner of threads."""

    def leave_behind(self) -> object | None:
        """Disable this object after a fork; called again if a signal's handler raised in it.

        Returns the objects to keep alive: freeing them would block.
        """


_environments: weakref.WeakSet[Forkable] = weakref.WeakSet()
_kept: list[object] = []


def watch_forks(environment: Forkable) -> None:
    """Call `leave_behind` in processes that are forked from this one."""
    _environments.add(environment)


def forked_error() -> CallOrderError:
    """The error of every call of an environment that has been left behind."""
    return CallOrderError(
        "this environment was made before os.fork(), and its threads or GPU are not in this "
        "process; make it here, or start processes with 'spawn' or 'forkserver'"
    )


def _after_fork() -> None:
    try:
        _kept.extend(environment.leave_behind() for environment in _environments)
    except BaseException:  # by a signal's handler: Ctrl-C reaches the child as well
        _after_fork()
        raise


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
