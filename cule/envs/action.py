"""The 18 actions of one player, and the joystick directions they are made of."""

from __future__ import annotations

from enum import IntEnum


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


#: Number that ALE knows beside the 18 actions: the console's RESET switch. It acts as no-op.
RESET_ACTION = 40

_BY_DIRECTION: dict[tuple[int, int], tuple[Action, Action]] = {
    # (left -1 .. right 1, down -1 .. up 1): without and with FIRE
    (-1, -1): (Action.DOWNLEFT, Action.DOWNLEFTFIRE),
    (-1, 0): (Action.LEFT, Action.LEFTFIRE),
    (-1, 1): (Action.UPLEFT, Action.UPLEFTFIRE),
    (0, -1): (Action.DOWN, Action.DOWNFIRE),
    (0, 0): (Action.NOOP, Action.FIRE),
    (0, 1): (Action.UP, Action.UPFIRE),
    (1, -1): (Action.DOWNRIGHT, Action.DOWNRIGHTFIRE),
    (1, 0): (Action.RIGHT, Action.RIGHTFIRE),
    (1, 1): (Action.UPRIGHT, Action.UPRIGHTFIRE),
}


def joystick_action(horizontal: int, vertical: int, fire: bool) -> Action:
    """The action of a direction and the button.

    Args:
        horizontal: -1 left, 0 centre, 1 right.
        vertical: -1 down, 0 centre, 1 up.
        fire: Whether the button is pressed.
    """
    return _BY_DIRECTION[horizontal, vertical][fire]
