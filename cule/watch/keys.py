"""From the keys that a person holds to an action of the environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cule.envs import Action
from cule.envs.vector_env import BatchEnv

#: Held keys: a subset of `KEYS`.
Keys = frozenset[str]

#: The joystick's directions and its button.
KEYS: Keys = frozenset({"up", "down", "left", "right", "fire"})

_OPPOSITES = (frozenset({"left", "right"}), frozenset({"up", "down"}))


def joystick_of(env: BatchEnv) -> Callable[[Keys], int | NDArray[np.float32]]:
    """A function from held keys to an index into `action_set`, or to (radius, angle, fire)."""
    if env.config.continuous:
        return polar_action
    presses = [pressed_by(action) for action in env.action_set]
    return lambda keys: nearest_action(keys, presses)


def pressed_by(action: Action) -> Keys:
    """The keys that an action presses."""
    return frozenset(key for key in KEYS if key.upper() in action.name)


def nearest_action(keys: Keys, presses: Sequence[Keys]) -> int:
    """Index of the action that presses the fewest other keys, then misses the fewest held ones."""
    held = _settled(keys)
    return min(
        range(len(presses)),
        key=lambda index: (len(presses[index] - held), len(held - presses[index])),
    )


def polar_action(keys: Keys) -> NDArray[np.float32]:
    """Radius, angle and fire; float32 ``[3]``."""
    held = _settled(keys)
    x, y = ("right" in held) - ("left" in held), ("up" in held) - ("down" in held)
    return np.array([bool(x or y), math.atan2(y, x), "fire" in held], np.float32)


def _settled(keys: Keys) -> Keys:
    """Keys without opposite directions, which cancel."""
    for pair in _OPPOSITES:
        if pair <= keys:
            keys -= pair
    return keys
