"""Memory that explorers and the learner of a `SharedPrioritizedReplay` have in common.

It is cut into blocks: consecutive rows of one environment, with the S-1 rows before its first
transition and the n rows after its last, so that a block needs no other one. A header a block says
what is in it:

* EMPTY: nothing, or nothing any more;
* WRITING: reserved by an explorer, which copies rows into it, without any lock;
* PUBLISHED: complete; its rows do not change until it is reserved again.

Headers change only under the index lock, which is held for a few memory accesses and never while
rows are copied. A reader copies rows and then asks, under that lock, whether the block still is
what it was: if a writer had begun to overwrite what was copied, its reservation came before.

Every section under the lock can be cut short by the death of its process at any point: a block
becomes EMPTY before anything else of it changes, PUBLISHED after everything else has, and counts
can be told from headers. The lock itself goes with the process. A block in WRITING whose explorer
is dead is free; one whose explorer lives is passed over, however slow it is.

The memory is an anonymous file: it has no name that could be left behind, and goes with the last
process that maps it.
"""

from __future__ import annotations

import mmap
import os
import secrets
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cule.replay.byte_locks import ByteLocks
from cule.replay.errors import CapacityError, DisconnectedError
from cule.replay.memory import capacity_bytes, format_bytes, free_memory_bytes
from cule.replay.native import NativeRows
from cule.replay.options import SharedOptions
from cule.replay.plan import largest_rows
from cule.replay.transitions import Memory

EMPTY, WRITING, PUBLISHED = 0, 1, 2

#: Bytes of the file that are locked: the index, the life of the learner, that of each explorer.
INDEX_BYTE, LEARNER_BYTE, FIRST_EXPLORER_BYTE = 0, 1, 2

# Words of the control row.
TOKEN, NEXT, CLOSED = 0, 1, 2
CONTROL_WORDS = 8

# Columns of a header.
STATE, NUMBER, EXPLORER, TOTAL, FIRST_LIVE, NUM_LIVE = range(6)
HEADER_WORDS = 6

_ALIGNMENT_BYTES = 64


class Reservation(NamedTuple):
    """A block that an explorer may write to."""

    number: int  # reservations before this one; never used again
    block: int


@dataclass(frozen=True)
class SharedHandle:
    """What an explorer process needs to join; can be pickled, and sent anywhere on this machine."""

    options: SharedOptions
    num_blocks: int
    path: str
    token: int


def rows_of_block(options: SharedOptions) -> int:
    """Rows of a block: its transitions, and what the first and the last of them need."""
    return options.stack - 1 + options.block_size + options.n_step


