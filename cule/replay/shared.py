"""`SharedPrioritizedReplay`: many writer processes and one learner on shared memory."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from cule.errors import DisconnectedError, NotReadyError
from cule.replay import native
from cule.replay.checkpoint import load_state, make_state, restore_state
from cule.replay.memory import check_batch_size
from cule.replay.options import SharedOptions, check_options, check_range
from cule.replay.priority_sums import Priorities
from cule.replay.shared_memory import (
    CLOSED,
    EMPTY,
    FIRST_LIVE,
    INDEX_BYTE,
    NEXT,
    NUM_LIVE,
    NUMBER,
    PUBLISHED,
    STATE,
    SharedHandle,
    create_shared,
)
from cule.replay.steps import ArrayLike, checked_ids, checked_tensor
from cule.replay.transitions import INVALID, Batch, Transitions, read_transitions
from cule.tensor_files import save_tensors

#: Options that a restored buffer may change: they affect sampling and reading, not what is stored.
FREE_OPTIONS = (*("gamma", "reward_clipping", "pad", "alpha", "beta", "device", "seed"),)

_CPU = torch.device("cpu")


class WriterStatus(NamedTuple):
    """The state of a writer, as the learner sees it."""

    is_alive: bool
    """Whether a living process is this writer."""

    num_published: int
    """Transitions that writers of this index have published."""


class SharedPrioritizedReplay:
    """Prioritized replay between processes: the learner's side. Actors use `ReplayWriter`.

    Sampling, weights and special priorities are those of `PrioritizedReplay`. Writers lock nothing
    but the index, for a moment, and the learner never waits for them. It copies a batch without a
    lock; in the rare case that a writer began to overwrite a part of it meanwhile, the learner
    samples again under the lock. So it never returns a half-written transition. A writer that dies
    loses only what it had not published. Writers learn at their next block that the learner has
    closed the buffer or died.

    Linux only. Start writer processes with the start method "spawn".

    Attributes:
        options: Options of the buffer.
        generator: Random generator of all samples, on the host.
        num_rejected: Rejected priorities so far; int64 scalar.
        max_priority: Largest priority so far; float64 scalar.
    """

    def __init__(self, options: SharedOptions) -> None:
        """Create the memory.

        Args:
            options: Sizes, shapes, types, exponents, number of writers.

        Raises:
            InvalidArgumentError: The capacity is invalid.
            CapacityError: The buffer does not fit into the memory of the host.
        """
        check_options(options, SharedOptions)
        self.options = options
        self._shared, self._fd = create_shared(options)
        self._block_cells = self._shared.block_cells
        num_blocks = self._shared.handle.num_blocks
        self._native = None
        if native.is_used(_CPU):
            self._native = native.NativeCells(self._shared.cells._asdict(), options)
        self._priorities = Priorities(num_blocks * self._block_cells, options, _CPU)
        self.max_priority = self._priorities.max_priority
        self.num_rejected = self._priorities.num_rejected
        # Number of the block that the sums include; -1 for none.
        self._known = torch.full((num_blocks,), -1, dtype=torch.int64)
        self._num_live = torch.zeros(num_blocks, dtype=torch.int64)
        self.generator = torch.Generator()
        self.generator.manual_seed(options.seed)

    def handle(self) -> SharedHandle:
        """A handle to create a `ReplayWriter` with in another process; can be pickled."""
        self._check_open()
        return self._shared.handle

    def writers(self) -> list[WriterStatus]:
        """The status of each writer."""
        self._check_open()
        shared = self._shared
        with shared.locks.held(INDEX_BYTE):
            return [
                WriterStatus(shared.is_alive(index), shared.total_of(index))
                for index in range(self.options.num_writers)
            ]

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled, as of the last `poll`."""
        return int(self._num_live.sum())

    def __len__(self) -> int:
        """`num_valid`."""
        return self.num_valid

    def __repr__(self) -> str:
        """Transitions, writers, sizes and device."""
        options = self.options
        return (
            f"SharedPrioritizedReplay({len(self):,} transitions, "
            f"num_writers={options.num_writers}, {options.summary()})"
        )

    def close(self) -> None:
        """Disconnect the writers and release the memory. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._shared.control[CLOSED] = 1
            self._shared.locks.close()
            os.close(fd)

    def __enter__(self) -> SharedPrioritizedReplay:
        """Return the buffer."""
        return self

    def __exit__(self, *_: object) -> None:
        """`close`."""
        self.close()

    def _check_open(self) -> None:
        if self._fd < 0:
            raise DisconnectedError("this buffer has been closed")

    def poll(self) -> int:
        """Add published blocks, and drop blocks that writers have reserved again.

        `sample` does so as well.

        Returns:
            Number of new transitions.
        """
        self._check_open()
        with self._shared.locks.held(INDEX_BYTE):
            return self._poll_locked()

    def _poll_locked(self) -> int:
        headers = torch.from_numpy(self._shared.headers).clone()
        number = torch.where(headers[:, STATE] == PUBLISHED, headers[:, NUMBER], -1)
        changed = (number != self._known).nonzero().squeeze(1)
        if not len(changed):
            return 0
        columns = torch.arange(self._block_cells)
        first = headers[changed, FIRST_LIVE, None]
        is_live = (columns >= first) & (columns < first + headers[changed, NUM_LIVE, None])
        is_live &= (number[changed] >= 0)[:, None]
        index = changed[:, None] * self._block_cells + columns
        is_live &= (self._shared.cells.flags[index] & INVALID) == 0
        given = self._shared.priorities[index].to(torch.float64)
        given = torch.where(is_live, given, 0.0)
        largest = self.max_priority.clone()
        given = torch.where(given.isnan(), largest, given)  # the writer gave no priority
        accepted = self._priorities.accept(given, largest)
        masses = torch.where(is_live, self._priorities.masses(accepted), 0)
        self._priorities.sums.assign(index.flatten(), masses.flatten())
        self._known[changed] = number[changed]
        self._num_live[changed] = torch.where(number[changed] >= 0, headers[changed, NUM_LIVE], 0)
        return int(self._num_live[changed].sum())

    def sample(self, batch_size: int, beta: float | None = None) -> Batch:
        """Sample transitions in proportion to their priorities, one from each B-th of the total.

        Args:
            batch_size: Transitions B.
            beta: Exponent of the importance weights. Default: that of the options.

        Returns:
            The batch, on the device of the options. Use the ids for `update_priorities` only.

        Raises:
            InvalidArgumentError: batch_size is not a positive int, or beta is not in 0 ... 1.
            CapacityError: The batch does not fit into the free memory.
            NotReadyError: No writer has published a block yet.
            DisconnectedError: The buffer has been closed.
        """
        check_batch_size(batch_size, self.options)
        beta = self.options.beta if beta is None else beta
        check_range("beta", beta, 0.0, 1.0)
        self.poll()
        locks = self._shared.locks
        for is_last in (False, True):
            with locks.held(INDEX_BYTE) if is_last else nullcontext():
                if is_last:
                    self._poll_locked()
                if self.num_valid == 0:
                    raise NotReadyError("no writer has published a block yet")
                leaves = self._sample_leaves(batch_size)
                found = self._read(leaves)
            if is_last or self._all_unchanged(leaves):
                break
        return self._weighed(leaves, found, beta)

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count, generator=self.generator, dtype=torch.float64)

    def _sample_leaves(self, count: int) -> Tensor:
        leaves = self._priorities.sample(self._uniform(count))
        return leaves.clamp(max=len(self._known) * self._block_cells - 1)

    def _read(self, leaves: Tensor) -> Transitions:
        options = self.options
        offsets = torch.arange(1 - options.stack, options.n_step + 1)
        begin = (leaves // self._block_cells * self._block_cells)[:, None]
        # Cells before the first of a block are missing only at the start of an episode.
        window = torch.maximum(leaves[:, None] + offsets, begin)
        window = torch.minimum(window, begin + self._block_cells - 1)
        if self._native is not None:
            return self._native.read(window, options.n_step)
        return read_transitions(self._shared.cells, window, options.n_step, options)

    def _all_unchanged(self, leaves: Tensor) -> bool:
        """Whether the blocks of leaves are still those that the sums include."""
        blocks = leaves // self._block_cells
        with self._shared.locks.held(INDEX_BYTE):
            headers = torch.from_numpy(self._shared.headers)[blocks]
        is_same = (headers[:, STATE] == PUBLISHED) & (headers[:, NUMBER] == self._known[blocks])
        return bool(is_same.all())

    def _weighed(self, leaves: Tensor, found: Transitions, beta: float) -> Batch:
        blocks, columns = leaves // self._block_cells, leaves % self._block_cells
        weights, probabilities = self._priorities.weigh(leaves, self.num_valid, found.usable, beta)
        ids = self._known[blocks] * self._block_cells + columns
        batch = found.as_batch(weights, ids, probabilities)
        device = self.options.device
        if device.type == "cpu":
            return batch
        return Batch(*(value.pin_memory().to(device, non_blocking=True) for value in batch))

    def update_priorities(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Set the priorities of transitions, as `PrioritizedReplay.update_priorities`.

        Args:
            ids: As `Batch.ids`; int64 ``[B]``, any device.
            priorities: New priorities before alpha; float ``[B]``, any device.

        Raises:
            InvalidArgumentError: Wrong shape or dtype; the buffer is unchanged.
        """
        checked = checked_ids(ids, _CPU)
        shape = tuple(checked.shape)
        given = checked_tensor("priorities", priorities, shape, torch.float64, _CPU)
        if not len(checked):
            return
        number = checked // self._block_cells
        block = number % len(self._known)
        leaves = block * self._block_cells + checked % self._block_cells
        # The leaf of an invalid cell always stays 0.
        is_live = (self._known[block] == number) & (number >= 0)
        is_live &= (self._shared.cells.flags[leaves] & INVALID) == 0
        self._priorities.update(leaves, is_live, given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all published transitions to a file. Writers wait at their next block meanwhile.

        Raises:
            OSError: Writing failed; an existing file is unchanged.
        """
        self._check_open()
        with self._shared.locks.held(INDEX_BYTE):
            self._poll_locked()
            state = make_state(type(self).__name__, self._description(), self._tensors())
            save_tensors(path, state)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the content of the buffer by a file of `save`, before writers connect.

        Raises:
            OSError: There is no such file, or it cannot be read.
            CheckpointError: It is damaged, or of another buffer; the buffer is unchanged.
            NotReadyError: A writer is connected; the buffer is unchanged.
        """
        if any(status.is_alive for status in self.writers()):
            raise NotReadyError("load must come before writers join; some have joined")
        state = load_state(path)
        with self._shared.locks.held(INDEX_BYTE):
            most = self._shared.most_of_file() | self._priorities.most()
            restore_state(state, type(self).__name__, self._description(), self._tensors(), most)
            self._priorities.sums.rebuild()
            # Blocks that were in WRITING when the file was saved have no writer.
            headers = self._shared.headers
            headers[headers[:, STATE] != PUBLISHED, STATE] = EMPTY

    def _tensors(self) -> dict[str, Tensor]:
        shared, names = self._shared, ("frames", "actions", "rewards", "flags")
        return {
            **{name: getattr(shared.cells, name) for name in names},
            "first_priorities": shared.priorities,
            "headers": torch.from_numpy(shared.headers),
            "published": torch.from_numpy(shared.published),
            "next": torch.from_numpy(shared.control[NEXT : NEXT + 1]),
            **self._priorities.tensors(),
            "known": self._known,
            "num_live": self._num_live,
        }

    def _description(self) -> dict[str, str]:
        return self.options.describe(without=FREE_OPTIONS)
