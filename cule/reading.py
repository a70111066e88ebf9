"""Reading what comes from outside: its sizes, counts and depths are bounded before memory is taken.

For rules, ROMs and archives of ROMs, datasets, snapshots, archives of `cule.search`, checkpoints,
weights and the files of a run. Only regular files are opened. What is wrong is a ValueError, which
the caller names and turns into an error of its own kind.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cule.errors import InvalidArgumentError, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# --- Limits: each with its unit in its name ------------------------------------------------------

#: A ROM, decompressed.
MAX_ROM_BYTES = 512 * 1024
#: Members of a zip archive of ROMs that are read.
MAX_ZIP_MEMBERS = 10_000

#: A rules file.
MAX_RULES_BYTES = 1_000_000
#: Dots of a line of TOML outside texts: each is a table in the one before, in quadratic time.
MAX_LINE_DOTS = 16
#: A program of rules, written or translated from numbered steps.
MAX_PROGRAM_CHARS = 100_000
#: Numbered steps: their patterns take quadratic time.
MAX_STEPS_CHARS = 10_000
#: Statements and expressions of a program inside each other.
MAX_PROGRAM_LEVELS = 150

#: Names of the state or of a program; those that are compiled have far fewer.
MAX_PROGRAM_NAMES = 1_000
#: Games of a rules file.
MAX_RULES_TABLES = 1_000

#: Games that one agent plays; each has an environment when it is loaded.
MAX_GAMES = 256

#: Texts of JSON: options of a run, plans of sweeps, records; the header of a dataset.
MAX_JSON_BYTES = 16 * 2**20

#: A snapshot; the largest of any options has 26 MB.
MAX_SNAPSHOT_BYTES = 64 * 2**20
#: Snapshots that are unpacked at once without saying how large they are.
MAX_SNAPSHOTS_BYTES = 2**29
#: Memory of the decompressor of a snapshot.
MAX_XZ_BYTES = 64 * 2**20

#: Steps of the trajectories of a dataset that were recorded together: their actions are in memory.
MAX_DATASET_STEPS = 2**28
#: Episodes of a dataset, and resets by a mask of its trajectories that were recorded together.
MAX_DATASET_EPISODES = 2**21

#: No-ops that begin all cached episodes of a dataset.
MAX_CACHED_NOOPS = 2**17

#: The pickled part of a file of tensors; the tensors are beside it.
MAX_PICKLE_BYTES = 16 * 2**20
#: Values of that part, counted again for each value that they are in, and wherever they are used;
#: a checkpoint has some ten thousand.
MAX_PICKLE_VALUES = 500_000

#: A file of weights of the package cule-zoo; the largest has 1.3 MB.
MAX_ZOO_BYTES = 2**26

#: What deflate makes of one byte.
_DEFLATE_RATIO = 1032

# --- Files ----------------------------------------------------------------------------------------


def as_path(name: str, value: object) -> Path:
    """The path of a file that an argument gives.

    Raises:
        InvalidArgumentError: It is no path, or one that no file can have.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    with contextlib.suppress(UnicodeEncodeError):
        if isinstance(text, str) and text and b"\0" not in os.fsencode(text):
            return Path(text)
    raise InvalidArgumentError(f"{name} is {shown(value)}; it must be the path of a file")


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: It cannot be opened, or is a FIFO, socket or device, which could block.
    """
    check_regular(path, os.stat(path).st_mode)  # opening some devices has effects
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        check_regular(path, os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")  # closes it, also where a signal handler raises before `return`


def check_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Require that `mode`, of `os.stat`, is that of a regular file.

    Raises:
        OSError: It is not.
    """
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_file(path: str | os.PathLike[str], max_bytes: float = math.inf) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is larger.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise ValueError(f"it is larger than {max_bytes:.0f} bytes")
        return file.read() if max_bytes == math.inf else file.read(int(max_bytes))


