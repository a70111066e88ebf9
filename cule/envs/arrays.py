"""Numpy arrays and torch tensors, told apart without importing torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cule.envs.errors import ArgumentTypeError
from cule.errors import CuleError, InvalidArgumentError

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

#: A ``numpy.ndarray`` or a ``torch.Tensor``. The values of ``device`` and ``output`` decide which,
#: so a type checker cannot know.
Array: TypeAlias = Any


def is_tensor(value: object) -> TypeIs[torch.Tensor]:
    """Whether this is a torch tensor."""
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def to_numpy(value: object) -> Array:
    """The numpy view of a torch tensor (a copy, from another device); any other value as it is.

    Raises:
        ArgumentTypeError: numpy has no such array: bfloat16, sparse, meta.
    """
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"a tensor of {value.dtype} on {value.device} cannot be read as an array: {error}"
        ) from None


def as_array(
    name: str,
    value: object,
    dtype: str,
    shape: tuple[int, ...],
    wrong_type: type[CuleError] = ArgumentTypeError,
    wrong_shape: type[CuleError] = InvalidArgumentError,
) -> Array:
    """The numpy view of an array or tensor of this dtype ("integers" for any) and shape."""
    array = to_numpy(value)
    is_array = isinstance(array, np.ndarray)
    if not is_array or not (
        array.dtype.kind in "iu" if dtype == "integers" else array.dtype == dtype
    ):
        given = getattr(value, "dtype", None)
        words = type(value).__name__
        words = f"{value!r} ({words})" if given is None else f"a {words} of {given}"
        kind = "a boolean numpy array or tensor" if dtype == "bool" else "a numpy array or tensor"
        of = "" if dtype == "bool" else f" of {dtype}"
        raise wrong_type(f"{name} is {words}; it must be {kind}{of}, shape {shape}")
    if array.shape != shape:
        raise wrong_shape(f"{name} has shape {array.shape}; it must have shape {shape}")
    return array
