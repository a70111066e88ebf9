"""Imports that wait until they are needed, that may fail, or that are refused.

The modules of a package are imported when their names are first used (PEP 562). A package so stays
cheap to import, while ``from cule.replay import UniformReplay`` works as ever. Type checkers read
the same names under ``if TYPE_CHECKING:``.

This module is imported first. It refuses a folder of sources without the native module, and a
subinterpreter, where the native module would wait for ever.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cule.errors import MissingPackageError


def _is_main_interpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13, and before
        with suppress(ImportError, AttributeError):
            interpreters = importlib.import_module(name)
            return bool(interpreters.get_current() == interpreters.get_main())
    return True


if not _is_main_interpreter():
    raise ImportError(
        "cule cannot be used in a subinterpreter; use processes, or the main interpreter"
    )

if importlib.util.find_spec("cule._core") is None:
    raise ImportError(
        f"{Path(__file__).parent} holds the sources of cule without its native module; start "
        "Python in another folder, where the installed package is found, or build here: "
        "pip install -e ."
    )


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Turn a failed import into the command that installs `package`.

    Raises:
        MissingPackageError: The import inside failed.
    """
    try:
        yield
    except ImportError as error:
        if isinstance(error, MissingPackageError):
            raise
        raise MissingPackageError(f"{error}; pip install {package!r}") from error


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: Name of the package.
        modules: Modules of the package, and the names that each defines for users.
    """
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs("cule[train]"):
            module = importlib.import_module(homes[name])
        value: object = getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes})
