"""The file of a dataset, described in docs/datasets.md.

In order: magic, format version and length of the header, the header as JSON, the blocks of each
segment (actions, digests, episodes; zlib), and the CRC-32 of everything before it. Numbers are
little-endian. A segment is N trajectories of T steps that were recorded together.
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule.datasets.digests import num_digests
from cule.envs.requests import MAX_SEED
from cule.errors import DatasetError, shown
from cule.files import replace_bytes
from cule.reading import (
    MAX_DATASET_EPISODES,
    MAX_DATASET_STEPS,
    as_path,
    inflate,
    parse_json,
    read_file,
)

MAGIC = b"CULEDATA"
VERSION = 1

#: Flag of an action: the environment was reset, without a seed, before this step.
RESET_FLAG = 0x80

#: Columns of the table of episodes.
EPISODE_COLUMNS = ("trajectory", "start", "stop", "episode_return", "end")

#: Last column of the table of episodes: how an episode ended, if it did.
UNFINISHED, TERMINATED, TRUNCATED = 0, 1, 2

#: Largest number of environments and digest_every, and of steps of a trajectory.
MAX_ENVS, MAX_STEPS = 2**20, 2**31 - 1

_PRELUDE, _CHECKSUM = struct.Struct("<8sII"), struct.Struct("<I")


@dataclass(frozen=True)
class Segment:
    """N trajectories of T steps, with E episodes; compressed."""

    seeds: tuple[int, ...]  # [N]
    num_steps: int  # T
    num_episodes: int  # E
    blocks: tuple[bytes, bytes, bytes] = dataclasses.field(repr=False)

    @classmethod
    def pack(
        cls,
        seeds: tuple[int, ...],
        actions: NDArray[np.uint8],
        digests: NDArray[np.uint32],
        episodes: NDArray[np.int64],
    ) -> Segment:
        """A segment of actions ``[N, T]``, digests ``[K, N]`` and episodes ``[E, 5]``."""
        arrays = (actions, digests.astype("<u4"), episodes.astype("<i8"))
        blocks = [zlib.compress(array.tobytes(), 9) for array in arrays]
        return cls(seeds, actions.shape[1], len(episodes), (blocks[0], blocks[1], blocks[2]))

    def actions(self) -> NDArray[np.uint8]:
        """Actions with their flags, uint8 ``[N, T]``."""
        return self._unpack(0, "u1", (len(self.seeds), self.num_steps))

    def resets(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Trajectories and steps of the resets by a mask, in this order.

        Raises:
            DatasetError: There are more than episodes, of which each begins one.
        """
        is_reset = self.actions() >= RESET_FLAG
        num_resets = np.count_nonzero(is_reset)
        if num_resets > self.num_episodes:
            raise DatasetError(f"{num_resets} resets; there are {self.num_episodes} episodes")
        rows, steps = np.nonzero(is_reset)
        return rows, steps

    def digests(self, digest_every: int) -> NDArray[np.uint32]:
        """Digests, uint32 ``[K, N]``."""
        count = num_digests(self.num_steps, digest_every)
        return self._unpack(1, "<u4", (count, len(self.seeds)))

    def episodes(self) -> NDArray[np.int64]:
        """The table of episodes, int64 ``[E, 5]``: by trajectory and step, without overlap.

        Raises:
            DatasetError: It has other rows.
        """
        table = self._unpack(2, "<i8", (self.num_episodes, len(EPISODE_COLUMNS)))
        row, start, stop, _, end = table.T
        follows = (row[1:] == row[:-1]) & (start[1:] >= stop[:-1]) | (row[1:] > row[:-1])
        is_inside = (row >= 0) & (row < len(self.seeds)) & (start >= 0) & (stop <= self.num_steps)
        is_right = is_inside & (start < stop) & (end >= UNFINISHED) & (end <= TRUNCATED)
        if not (is_right.all() and follows.all()):
            raise DatasetError("its table of episodes does not fit its trajectories")
        return table

    def _unpack(self, index: int, dtype: str, shape: tuple[int, int]) -> NDArray[Any]:
        block = self.blocks[index]
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        try:
            data = inflate(block, size)
        except ValueError as error:
            raise DatasetError(str(error)) from None
        return np.frombuffer(data, dtype).reshape(shape)


