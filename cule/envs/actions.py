"""Checks of a batch of actions before anything moves."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule.envs.checks import MAX_STRENGTH
from cule.envs.compat_errors import ActionRangeError, ActionShapeError, ArgumentTypeError

CONTINUOUS_SIZE = 3  # radius, angle, fire

#: Numbers that Python finds the extremes of sooner than numpy does.
FEW = 32


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(value: Any) -> Any:
    """The numpy view of a torch tensor (a copy, from another device); else the value itself."""
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:  # bfloat16, sparse, meta
        raise ArgumentTypeError(
            f"a tensor of {value.dtype} on {value.device} cannot be read as an array: {error}"
        ) from None


def discrete_actions(actions: Any, rows: int, size: int) -> NDArray[np.int32]:
    """Indices into the action set.

    Args:
        actions: Integers, shape ``[rows]``, a numpy array or a torch tensor.
        rows: Number of consoles.
        size: Number of actions in the set.

    Returns:
        int32 ``[rows]``, contiguous.

    Raises:
        ActionShapeError: Not an array, not of integers, or of another shape.
        ActionRangeError: An index is outside the set.
    """
    array = to_numpy(actions)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        raise ActionShapeError(
            f"actions is {_describe(actions)}; it must be a numpy array or tensor of integers, "
            f"shape ({rows},)"
        )
    if array.shape != (rows,):
        raise ActionShapeError(f"actions has shape {array.shape}; it must be ({rows},)")
    # Of a few consoles a list is looked through before numpy's machinery gets going.
    few = array.tolist() if rows <= FEW else (array.min(), array.max())
    if min(few) < 0 or max(few) >= size:
        index = int(np.argmax((array < 0) | (array >= size)))
        raise ActionRangeError(f"actions[{index}] is {array[index]}; it must be in 0..{size - 1}")
    return array.astype(np.int32)


def continuous_actions(actions: Any, rows: int) -> NDArray[np.float32]:
    """Joystick positions, buttons and paddle strengths.

    Args:
        actions: Radius, angle and fire, float32, shape ``[rows, 3]``, a numpy array or a torch
            tensor.
        rows: Number of consoles.

    Returns:
        x, y, fire and strength (the radius), float32 ``[rows, 4]``, contiguous.

    Raises:
        ActionShapeError: Not a float32 array, or of another shape.
        ActionRangeError: A number is not finite, or beyond any sensible strength.
    """
    array = to_numpy(actions)
    shape = (rows, CONTINUOUS_SIZE)
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise ActionShapeError(
            f"actions is {_describe(actions)}; it must be a numpy array or tensor of float32, "
            f"shape {shape}"
        )
    if array.shape != shape:
        raise ActionShapeError(f"actions has shape {array.shape}; it must be {shape}")
    # Not "all within": a NaN compares false.
    if not np.abs(array).max() <= MAX_STRENGTH:
        row = int(np.argmax(~(np.abs(array) <= MAX_STRENGTH).all(axis=1)))
        raise ActionRangeError(
            f"actions[{row}] is {array[row].tolist()}; (radius, angle, fire) must be finite, and "
            f"at most {MAX_STRENGTH:g} in size"
        )
    radius, angle, fire = array.T
    # By numpy, in 32 bits, as in ale-py: another cosine decides otherwise right at the threshold.
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), fire, radius], axis=1)


def _describe(value: object) -> str:
    dtype = getattr(value, "dtype", None)
    name = type(value).__name__
    return f"a {name} of {dtype}" if dtype is not None else f"{value!r} ({name})"