def read_json(path: str | os.PathLike[str]) -> Any:  # Any: what JSON can hold
    """The content of a file of JSON.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no JSON, or too large.
    """
    return parse_json(read_file(path, MAX_JSON_BYTES))


def parse_json(text: str | bytes) -> Any:  # Any: what JSON can hold
    """The value of a text of JSON.

    Raises:
        ValueError: It is no JSON, too large, or has too many levels.
    """
    if len(text) > MAX_JSON_BYTES:
        raise ValueError(f"JSON of {len(text)} bytes; at most {MAX_JSON_BYTES} are read")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON with too many levels") from None


# --- Compressed bytes ----------------------------------------------------------------------------


def inflate(block: bytes, size: int) -> bytes:
    """The `size` bytes that zlib has compressed.

    Raises:
        ValueError: It is damaged, or holds another number of bytes.
    """
    if size > _DEFLATE_RATIO * len(block):
        raise ValueError(f"a block of {len(block)} bytes cannot hold {size} bytes")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(block, size + 1)
    except zlib.error as error:
        raise ValueError(f"a block is not readable: {error}") from None
    if len(data) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"a block does not hold the {size} bytes of its header")
    return data


def unxz(entry: bytes, max_bytes: int) -> bytes:
    """The bytes of one stream of xz.

    Raises:
        ValueError: It is damaged, or holds more.
        ImportError: This Python was built without lzma.
    """
    import lzma

    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_BYTES)
        data = unpacker.decompress(entry, max_bytes + 1)
    except (lzma.LZMAError, TypeError, EOFError) as error:
        raise ValueError(str(error)) from None
    if len(data) > max_bytes:
        raise ValueError(f"an entry holds more than {max_bytes} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("an entry is no whole stream of xz")
    return data


def read_packed(file: IO[bytes], max_bytes: int) -> bytes:
    """At most `max_bytes` and one byte of a file that gzip may have compressed.

    Raises:
        OSError, EOFError, zlib.error: It is damaged.
    """
    data = file.read(max_bytes + 1)
    if data.startswith(b"\x1f\x8b"):
        file.seek(0)
        data = gzip.GzipFile(fileobj=file).read(max_bytes + 1)
    return data


# --- Archives -------------------------------------------------------------------------------------


def stored_members(archive: zipfile.ZipFile, num_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive, none of which is compressed, by name.

    Args:
        archive: The archive.
        num_bytes: Its size.

    Raises:
        ValueError: One is compressed or encrypted, two have one name, or they overlap.
    """
    members = {member.filename: member for member in archive.infolist()}
    if len(members) < len(archive.infolist()):
        raise ValueError("it has two members of one name")
    for member in members.values():
        if (
            member.compress_type != zipfile.ZIP_STORED
            or member.file_size != member.compress_size
            or member.flag_bits & 1
            or member.header_offset < 0
        ):
            raise ValueError(f"{shown(member.filename)} is compressed, encrypted or outside")
    if sum(member.file_size for member in members.values()) > num_bytes:
        raise ValueError("its members overlap")
    return members


def read_arrays(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a file of `numpy.savez`, which are not objects.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or some are missing.
    """
    with open_regular(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = stored_members(archive, num_bytes)
                missing = [name for name in names if f"{name}.npy" not in members]
                if missing:
                    raise ValueError(f"it has no {', '.join(missing)}")
                return {name: _array(archive.read(members[f"{name}.npy"])) for name in names}
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
            raise ValueError(str(error)) from None


def _array(data: bytes) -> NDArray[np.generic]:
    """The array of an .npy file."""
    import io

    import numpy as np

    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"an array of version {version}")
    try:
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"the header of an array: {error}") from None
    if dtype.hasobject or is_fortran or dtype.itemsize == 0 or any(n < 0 for n in shape):
        raise ValueError(f"an array of {dtype} that is not plain numbers in C order")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"an array of shape {shape} in {len(data)} bytes")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape)
