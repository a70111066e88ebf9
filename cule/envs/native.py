"""The border to the native module: its plain errors become kinds of `CuleError` here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cule import _core
from cule.envs.refusals import SettingError
from cule.errors import CuleError, InvalidArgumentError, NotResetError, UnsupportedRomError


@contextmanager
def native_errors(
    value_error: type[CuleError] = InvalidArgumentError,
    runtime_error: type[CuleError] = NotResetError,
) -> Iterator[None]:
    """Raise the ValueErrors and RuntimeErrors of native code as kinds of `CuleError`.

    Args:
        value_error: What a ValueError becomes.
        runtime_error: What a RuntimeError becomes.
    """
    try:
        yield
    except CuleError:
        raise
    except _core.UnsupportedRomError as error:
        raise UnsupportedRomError(str(error)) from None
    except _core.ModeUnreachableError as error:
        raise SettingError(str(error)) from None
    except ValueError as error:
        raise value_error(str(error)) from None
    except RuntimeError as error:
        raise runtime_error(str(error)) from None
