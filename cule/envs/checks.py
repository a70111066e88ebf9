"""Checks of single arguments: each returns a plain Python object, or names what is wrong."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidArgumentError

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

#: Largest |radius| or |paddle strength|: far beyond any use, and far from overflow.
MAX_STRENGTH = 10_000.0


def as_int(name: str, value: object, low: int = INT32_MIN, high: int = INT32_MAX) -> int:
    """An integer in ``low..high``; Python and numpy integers are accepted, bools are not."""
    if isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be an integer")
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # the point is to find out
    except TypeError:
        raise ArgumentTypeError(
            f"{name} is {value!r} ({type(value).__name__}); it must be an integer"
        ) from None
    if not low <= number <= high:
        allowed = f"{low} or more" if high == INT32_MAX else f"in {low}..{high}"
        raise InvalidArgumentError(f"{name} is {number}; it must be {allowed}")
    return number


def as_bool(name: str, value: object) -> bool:
    """A Python or numpy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(
            f"{name} is {value!r} ({type(value).__name__}); it must be True or False"
        )
    return bool(value)


def as_float(name: str, value: object, low: float, high: float) -> float:
    """A finite number in ``low..high``."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a number")
    try:
        number = float(value)  # type: ignore[arg-type]  # the point is to find out
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{name} is {value!r} ({type(value).__name__}); it must be a number"
        ) from None
    if not (math.isfinite(number) and low <= number <= high):
        raise InvalidArgumentError(f"{name} is {number}; it must be in {low:g}..{high:g}")
    return number


def as_choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidArgumentError(f"{name} is {value!r}; it must be one of {words}")
    return value


def as_decimal6(value: float) -> float:
    """A number after its way through ALE's settings: float32, six significant decimal digits."""
    return float(np.float32(f"{np.float32(value):g}"))
