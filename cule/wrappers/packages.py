"""Errors of an adapter whose library is not installed."""

from __future__ import annotations

from collections.abc import Iterator
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
        raise MissingPackageError(f"{error}; pip install {package!r}") from error
