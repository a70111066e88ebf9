"""Actions: the 18 of one player, and checks of a batch of them before anything moves."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.arrays import to_numpy
from cule.envs.checks import MAX_STRENGTH
from cule.envs.errors import ActionRangeError, ActionShapeError

#: Numbers of a continuous action: radius, angle and fire.
CONTINUOUS_SIZE = 3

#: Up to this many numbers, Python finds the extremes sooner than numpy does.
FEW = 32


class Action(IntEnum):
    """What the player's joystick does during a frame; numbers and names as in ALE."""

    NOOP = 0
    FIRE = 1
    UP = 2
    RIGHT = 3
    LEFT = 4
    DOWN = 5
    UPRIGHT = 6
    UPLEFT = 7
    DOWNRIGHT = 8
    DOWNLEFT = 9
    UPFIRE = 10
    RIGHTFIRE = 11
    LEFTFIRE = 12
    DOWNFIRE = 13
    UPRIGHTFIRE = 14
    UPLEFTFIRE = 15
    DOWNRIGHTFIRE = 16
    DOWNLEFTFIRE = 17


def joystick_action(
    horizontal: float, vertical: float, fire: float, threshold: float = 0.5
) -> Action:
    """The action of a joystick position and the button.

    Args:
        horizontal: Below ``-threshold`` is left, above ``threshold`` is right.
        vertical: Below ``-threshold`` is down, above ``threshold`` is up.
        fire: Above ``threshold`` the button is pressed.
        threshold: Where a direction or the button counts as pressed.
    """
    return Action(_core.joystick_action(horizontal, vertical, fire, threshold))


def discrete_actions(actions: object, rows: int, size: int) -> NDArray[np.int32]:
    """Indices into the action set.

    Args:
        actions: Integers, shape ``[rows]``, a numpy array or a torch tensor.
        rows: Number of environments.
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
    extremes = array.tolist() if rows <= FEW else (array.min(), array.max())
    if min(extremes) < 0 or max(extremes) >= size:
        index = int(np.argmax((array < 0) | (array >= size)))
        raise ActionRangeError(f"actions[{index}] is {array[index]}; it must be in 0..{size - 1}")
    return array.astype(np.int32)


def continuous_actions(actions: object, rows: int) -> NDArray[np.float32]:
    """Joystick positions, buttons and paddle strengths.

    Args:
        actions: Radius, angle and fire, float32, shape ``[rows, 3]``, a numpy array or a torch
            tensor.
        rows: Number of environments.

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