def segments(
    num_blocks: int, options: SharedOptions
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shape and type of every array of the memory, in order."""
    rows = num_blocks * rows_of_block(options)
    return {
        "control": ((CONTROL_WORDS,), torch.int64),
        "published": ((options.num_explorers,), torch.int64),
        "headers": ((num_blocks, HEADER_WORDS), torch.int64),
        # One row more, which stays zero.
        "frames": ((rows + 1, *options.obs_shape), options.obs_dtype),
        "actions": ((rows, *options.action_shape), options.action_dtype),
        "rewards": ((rows,), torch.float32),
        "priorities": ((rows,), torch.float32),
        "flags": ((rows,), torch.uint8),
    }


def segment_bytes(num_blocks: int, options: SharedOptions) -> dict[str, int]:
    """Bytes of every array, each rounded up to a whole cache line."""
    found = {}
    for name, (shape, dtype) in segments(num_blocks, options).items():
        exact = dtype.itemsize * torch.Size(shape).numel()
        found[name] = -(-exact // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return found


class SharedMemory:
    """The arrays, the locks, and the steps from EMPTY to PUBLISHED.

    Attributes:
        memory: Rows of all blocks, as `gather` reads them.
        priorities: First priorities of the rows; float32 ``[rows]``, NaN for the largest so far.
        headers: int64 ``[num_blocks, HEADER_WORDS]``; to be read and written under the index lock.
        locks: This process's locks.
    """

    def __init__(self, handle: SharedHandle) -> None:
        """Map the memory.

        Args:
            handle: Where it is.

        Raises:
            DisconnectedError: It is not there (any more).
        """
        self.handle = handle
        options = handle.options
        sizes = segment_bytes(handle.num_blocks, options)
        try:
            fd = os.open(handle.path, os.O_RDWR | os.O_CLOEXEC)
            self.locks = ByteLocks(handle.path)
        except OSError as error:
            raise DisconnectedError(f"the learner is gone: {error}") from None
        try:
            if os.fstat(fd).st_size != sum(sizes.values()):
                raise DisconnectedError("the learner is gone; its process id is another's now")
            mapped = mmap.mmap(fd, sum(sizes.values()))
        finally:
            os.close(fd)
        offset, arrays = 0, {}
        for name, (shape, dtype) in segments(handle.num_blocks, options).items():
            count = torch.Size(shape).numel()
            flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=offset)
            arrays[name] = flat.view(shape)
            offset += sizes[name]
        self.rows = rows_of_block(options)
        self.memory = Memory(
            frames=arrays["frames"],
            actions=arrays["actions"],
            rewards=arrays["rewards"],
            flags=arrays["flags"],
            zero_row=handle.num_blocks * self.rows,
            native=NativeRows(arrays, options),
        )
        self.priorities = arrays["priorities"]
        self.control: NDArray[np.int64] = arrays["control"].numpy()
        self.published: NDArray[np.int64] = arrays["published"].numpy()
        self.headers: NDArray[np.int64] = arrays["headers"].numpy()
        if self.control[TOKEN] not in (0, handle.token):
            raise DisconnectedError("the learner is gone; its process id is another's now")

    def block_rows(self, name: str, block: int) -> Tensor:
        """Rows of one block in one of the arrays."""
        array = self.priorities if name == "priorities" else getattr(self.memory, name)
        found: Tensor = array[block * self.rows : (block + 1) * self.rows]
        return found

    def check_learner(self) -> None:
        """Refuse to go on without a learner.

        Raises:
            DisconnectedError: It has closed the buffer, or has ended.
        """
        if self.control[CLOSED]:
            raise DisconnectedError("the learner has closed the buffer")
        if not self.locks.is_held_elsewhere(LEARNER_BYTE):
            raise DisconnectedError("the learner has ended without closing the buffer")

    def reserve(self, explorer: int) -> Reservation:
        """Take the oldest block that nobody writes to.

        There are more blocks than explorers, so there is one.
        """
        with self.locks.held(INDEX_BYTE):
            while True:
                number = int(self.control[NEXT])
                header = self.headers[number % len(self.headers)]
                owner = int(header[EXPLORER])
                is_busy = (
                    header[STATE] == WRITING
                    and owner != explorer
                    and self.locks.is_held_elsewhere(FIRST_EXPLORER_BYTE + owner)
                )
                if not is_busy:
                    break
                self.control[NEXT] = number + 1
            self._fold(header)
            header[STATE] = EMPTY
            header[NUMBER], header[EXPLORER] = number, explorer
            header[STATE] = WRITING
            self.control[NEXT] = number + 1
        return Reservation(number, number % len(self.headers))

    def publish(self, reserved: Reservation, first_live: int, num_live: int) -> None:
        """Let the learner see a block that has been written."""
        header = self.headers[reserved.block]
        with self.locks.held(INDEX_BYTE):
            explorer = int(header[EXPLORER])
            total = self.total_of(explorer) + num_live
            header[TOTAL], header[FIRST_LIVE], header[NUM_LIVE] = total, first_live, num_live
            header[STATE] = PUBLISHED
            self._fold(header)

    def _fold(self, header: NDArray[np.int64]) -> None:
        """Keep the count that a published header carries; doing so twice changes nothing."""
        if header[STATE] == PUBLISHED:
            explorer = header[EXPLORER]
            self.published[explorer] = max(self.published[explorer], header[TOTAL])

    def total_of(self, explorer: int) -> int:
        """Transitions that an explorer has published so far; under the index lock."""
        mine = self.headers[:, EXPLORER] == explorer
        mine &= self.headers[:, STATE] == PUBLISHED
        counted = self.headers[mine, TOTAL].max(initial=0)
        return int(max(self.published[explorer], counted))


def plan_blocks(options: SharedOptions) -> int:
    """Blocks for a capacity, beside those that explorers are writing to.

    Raises:
        InvalidArgumentError: The capacity is none.
        CapacityError: It does not fit.
    """
    free = free_memory_bytes(torch.device("cpu"))
    budget = capacity_bytes(options.capacity, free)

    def bytes_of(num_blocks: int) -> dict[str, int]:
        # The learner's sums: a leaf a row.
        sums = num_blocks * rows_of_block(options) * 8
        return {**segment_bytes(num_blocks, options), "sums": sums}

    if budget is None:
        assert isinstance(options.capacity, int)
        num_blocks = -(-options.capacity // options.block_size) + options.num_explorers
    else:
        num_blocks = largest_rows(budget, bytes_of)
    spare = options.num_explorers
    wanted = sum(bytes_of(num_blocks).values())
    if num_blocks <= spare or wanted > free:
        least = sum(bytes_of(spare + 1).values())
        fitting = max(largest_rows(free, bytes_of) - spare, 0) * options.block_size
        raise CapacityError(
            f"capacity is {options.capacity!r}, which takes {format_bytes(wanted)}; at least "
            f"{format_bytes(least)} are needed, and {format_bytes(free)} are free, which would "
            f"hold {fitting:,} transitions"
        )
    return num_blocks


def create_shared(options: SharedOptions, num_blocks: int) -> tuple[SharedMemory, int]:
    """Make the memory, as the learner does.

    Returns:
        The memory, and the file descriptor that keeps its name in /proc alive.
    """
    size = sum(segment_bytes(num_blocks, options).values())
    fd = os.memfd_create("cule-replay", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    token = secrets.randbelow(2**62) + 1
    handle = SharedHandle(options, num_blocks, f"/proc/{os.getpid()}/fd/{fd}", token)
    shared = SharedMemory(handle)
    shared.control[TOKEN] = token
    assert shared.locks.try_acquire(LEARNER_BYTE)
    return shared, fd
