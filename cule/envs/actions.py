"""Actions: the 18 of one player, and checks of a batch of them before anything moves."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.checks import MAX_STRENGTH, as_array, to_own_numpy
from cule.envs.errors import ActionRangeError, ActionShapeError

#: Numbers of a continuous action: radius, angle and fire.
CONTINUOUS_SIZE = 3

#: Up to this many numbers, Python finds the extremes sooner than numpy does.
FEW = 32


class Action(IntEnum):
    """Move of the player's joystick during a frame; numbers and names as in ALE."""

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

    Below ``-threshold`` is left or down, above ``threshold`` right, up or pressed. Opposite
    directions, which a negative threshold allows, cancel.
    """
    return Action(_core.joystick_action(horizontal, vertical, fire, threshold))


def actions_shape(rows: int, num_players: int) -> tuple[int, ...]:
    """Shape of the actions of this many environments: ``[rows]``, or ``[rows, players]``."""
    return (rows,) if num_players == 1 else (rows, num_players)


def discrete_actions(
    actions: object, rows: int, size: int, num_players: int = 1
) -> NDArray[np.int32]:
    """Indices into an action set of this size, int32, contiguous, of `actions_shape`."""
    shape = actions_shape(rows, num_players)
    given = to_own_numpy(actions)
    given = as_array("actions", given, "integers", shape, ActionShapeError, ActionShapeError)
    array = given.copy()  # another thread cannot change it after the checks
    extremes = array.ravel().tolist() if array.size <= FEW else (array.min(), array.max())
    if min(extremes) < 0 or max(extremes) >= size:
        first = int(np.argmax((array < 0) | (array >= size)))
        index = tuple(int(number) for number in np.unravel_index(first, shape))
        place = ", ".join(map(str, index))
        raise ActionRangeError(f"actions[{place}] is {array[index]}; it must be in 0..{size - 1}")
    native: NDArray[np.int32] = array.astype(np.int32)
    return native


def continuous_actions(actions: object, rows: int) -> NDArray[np.float32]:
    """x, y, fire and strength (the radius), float32 ``[rows, 4]``, contiguous.

    `actions` are radius, angle and fire, float32 ``[rows, 3]``.
    """
    shape = (rows, CONTINUOUS_SIZE)
    given = to_own_numpy(actions)
    given = as_array("actions", given, "float32", shape, ActionShapeError, ActionShapeError)
    array = given.copy()
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
