"""Shared memory of the learner and the writers of a `SharedPrioritizedReplay`.

It consists of blocks. A block holds consecutive timesteps of one environment, with the S-1
timesteps before its first transition and the n after its last, so it needs no other block. Each
block has a header with a state:

* EMPTY: no valid content;
* WRITING: reserved by a writer, which copies cells into it without a lock;
* PUBLISHED: complete; its cells do not change until a writer reserves it again.

Headers change only under the index lock, which processes hold for a few memory accesses and never
while they copy cells. A reader copies cells and then checks under the lock that the block has not
been reserved again: a writer reserves a block before it overwrites cells.

A process may die at any point of a section under the lock: a block becomes EMPTY before anything
else of it changes and PUBLISHED after everything else has, and headers determine the counts. The
kernel releases the lock. A block in WRITING is free if its writer is dead, and skipped if it is
alive, however slow it is.

The memory is an anonymous file: it leaves no name behind, and disappears with the last process that
maps it.
"""

from __future__ import annotations

import mmap
import os
import secrets
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cule.errors import DisconnectedError
from cule.replay.byte_locks import ByteLocks
from cule.replay.checkpoint import MAX_COUNT
from cule.replay.memory import plan_size
from cule.replay.options import SharedOptions
from cule.replay.transitions import Cells

EMPTY, WRITING, PUBLISHED = 0, 1, 2

#: Locked bytes of the file: the index, the life of the learner, and that of each writer.
INDEX_BYTE, LEARNER_BYTE, FIRST_WRITER_BYTE = 0, 1, 2

# Words of the control array.
TOKEN, NEXT, CLOSED = 0, 1, 2
CONTROL_WORDS = 8

# Columns of a header.
STATE, NUMBER, WRITER, TOTAL, FIRST_LIVE, NUM_LIVE = range(6)
HEADER_WORDS = 6

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class SharedHandle:
    """Connects a writer process to a learner on the same machine; can be pickled."""

    options: SharedOptions
    num_blocks: int
    path: str
    token: int


def block_cells(options: SharedOptions) -> int:
    """Cells of a block: its transitions, and those that the first and the last need."""
    return options.stack - 1 + options.block_size + options.n_step


