"""Refuses to be imported in a subinterpreter, where the native module would wait for ever."""

from __future__ import annotations

import contextlib
from importlib import import_module


def _is_main() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13, and before
        with contextlib.suppress(ImportError, AttributeError):
            interpreters = import_module(name)
            return bool(interpreters.get_current() == interpreters.get_main())
    return True


if not _is_main():
    raise ImportError(
        "cule cannot be used in a subinterpreter; use processes, or the main interpreter"
    )
