"""What the methods of `AtariVectorEnv` are wrapped in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def remember_keywords(init: _Method) -> _Method:
    """Keep which options were given by name, because those win over the preset."""

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        self._keywords = {
            name: value for name, value in kwargs.items() if name not in ("game", "num_envs")
        }
        init(self, *args, **kwargs)

    return cast(_Method, wrapper)


def one_at_a_time(method: _Method) -> _Method:
    """Calls from several threads wait for each other, by the lock of the environment."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, wrapper)
