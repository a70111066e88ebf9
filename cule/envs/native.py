"""The border to the native module: its plain errors become kinds of `CuleError` here."""

from __future__ import annotations

from cule import _core
from cule.envs.compat_errors import SettingError
from cule.errors import CuleError, InvalidArgumentError, NotResetError, UnsupportedRomError


class native_errors:
    """Raise the ValueErrors and RuntimeErrors of native code as kinds of `CuleError`.

    A class and no generator, which is most of what a step of one console would spend here.
    """

    __slots__ = ("_runtime_error", "_value_error")

    def __init__(
        self,
        value_error: type[CuleError] = InvalidArgumentError,
        runtime_error: type[CuleError] = NotResetError,
    ) -> None:
        """Choose the kinds.

        Args:
            value_error: What a ValueError becomes.
            runtime_error: What a RuntimeError becomes.
        """
        self._value_error = value_error
        self._runtime_error = runtime_error

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Raise another error in place of one of native code."""
        if error is None or isinstance(error, CuleError):
            return
        if isinstance(error, _core.UnsupportedRomError):
            raise UnsupportedRomError(str(error)) from None
        if isinstance(error, _core.ModeUnreachableError):
            raise SettingError(str(error)) from None
        if isinstance(error, ValueError):
            raise self._value_error(str(error)) from None
        if isinstance(error, RuntimeError):
            raise self._runtime_error(str(error)) from None
