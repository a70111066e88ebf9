"""Environments in a process that ``os.fork`` has made: their threads, or GPU, are not in it."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from cule.envs.errors import CallOrderError


class Forkable(Protocol):
    """Owner of threads."""

    def leave_behind(self) -> object | None:
        """Disable this object after a fork.

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
    _kept.extend(environment.leave_behind() for environment in _environments)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
