"""Writing files: complete or absent, and named where a disk is full.

A file is written next to its final place, flushed to disk, and renamed; then its folder, which
holds the name, is flushed.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from cule.errors import StorageError


def replace_file(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file that is either complete or absent.

    Raises:
        StorageError: It cannot be written.
    """
    target = Path(path)
    part = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        with part.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        _flush_folder(target.parent)
    except (OSError, RuntimeError) as error:  # torch raises a RuntimeError for a failed write
        reason = _reason_of(error)
        if reason is None:
            raise
        raise StorageError(
            f"{target} cannot be written: {reason}; it has {format_bytes(_size_of(write))}, and "
            f"{format_bytes(_free_bytes(target.parent))} are free"
        ) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def replace_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file that is either complete or absent.

    Raises:
        StorageError: It cannot be written.
    """
    replace_file(path, lambda file: file.write(data))


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file that is either complete or absent.

    Raises:
        StorageError: It cannot be written.
    """
    replace_bytes(path, text.encode())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file in the error about a failed write.

    Raises:
        StorageError: The block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}; {written_and_free(path)}"
        ) from None


def written_and_free(path: Path) -> str:
    """How much of a file was written, and how much space its disk has, as a part of a message."""
    size = format_bytes(path.stat().st_size) if path.is_file() else "none"
    return f"{size} of it written, and {format_bytes(_free_bytes(path.parent))} are free"


def format_bytes(count: int) -> str:
    """A number of bytes in the largest unit that keeps it above 1."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        size = 10 ** (3 * power)
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason_of(error: BaseException | None) -> str | None:
    """Reason of the operating system for a failed write; None for other errors."""
    while error is not None:
        if isinstance(error, OSError):
            return error.strerror or str(error)
        error = error.__cause__ or error.__context__
    return None


def _free_bytes(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


class _Counter(io.RawIOBase):
    """A file that only counts its bytes."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: whatever has a buffer
        size = memoryview(data).nbytes
        self.num_bytes += size
        return size


def _size_of(write: Callable[[IO[bytes]], object]) -> int:
    counter = _Counter()
    write(cast("IO[bytes]", counter))
    return counter.num_bytes


def remove_leftovers(folder: Path) -> None:
    """Delete partial files of a process that was killed while writing."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)
