"""Errors of environments, each also the kind that ale-py or Gymnasium raises in the same place.

Code written for ``ale_py`` may catch ``AssertionError`` around a badly shaped action,
``RuntimeError`` around an unknown setting, or ``gymnasium.error.Error`` around a bad keyword. Every
class here is such a kind and a `cule.CuleError` at once.
"""

from __future__ import annotations

import gymnasium

from cule import _core
from cule.errors import (
    ClosedError,
    CuleError,
    InvalidActionError,
    InvalidArgumentError,
    NotResetError,
    OutOfMemoryError,
    ThreadStartError,
    UnsupportedRomError,
)


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument is of the wrong type."""


class SettingError(InvalidArgumentError, RuntimeError):
    """A setting, mode, difficulty or RAM index that this console does not have."""


class GymArgumentError(InvalidArgumentError, gymnasium.error.Error):
    """A keyword of `AtariEnv`, or `frameskip`, is outside its allowed values."""


class EnvIndexError(InvalidArgumentError, IndexError):
    """The index of an environment that does not exist."""


class ActionShapeError(InvalidActionError, AssertionError):
    """Actions are of the wrong kind, dtype or shape."""


class ActionRangeError(InvalidActionError, IndexError):
    """An action is no index into the action set, or no finite point of the action box."""


class CallOrderError(CuleError, RuntimeError):
    """A call came at a time when it has no meaning."""


#: Errors of the native module, and the kinds of `CuleError` that they become.
_KINDS: tuple[tuple[type[Exception], type[CuleError]], ...] = (
    (_core.UnsupportedRomError, UnsupportedRomError),
    (_core.ModeUnreachableError, SettingError),
    (_core.NotReadyError, NotResetError),
    (_core.CallOutOfTurnError, CallOrderError),
    (_core.BatchClosedError, ClosedError),
    (_core.ThreadStartError, ThreadStartError),
)


class NativeErrors:
    """A context that turns errors of the native module into kinds of `CuleError`.

    It is a class without state, because a generator would cost a step of one environment more.
    """

    __slots__ = ("_value_error",)

    def __init__(self, value_error: type[CuleError] = InvalidArgumentError) -> None:
        """Choose what a ``ValueError`` becomes."""
        self._value_error = value_error

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Raise the kind of `CuleError`; every other error passes."""
        if error is None or isinstance(error, CuleError):
            return
        for native, ours in _KINDS:
            if isinstance(error, native):
                raise ours(str(error)) from None
        if isinstance(error, ValueError):
            raise self._value_error(str(error)) from None
        if isinstance(error, MemoryError):
            raise OutOfMemoryError(
                "memory ran out; make fewer environments, or use fewer num_reset_states"
            ) from None


#: The context for every call but those that restore snapshots.
native_errors = NativeErrors()