def segments(
    num_blocks: int, options: SharedOptions
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shape and dtype of every array of the memory, in order."""
    cells = num_blocks * block_cells(options)
    return {
        "control": ((CONTROL_WORDS,), torch.int64),
        "published": ((options.num_writers,), torch.int64),
        "headers": ((num_blocks, HEADER_WORDS), torch.int64),
        # The last frame stays zero.
        "frames": ((cells + 1, *options.obs_shape), options.obs_dtype),
        "actions": ((cells, *options.action_shape), options.action_dtype),
        "rewards": ((cells,), torch.float32),
        "priorities": ((cells,), torch.float32),
        "flags": ((cells,), torch.uint8),
    }


def segment_bytes(num_blocks: int, options: SharedOptions) -> dict[str, int]:
    """Bytes of every array, each rounded up to a whole cache line."""
    found = {}
    for name, (shape, dtype) in segments(num_blocks, options).items():
        exact = dtype.itemsize * torch.Size(shape).numel()
        found[name] = -(-exact // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return found


class SharedMemory:
    """The arrays, the locks, and the transitions of a block from EMPTY to PUBLISHED.

    Attributes:
        cells: Cells of all blocks.
        priorities: First priorities of the cells; float32 ``[cells]``, NaN for the largest so far.
        headers: int64 ``[num_blocks, HEADER_WORDS]``; access them under the index lock.
        locks: Locks of this process.
        block_cells: Cells of a block.
    """

    def __init__(self, handle: SharedHandle) -> None:
        """Map the memory, or raise DisconnectedError if the learner has ended."""
        self.handle = handle
        options = handle.options
        sizes = segment_bytes(handle.num_blocks, options)
        try:
            fd = os.open(handle.path, os.O_RDWR | os.O_CLOEXEC)
            self.locks = ByteLocks(handle.path)
        except OSError as error:
            raise DisconnectedError(f"the learner is gone: {error}") from None
        reused = "the learner is gone; another process has its id"
        try:
            if os.fstat(fd).st_size != sum(sizes.values()):
                raise DisconnectedError(reused)
            mapped = mmap.mmap(fd, sum(sizes.values()))
        finally:
            os.close(fd)
        offset, arrays = 0, {}
        for name, (shape, dtype) in segments(handle.num_blocks, options).items():
            count = torch.Size(shape).numel()
            flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=offset)
            arrays[name] = flat.view(shape)
            offset += sizes[name]
        self.block_cells = block_cells(options)
        self.cells = Cells(
            **{name: arrays[name] for name in ("frames", "actions", "rewards", "flags")},
            zero_frame=handle.num_blocks * self.block_cells,
        )
        self.priorities = arrays["priorities"]
        self.control: NDArray[np.int64] = arrays["control"].numpy()
        self.published: NDArray[np.int64] = arrays["published"].numpy()
        self.headers: NDArray[np.int64] = arrays["headers"].numpy()
        if self.control[TOKEN] not in (0, handle.token):
            raise DisconnectedError(reused)

    def of_block(self, array: Tensor, block: int) -> Tensor:
        """The part of an array of cells that belongs to a block."""
        return array[block * self.block_cells : (block + 1) * self.block_cells]

    def check_learner(self) -> None:
        """Raise DisconnectedError if the learner has closed the buffer, or has ended."""
        if self.control[CLOSED]:
            raise DisconnectedError("the learner has closed the buffer")
        if not self.locks.is_held_elsewhere(LEARNER_BYTE):
            raise DisconnectedError("the learner has ended without closing the buffer")

    def most_of_file(self) -> dict[str, Tensor]:
        """The largest values of saved headers and of numbers of live cells."""
        live, last_writer = self.block_cells, self.handle.options.num_writers - 1
        header = (PUBLISHED, MAX_COUNT, last_writer, MAX_COUNT, live, live)
        return {"headers": torch.tensor(header), "num_live": torch.tensor(live)}

    def is_alive(self, writer: int) -> bool:
        """Whether another object of this or another process is this writer."""
        return self.locks.is_held_elsewhere(FIRST_WRITER_BYTE + writer)

    def reserve(self, writer: int) -> int:
        """Reserve the oldest block that no living writer fills. There are enough blocks."""
        with self.locks.held(INDEX_BYTE):
            while True:
                number = int(self.control[NEXT])
                header = self.headers[number % len(self.headers)]
                owner = int(header[WRITER])
                is_busy = header[STATE] == WRITING and owner != writer and self.is_alive(owner)
                if not is_busy:
                    break
                self.control[NEXT] = number + 1
            self._save_total(header)
            header[STATE] = EMPTY
            header[NUMBER], header[WRITER] = number, writer
            header[STATE] = WRITING
            self.control[NEXT] = number + 1
        return number % len(self.headers)

    def publish(self, block: int, first_live: int, num_live: int) -> None:
        """Make a filled block visible to the learner."""
        header = self.headers[block]
        with self.locks.held(INDEX_BYTE):
            total = self.total_of(int(header[WRITER])) + num_live
            header[TOTAL], header[FIRST_LIVE], header[NUM_LIVE] = total, first_live, num_live
            header[STATE] = PUBLISHED
            self._save_total(header)

    def _save_total(self, header: NDArray[np.int64]) -> None:
        """Save the count of a published header; idempotent."""
        if header[STATE] == PUBLISHED:
            writer = header[WRITER]
            self.published[writer] = max(self.published[writer], header[TOTAL])

    def total_of(self, writer: int) -> int:
        """Transitions that a writer has published; call it under the index lock."""
        mine = self.headers[:, WRITER] == writer
        mine &= self.headers[:, STATE] == PUBLISHED
        counted = self.headers[mine, TOTAL].max(initial=0)
        return int(max(self.published[writer], counted))


def create_shared(options: SharedOptions) -> tuple[SharedMemory, int]:
    """Create the memory; the file descriptor keeps its name in /proc alive."""

    def bytes_of(num_blocks: int) -> dict[str, int]:
        leaves = num_blocks * block_cells(options) * 8  # of the learner
        return {**segment_bytes(num_blocks, options), "leaves": leaves}

    num_blocks = plan_size(
        options.capacity,
        torch.device("cpu"),
        bytes_of,
        transitions_each=options.block_size,
        overhead=options.num_writers,
    )
    fd = os.memfd_create("cule-replay", os.MFD_CLOEXEC)
    os.ftruncate(fd, sum(segment_bytes(num_blocks, options).values()))
    token = secrets.randbelow(2**62) + 1
    shared = SharedMemory(SharedHandle(options, num_blocks, f"/proc/{os.getpid()}/fd/{fd}", token))
    shared.control[TOKEN] = token
    is_learner = shared.locks.try_acquire(LEARNER_BYTE)
    assert is_learner
    return shared, fd
