"""Files of tensors: complete or absent, with a checksum over every byte, and without code.

A file is a zip archive as `torch.save` writes it, so that `torch.load` reads it too. Its comment,
the last bytes of the file, is the CRC-32 of everything before the digits. `load_tensors` reads it
by itself: what it allocates is not more than the file holds.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import torch

from cule.errors import CheckpointError
from cule.files import replace_file
from cule.pickles import unpickle
from cule.reading import MAX_PICKLE_BYTES, as_path, open_regular, stored_members

_TAG = b"cule-crc32:"
_DIGITS = 8
_COMMENT_BYTES = len(_TAG) + _DIGITS

#: The end of a zip archive: 22 bytes from the magic on, the last two of them the comment's length.
_END_BYTES, _END_MAGIC, _NO_COMMENT = 22, b"PK\5\6", b"\0\0"

#: The head of a member: magic, and from byte 26 on the lengths of its name and its extra field.
_HEAD, _HEAD_MAGIC = struct.Struct("<26sHH"), b"PK\3\4"

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
    path = as_path("path", path)
    try:
        with open_regular(path) as file:
            if not _is_whole(file):
                raise ValueError("its checksum is not that of its content")
            return _Reader(path, file, mmap).content()
    except (ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CheckpointError(f"{path} holds no tensors, or is damaged: {error}") from None


#: Elements of storages in a pickle, by the names that they have for `torch.save`.
_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


class _Storage(NamedTuple):
    """The bytes of some tensors."""

    memory: torch.UntypedStorage
    dtype: torch.dtype


class _Reader:
    """The content of one file, and the storages in it that were read."""

    def __init__(self, path: Path, file: IO[bytes], mmap: bool) -> None:
        self._file = file
        self._num_bytes = file.seek(0, os.SEEK_END)
        with zipfile.ZipFile(file) as archive:
            self._members = stored_members(archive, self._num_bytes)
            folders = [name[:-9] for name in self._members if name.endswith("/data.pkl")]
            if len(folders) != 1:
                raise ValueError("it has no data.pkl, or several")
            self._folder = folders[0]
            if self._text("byteorder", "little") != "little":
                raise ValueError("its numbers are not little-endian")
        self._map = None
        if mmap:
            self._map = torch.UntypedStorage.from_file(str(path), False, self._num_bytes)
        self._storages: dict[str, _Storage] = {}

    def content(self) -> object:
        names: dict[str, object] = {
            "collections OrderedDict": OrderedDict,
            "torch._utils _rebuild_tensor_v2": _tensor,
            "torch._utils _rebuild_parameter": _parameter,
            "torch Size": torch.Size,
            **{f"torch {name}": dtype for name, dtype in _DTYPES.items()},
        }
        return unpickle(self._read("data.pkl", MAX_PICKLE_BYTES), names, self._storage)

    def _text(self, name: str, default: str) -> str:
        is_there = f"{self._folder}/{name}" in self._members
        return self._read(name, 64).decode() if is_there else default

    def _place(self, name: str) -> tuple[int, int]:
        """Start and size of a member."""
        member = self._members.get(f"{self._folder}/{name}")
        if member is None:
            raise ValueError(f"it has no {name}")
        self._file.seek(member.header_offset)
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.startswith(_HEAD_MAGIC):
            raise ValueError(f"{name} is not where it should be")
        start = member.header_offset + _HEAD.size + sum(_HEAD.unpack(head)[1:])
        if start + member.file_size > self._num_bytes:
            raise ValueError(f"{name} is cut short")
        return start, member.file_size

    def _read(self, name: str, max_bytes: int) -> bytes:
        start, size = self._place(name)
        if size > max_bytes:
            raise ValueError(f"{name} has {size} bytes; at most {max_bytes} are read")
        self._file.seek(start)
        return self._file.read(size)

    def _storage(self, named: tuple[object, ...]) -> _Storage:
        """The storage that a pickle names; its device does not matter."""
        kind, dtype, key, _, count = named
        if kind != "storage" or not isinstance(dtype, torch.dtype) or not isinstance(key, str):
            raise ValueError("a pickle with a value that is no storage")
        if key not in self._storages:
            start, size = self._place(f"data/{key}")
            if type(count) is not int or size != count * dtype.itemsize:
                raise ValueError(f"a storage of {size} bytes, which should have other elements")
            self._storages[key] = _Storage(self._memory(start, size), dtype)
        if self._storages[key].dtype != dtype:
            raise ValueError("a storage with two kinds of elements")
        return self._storages[key]

    def _memory(self, start: int, size: int) -> torch.UntypedStorage:
        if self._map is not None:
            return cast(torch.UntypedStorage, self._map[start : start + size])
        held = torch.empty(size, dtype=torch.uint8)
        self._file.seek(start)
        if cast("io.BufferedReader", self._file).readinto(held.numpy().data) != size:
            raise ValueError("it is cut short")
        return held.untyped_storage()


def _tensor(storage: _Storage, offset: int, size: tuple[int, ...], *rest: Any) -> torch.Tensor:
    """A tensor in a storage, with no more elements than that has."""
    stride, needs_gradient = rest[:2]
    held = storage.memory.nbytes() // storage.dtype.itemsize
    if min((offset, *size, *stride), default=0) < 0 or math.prod(size) > held:
        raise ValueError(f"a tensor of shape {size} in {held} elements")
    tensor = torch.empty(0, dtype=storage.dtype).set_(storage.memory, offset, size, stride)
    return tensor.requires_grad_(needs_gradient)


def _parameter(data: torch.Tensor, needs_gradient: bool, _: object) -> torch.nn.Parameter:
    return torch.nn.Parameter(data, needs_gradient)


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