@dataclass(frozen=True)
class Log:
    """The content of a file."""

    cule_version: str
    game: str
    rom_md5: str
    options: dict[str, Any]  # of the environment, without those of the machine
    action_set: tuple[str, ...]
    digest_every: int
    segments: tuple[Segment, ...]


def write_log(path: str | os.PathLike[str], log: Log) -> None:
    """Write a file that is either complete or absent.

    Raises:
        StorageError: It cannot be written.
    """
    header = {name: value for name, value in vars(log).items() if name != "segments"}
    header["segments"] = [
        {**vars(segment), "blocks": [len(block) for block in segment.blocks]}
        for segment in log.segments
    ]
    text = json.dumps(header).encode()
    blocks = [block for segment in log.segments for block in segment.blocks]
    data = b"".join([_PRELUDE.pack(MAGIC, VERSION, len(text)), text, *blocks])
    replace_bytes(path, data + _CHECKSUM.pack(zlib.crc32(data)))


def read_log(path: str | os.PathLike[str]) -> Log:
    """Read a file, after comparing its checksum.

    Raises:
        OSError: There is no such file, or it cannot be read.
        DatasetError: It is no dataset, damaged, or of another version of the format.
    """
    data = read_file(as_path("path", path))
    try:
        return _parse(data)
    except DatasetError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def _parse(data: bytes) -> Log:
    if data[: len(MAGIC)] != MAGIC:
        raise DatasetError(
            f"it starts with {data[: len(MAGIC)]!r}; a dataset starts with {MAGIC!r}"
        )
    if len(data) < _PRELUDE.size + _CHECKSUM.size:
        raise DatasetError(f"it is truncated, with {len(data)} bytes")
    _, version, header_bytes = _PRELUDE.unpack_from(data)
    end = len(data) - _CHECKSUM.size
    if zlib.crc32(memoryview(data)[:end]) != _CHECKSUM.unpack_from(data, end)[0]:
        raise DatasetError("it is damaged: its checksum is not that of its content")
    if version != VERSION:
        raise DatasetError(f"its format has version {version}; it must be {VERSION}")
    start = _PRELUDE.size + header_bytes
    if start > end:
        raise DatasetError(f"its header has {header_bytes} bytes; the file has {len(data)}")
    try:
        header = parse_json(data[_PRELUDE.size : start])
        return _log(header, data[start:end])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"its header is not well formed: {error}") from None


def _log(header: dict[str, Any], data: bytes) -> Log:
    segments, start, episodes_left = [], 0, MAX_DATASET_EPISODES
    for entry in header.pop("segments"):
        seeds = tuple(_number("seed", seed, 0, MAX_SEED) for seed in entry["seeds"])
        _number("number of seeds", len(seeds), 1, MAX_ENVS)
        num_steps = _number("num_steps", entry["num_steps"], 0, MAX_DATASET_STEPS // len(seeds))
        most = min(num_steps * len(seeds), episodes_left)  # an episode has at least one step
        num_episodes = _number("num_episodes", entry["num_episodes"], 0, most)
        episodes_left -= num_episodes
        blocks = []
        for size in entry["blocks"]:
            stop = start + _number("size of a block", size, 0, len(data) - start)
            blocks.append(data[start:stop])
            start = stop
        first, second, third = blocks
        segments.append(Segment(seeds, num_steps, num_episodes, (first, second, third)))
    if start != len(data):
        raise DatasetError(f"its blocks have {start} bytes, and the file has {len(data)} for them")
    _number("digest_every", header["digest_every"], 1, MAX_STEPS)
    for name in ("cule_version", "game", "rom_md5"):
        if not isinstance(header[name], str):
            raise DatasetError(f"{name} is {shown(header[name])}; it must be a text")
    actions = header["action_set"]
    if not (isinstance(actions, list) and all(isinstance(name, str) for name in actions)):
        raise DatasetError(f"action_set is {shown(actions)}; it must be a list of names")
    header["action_set"] = tuple(actions)
    header["options"] = dict(header["options"])
    return Log(**header, segments=tuple(segments))


def _number(name: str, value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise DatasetError(f"{name} is {shown(value)}; it must be an integer in {low}..{high}")
    return value
