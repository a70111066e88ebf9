"""Files of tensors: complete or absent, with a checksum over every byte, and without code.

A file is a zip archive as `torch.save` writes it, so that `torch.load` reads it too. Its comment,
the last bytes of the file, is the CRC-32 of everything before the digits.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO, cast

import torch

from cule.errors import CheckpointError
from cule.files import replace_file

_TAG = b"cule-crc32:"
_DIGITS = 8
_COMMENT_BYTES = len(_TAG) + _DIGITS

#: The end of a zip archive: 22 bytes from the magic on, the last two of them the comment's length.
_END_BYTES, _END_MAGIC, _NO_COMMENT = 22, b"PK\5\6", b"\0\0"

_CHUNK_BYTES = 2**22


def save_tensors(path: str | os.PathLike[str], content: object) -> None:
    """Write tensors and plain values; they replace an existing file once they are complete.

    Raises:
        StorageError: The file cannot be written; an existing one is unchanged.
    """

    def write(file: IO[bytes]) -> None:
        archive = _Archive(file)
        torch.save(content, cast("IO[bytes]", archive))
        archive.end()

    replace_file(path, write)


def load_tensors(path: str | os.PathLike[str], *, mmap: bool = False) -> object:
    """Read the content of a file to the CPU, after comparing its checksum.

    Only tensors and plain values are unpickled, never code. Files without a comment, such as those
    of cule 0.2.0, have no checksum.

    Args:
        path: The file.
        mmap: Map the tensors instead of reading them.

    Raises:
        OSError: There is no such file, or it cannot be read.
        CheckpointError: It is damaged, or no such file.
    """
    path = Path(path)
    with path.open("rb") as file:
        if not _is_whole(file):
            raise CheckpointError(f"{path} is damaged: its checksum is not that of its content")
    try:
        content: object = torch.load(path, map_location="cpu", mmap=mmap, weights_only=True)
    # What torch raises for a damaged file depends on the damage: OSError, IndexError, ...
    except Exception as error:
        raise CheckpointError(f"{path} holds no tensors, or is damaged: {error}") from None
    return content


class _Archive:
    """The file that `torch.save` writes to: sums the bytes, and gives the archive a comment."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sum = 0
        self._last = b""  # two bytes that are not written yet: the length of the comment

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        if view.nbytes < len(_NO_COMMENT):
            self._last, view = b"", memoryview(self._last + bytes(view))
        self._put(self._last)
        self._put(view[: -len(_NO_COMMENT)])
        self._last = bytes(view[-len(_NO_COMMENT) :])
        return memoryview(data).nbytes

    def flush(self) -> None:
        """`end` writes the rest."""

    def end(self) -> None:
        assert self._last == _NO_COMMENT, self._last
        self._put(_COMMENT_BYTES.to_bytes(2, "little") + _TAG)
        self._file.write(b"%08x" % self._sum)

    def _put(self, data: bytes | memoryview) -> None:
        self._sum = zlib.crc32(data, self._sum)
        self._file.write(data)


def _is_whole(file: IO[bytes]) -> bool:
    """Whether the checksum is right, or there is none."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    end = file.read()
    if end.startswith(_END_MAGIC) and end.endswith(_NO_COMMENT):
        return True
    if end[-_COMMENT_BYTES:-_DIGITS] != _TAG:
        return False
    file.seek(0)
    left, found = size - _DIGITS, 0
    while left:
        chunk = file.read(min(left, _CHUNK_BYTES))
        if not chunk:
            return False
        found, left = zlib.crc32(chunk, found), left - len(chunk)
    return end[-_DIGITS:] == b"%08x" % found
