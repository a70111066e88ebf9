"""Imports that wait until they are needed, or that may fail.

The modules of a package are imported when their names are first used (PEP 562). A package so stays
cheap to import, while ``from cule.replay import UniformReplay`` works as ever. Type checkers read
the same names under ``if TYPE_CHECKING:``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cule.errors import MissingPackageError


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
