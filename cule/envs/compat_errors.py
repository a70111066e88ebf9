"""Errors of this room that are also the kind ale-py or Gymnasium raises in the same place.

Code written for ``ale_py`` may catch ``AssertionError`` around a badly shaped action,
``RuntimeError`` around an unknown setting, or ``gymnasium.error.Error`` around a bad keyword. Every
class here is such a kind and a `cule.CuleError` at once.
"""

from __future__ import annotations

import gymnasium

from cule.errors import CuleError, InvalidActionError, InvalidArgumentError


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument is of the wrong type."""


class SettingError(InvalidArgumentError, RuntimeError):
    """A setting, mode, difficulty or RAM index that this console does not have."""


class GymArgumentError(InvalidArgumentError, gymnasium.error.Error):
    """A keyword of `AtariEnv` is outside its allowed values."""


class ActionShapeError(InvalidActionError, AssertionError):
    """Actions are of the wrong kind, dtype or shape."""


class ActionRangeError(InvalidActionError, IndexError):
    """An action is no index into the action set, or no finite point of the action box."""


class CallOrderError(CuleError, RuntimeError):
    """A call came at a time when it has no meaning."""
