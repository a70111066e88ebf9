"""Checks of single arguments: each returns a plain value or an array, or names what is wrong.

Numpy arrays and torch tensors are told apart without importing torch.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cule.envs.errors import ArgumentTypeError
from cule.errors import CuleError, InvalidArgumentError, shown

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

#: A ``numpy.ndarray`` or a ``torch.Tensor`` that a user gives or gets. The values of ``device`` and
#: ``output`` decide which, so a type checker cannot know. Back ends have `NativeArray`.
Array: TypeAlias = Any


class NativeArray(Protocol):
    """Methods that arrays and tensors of a back end share."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""

    @property
    def T(self) -> NativeArray:
        """With the dimensions in the other order."""

    def __getitem__(self, key: object, /) -> NativeArray:
        """A part of it."""

    def __mul__(self, other: NativeArray, /) -> NativeArray:
        """Products."""

    def __lt__(self, other: int, /) -> NativeArray:
        """Where it is less."""

    def __gt__(self, other: int, /) -> NativeArray:
        """Where it is greater."""


INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

#: Largest |radius| or |paddle strength|: far beyond any use, and far from overflow.
MAX_STRENGTH = 10_000.0


def as_int(name: str, value: object, low: int = INT32_MIN, high: int = INT32_MAX) -> int:
    """An integer in ``low..high``; Python and numpy integers are accepted, bools are not."""
    if isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(f"{name} is {shown(value)}; it must be an integer")
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # the point is to find out
    except TypeError:
        raise ArgumentTypeError(
            f"{name} is {shown(value)} ({type(value).__name__}); it must be an integer"
        ) from None
    if not low <= number <= high:
        is_open = high == INT32_MAX and number < low
        allowed = f"{low} or more" if is_open else f"in {low}..{high}"
        raise InvalidArgumentError(f"{name} is {shown(number)}; it must be {allowed}")
    return number


def as_bool(name: str, value: object) -> bool:
    """A Python or numpy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(
            f"{name} is {shown(value)} ({type(value).__name__}); it must be True or False"
        )
    return bool(value)


def as_float(name: str, value: object, low: float, high: float) -> float:
    """A finite number in ``low..high``."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise ArgumentTypeError(f"{name} is {shown(value)}; it must be a number")
    try:
        number = float(value)  # type: ignore[arg-type]  # the point is to find out
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{name} is {shown(value)} ({type(value).__name__}); it must be a number"
        ) from None
    if not (math.isfinite(number) and low <= number <= high):
        raise InvalidArgumentError(f"{name} is {number}; it must be in {low:g}..{high:g}")
    return number


def as_choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be one of {words}")
    return value


def as_decimal6(value: float) -> float:
    """A number after its way through ALE's settings: float32, six significant decimal digits."""
    return float(np.float32(f"{np.float32(value):g}"))


def is_tensor(value: object) -> TypeIs[torch.Tensor]:
    """Whether this is a torch tensor."""
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def to_numpy(value: object) -> Array:
    """The numpy view of a torch tensor (a copy, from another device); any other value as it is.

    Of a subclass of arrays, such as a masked one, the plain array.

    Raises:
        ArgumentTypeError: numpy has no such array: bfloat16, sparse, meta.
    """
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"a tensor of {value.dtype} on {value.device} cannot be read as an array: {error}"
        ) from None


def to_own_numpy(value: object) -> Array:
    """`to_numpy`, also of lists, tuples and arrays of other libraries, such as JAX's.

    Floats of lists become float32.
    """
    is_list = isinstance(value, list | tuple)
    is_other = not (is_list or hasattr(value, "__array__"))
    if isinstance(value, np.ndarray) or is_tensor(value) or is_other:
        return to_numpy(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # of different lengths, or of odd tensors
        return value
    return array.astype(np.float32) if is_list and array.dtype == np.float64 else array


def as_array(
    name: str,
    value: object,
    dtype: str,
    shape: tuple[int, ...],
    wrong_type: type[CuleError] = ArgumentTypeError,
    wrong_shape: type[CuleError] = InvalidArgumentError,
) -> NDArray[Any]:
    """The numpy view of an array or tensor of this dtype ("integers" for any) and shape."""
    array: NDArray[Any] = to_numpy(value)
    is_array = isinstance(array, np.ndarray)
    if not is_array or not (
        array.dtype.kind in "iu" if dtype == "integers" else array.dtype == dtype
    ):
        given = getattr(value, "dtype", None)
        words = type(value).__name__
        words = f"{shown(value)} ({words})" if given is None else f"a {words} of {given}"
        kind = "a boolean numpy array or tensor" if dtype == "bool" else "a numpy array or tensor"
        of = "" if dtype == "bool" else f" of {dtype}"
        raise wrong_type(f"{name} is {words}; it must be {kind}{of}, shape {shape}")
    if array.shape != shape:
        raise wrong_shape(f"{name} has shape {array.shape}; it must have shape {shape}")
    return array
