"""Writing files: complete or absent, and named where a disk is full.

A file is written next to its final place, flushed to disk, and renamed; then its folder, which
holds the name, is flushed. Its writer holds a lock on it meanwhile, so that a partial file without
one was left by a writer that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from cule.errors import InvalidArgumentError, StorageError, shown
from cule.reading import as_path, check_regular, open_regular

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be deleted
    fcntl = None  # type: ignore[assignment]

#: Bytes of a file's name that the name of its partial file has; 255 is the limit of file systems.
MAX_NAME_BYTES = 200

#: Seconds for which a partial file without a lock is left alone.
YOUNG_SECONDS = 2.0


def home() -> Path:
    """The user's home folder; one that does not exist where the system knows none."""
    try:
        return Path.home()
    except RuntimeError:  # as in a container, for a user without a name and HOME
        return Path("/nonexistent")


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path, with the home folder in place of ``~``, or of ``~name`` where the system knows it."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def anchored(path: str | os.PathLike[str] | None) -> Path | None:
    """The path from the root, the same file in any working folder; None if it is empty."""
    return expanded(path).absolute() if path else None


def replace_file(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file that is either complete or absent.

    Raises:
        StorageError: It cannot be written.
    """
    target = _final_place(as_path("path", path))
    part = None
    try:
        with open_part(target) as file:
            part = Path(file.name)
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        _flush_folder(target.parent)
    except (OSError, RuntimeError) as error:  # torch raises a RuntimeError for a failed write
        reason = _reason_of(error)
        if reason is None:
            raise
        if part is not None:
            part.unlink(missing_ok=True)  # its bytes are free then
        raise StorageError(
            f"{target} cannot be written: {reason}; it has {format_bytes(_size_of(write))}, and "
            f"{format_bytes(_free_bytes(target.parent))} are free"
        ) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def open_part(target: Path) -> IO[bytes]:
    """Open a new partial file of a file, locked while it is open.

    Partial files of it that killed writers left are deleted.

    Raises:
        OSError: It cannot be made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    stem = f".{_short(target.name)}."
    remove_leftovers(target.parent, stem)
    file = target.with_name(f"{stem}{secrets.token_hex(4)}.part").open("xb")
    _lock(file.fileno())
    return file


def check_no_device(path: str | os.PathLike[str]) -> None:
    """Require that a file, if it exists, is a regular one, before it is written in its place.

    Raises:
        OSError: It is a folder, FIFO, socket or device.
    """
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, os.stat(path).st_mode)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Require that `replace_file` can make this file, before the work that it is to hold.

    Raises:
        StorageError: It cannot.
    """
    target = _final_place(Path(path))
    part = target.with_name(f".{_short(target.name)}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.touch(exist_ok=False)
        part.unlink()
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from None


def check_new_file(name: str, path: Path) -> None:
    """Require that an option names a file that does not exist and can be written.

    Raises:
        InvalidArgumentError: It exists.
        StorageError: It cannot be written.
    """
    if path.is_file():
        raise InvalidArgumentError(f"{name} is {shown(str(path))}, which exists; name another file")
    check_writable(path)


def _final_place(path: Path) -> Path:
    """The regular file that is replaced, which a symbolic link may name.

    Raises:
        StorageError: Something else has this name: a folder, device, FIFO or socket, or a link that
            leads back to itself.
    """
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise StorageError(f"{path} cannot be written: it is no regular file")
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from None
    return target


def _short(name: str) -> str:
    """The beginning of a name, which leaves room for the rest of the name of a partial file."""
    return os.fsencode(name)[:MAX_NAME_BYTES].decode(errors="ignore")


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
    count = min(count, 10**300)  # a float holds no more
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


def remove_leftovers(folder: Path, stem: str = ".") -> None:
    """Delete partial files of processes that were killed while writing.

    Args:
        folder: Where they are.
        stem: How their names begin.
    """
    for path in list(folder.iterdir()) if folder.is_dir() else ():
        if not (path.name.startswith(stem) and path.name.endswith(".part")):
            continue
        with contextlib.suppress(OSError), open_regular(path) as file:
            # A file this young may be another process's that is about to lock it.
            age = time.time() - os.fstat(file.fileno()).st_mtime
            if _lock(file.fileno()) and (os.name == "nt" or abs(age) > YOUNG_SECONDS):
                path.unlink(missing_ok=True)


def _lock(handle: int) -> bool:
    """Lock an open file for its writer; False: another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
