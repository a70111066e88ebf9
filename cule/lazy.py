"""Imports that wait until they are needed, that may fail, or that are refused.

The modules of a package are imported when their names are first used (PEP 562). A package so stays
cheap to import, while ``from cule.replay import UniformReplay`` works as ever. The names are those
that the package imports under ``if TYPE_CHECKING:``, where type checkers find them, too.

This module is imported first. It refuses a folder of sources without the native module, and a
subinterpreter, where the native module would wait for ever.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
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
    package: str, source: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: Name of the package.
        source: Its file, which imports the names under ``if TYPE_CHECKING:``.
    """

    @functools.cache
    def homes() -> dict[str, str]:
        """The module that each name is imported from."""
        body = ast.parse(Path(source).read_text("utf-8")).body
        typed = [item for node in body if isinstance(node, ast.If) for item in node.body]
        imports = [item for item in typed if isinstance(item, ast.ImportFrom)]
        return {alias.name: str(item.module) for item in imports for alias in item.names}

    def load(name: str) -> object:
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs("cule[train]"):
            module = importlib.import_module(homes()[name])
        value: object = getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes()})
