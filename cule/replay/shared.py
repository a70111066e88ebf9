"""`SharedPrioritizedReplay`: explorers in many processes, one learner, memory in common."""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cule.replay.checkpoint import load_state, make_state, restore_state, save_state
from cule.replay.errors import DisconnectedError, NotReadyError
from cule.replay.options import SharedOptions, check_int, check_range
from cule.replay.priority_sums import PrioritySums
from cule.replay.shared_memory import (
    CLOSED,
    EMPTY,
    FIRST_EXPLORER_BYTE,
    FIRST_LIVE,
    INDEX_BYTE,
    NEXT,
    NUM_LIVE,
    NUMBER,
    PUBLISHED,
    STATE,
    SharedHandle,
    create_shared,
    plan_blocks,
)
from cule.replay.steps import checked_ids, checked_tensor
from cule.replay.transitions import INVALID, Batch, Transitions, read_transitions

#: Options that change what is drawn or read, not what is stored: a restored buffer may differ.
FREE_OPTIONS = (
    *("gamma", "reward_clipping", "pad", "alpha", "beta", "uniform_mixture", "device", "seed"),
)


class ExplorerStatus(NamedTuple):
    """What the learner knows of an explorer."""

    is_alive: bool
    """Whether a process has joined as this explorer, and lives."""

    num_published: int
    """Transitions handed over under this index so far."""


class SharedPrioritizedReplay:
    """Prioritized replay between processes: the learner's side; actors use `ReplayWriter`.

    Sampling, weights and odd priorities are those of `PrioritizedReplay`. Explorers lock nothing
    but the index, for a moment; the learner waits for none of them. A batch is copied without a
    lock, and drawn again in the rare case that an explorer began to overwrite a part of it
    meanwhile; the second time explorers cannot begin to. So no half-written transition is ever
    returned. Explorers may die at any moment: what they had not handed over is lost, nothing else.
    When the learner closes or dies, explorers are told so at their next block.

    Linux only. Start explorers with the start method "spawn".

    Attributes:
        options: What it was made with.
        generator: Source of all draws, on the host.
        num_refused: Priorities refused so far; int64 scalar.
        max_priority: Largest priority given so far; float64 scalar.
    """

    def __init__(self, options: SharedOptions) -> None:
        """Make the memory.

        Args:
            options: Sizes, shapes, types, exponents, how many explorers.

        Raises:
            InvalidArgumentError: The capacity is none.
            CapacityError: It does not fit into the memory of the host.
        """
        self.options = options
        num_blocks = plan_blocks(options)
        self._shared, self._fd = create_shared(options, num_blocks)
        self._rows = self._shared.rows
        cpu = torch.device("cpu")
        self._sums = PrioritySums(num_blocks * self._rows, cpu)
        # The block that the sums know of, by its number; -1 for none.
        self._known = torch.full((num_blocks,), -1, dtype=torch.int64)
        self._num_live = torch.zeros(num_blocks, dtype=torch.int64)
        self.generator = torch.Generator()
        self.generator.manual_seed(options.seed)
        self.max_priority = torch.ones((), dtype=torch.float64)
        self.num_refused = torch.zeros((), dtype=torch.int64)

    # --- Who is there ---------------------------------------------------------------------------

    def handle(self) -> SharedHandle:
        """What explorers join with; can be pickled."""
        self._check_open()
        return self._shared.handle

    def explorers(self) -> list[ExplorerStatus]:
        """Which explorers live, and what each has handed over."""
        self._check_open()
        shared = self._shared
        with shared.locks.held(INDEX_BYTE):
            return [
                ExplorerStatus(
                    shared.locks.is_held_elsewhere(FIRST_EXPLORER_BYTE + index),
                    shared.total_of(index),
                )
                for index in range(self.options.num_explorers)
            ]

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled, as of the last `poll`."""
        return int(self._num_live.sum())

    def close(self) -> None:
        """Tell explorers that it is over, and let go of the memory. Twice is once."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._shared.control[CLOSED] = 1
            self._shared.locks.close()
            os.close(fd)

    def __enter__(self) -> SharedPrioritizedReplay:
        """Nothing to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """`close`."""
        self.close()

    def _check_open(self) -> None:
        if self._fd < 0:
            raise DisconnectedError("this buffer has been closed")

    # --- Reading --------------------------------------------------------------------------------

    def poll(self) -> int:
        """Take in what explorers have handed over, and forget what they began to overwrite.

        `sample` does so as well.

        Returns:
            New transitions.
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
        columns = torch.arange(self._rows)
        first = headers[changed, FIRST_LIVE, None]
        is_live = (columns >= first) & (columns < first + headers[changed, NUM_LIVE, None])
        is_live &= (number[changed] >= 0)[:, None]
        index = changed[:, None] * self._rows + columns
        given = self._shared.priorities[index].to(torch.float64)
        given = torch.where(is_live, given, 0.0)
        largest = self.max_priority.clone()
        given = torch.where(given.isnan(), largest, given)  # the explorer left it to us
        accepted = self._accepted(given)
        accepted = torch.where(accepted < 0, largest, accepted)
        is_live &= (self._shared.memory.flags[index] & INVALID) == 0
        units = self._sums.units(accepted, self.options.alpha)
        self._sums.assign(index.flatten(), torch.where(is_live, units, 0).flatten())
        self._known[changed] = number[changed]
        self._num_live[changed] = torch.where(number[changed] >= 0, headers[changed, NUM_LIVE], 0)
        return int(self._num_live[changed].sum())

    def sample(self, batch_size: int, beta: float | None = None) -> Batch:
        """Draw transitions in proportion to their priorities, one from each B-th of the total.

        Args:
            batch_size: Transitions B.
            beta: Exponent of the importance weights; by default that of the options.

        Returns:
            The batch, on the device of the options. Ids are only for `update_priorities`.

        Raises:
            InvalidArgumentError: batch_size is no positive int, or beta not within 0 ... 1.
            NotReadyError: No explorer has handed over anything yet.
            DisconnectedError: The buffer has been closed.
        """
        check_int("batch_size", batch_size, 1)
        beta = self.options.beta if beta is None else beta
        check_range("beta", beta, 0.0, 1.0)
        self.poll()
        locks = self._shared.locks
        for is_last in (False, True):
            with locks.held(INDEX_BYTE) if is_last else nullcontext():
                if is_last:
                    self._poll_locked()
                if self.num_valid == 0:
                    raise NotReadyError("no explorer has handed over a block yet")
                leaves = self._draw(batch_size)
                found = self._read(leaves)
            if is_last or self._all_unchanged(leaves):
                break
        return self._weighed(leaves, found, beta)

    def _draw(self, batch_size: int) -> Tensor:
        uniform = torch.rand(batch_size, generator=self.generator, dtype=torch.float64)
        leaves = self._sums.draw((torch.arange(batch_size) + uniform) / batch_size)
        leaves = leaves.clamp(max=len(self._known) * self._rows - 1)
        if self.options.uniform_mixture:
            coins = torch.rand(batch_size, generator=self.generator, dtype=torch.float64)
            is_uniform = coins < self._uniform_share()
            leaves = torch.where(is_uniform, self._uniform_leaves(batch_size), leaves)
        return leaves

    def _uniform_share(self) -> float:
        """Probability that a draw is uniform; of a mixture 1 where all priorities are 0."""
        return self.options.uniform_mixture if self._sums.total() else 1.0

    def _uniform_leaves(self, count: int) -> Tensor:
        """Leaves of any transitions, each as likely as every other."""
        place = torch.randint(self.num_valid, (count,), generator=self.generator)
        prefix = self._num_live.cumsum(0)
        block = torch.searchsorted(prefix, place, right=True)
        # Of a block that is no longer what `poll` saw this may be wrong; it is then drawn again.
        first = torch.from_numpy(self._shared.headers)[block, FIRST_LIVE]
        within = first + place - (prefix[block] - self._num_live[block])
        return block * self._rows + within.clamp(0, self._rows - 1)

    def _read(self, leaves: Tensor) -> Transitions:
        options = self.options
        offsets = torch.arange(1 - options.stack, options.n_step + 1)
        begin = (leaves // self._rows * self._rows)[:, None]
        # Nothing stands before the first row of a block, which then starts an episode.
        window = torch.maximum(leaves[:, None] + offsets, begin)
        window = torch.minimum(window, begin + self._rows - 1)
        return read_transitions(self._shared.memory, window, options.n_step, options)

    def _all_unchanged(self, leaves: Tensor) -> bool:
        """Whether the blocks of these leaves still are what the sums took them for."""
        blocks = leaves // self._rows
        with self._shared.locks.held(INDEX_BYTE):
            headers = torch.from_numpy(self._shared.headers)[blocks]
        is_same = (headers[:, STATE] == PUBLISHED) & (headers[:, NUMBER] == self._known[blocks])
        return bool(is_same.all())

    def _weighed(self, leaves: Tensor, found: Transitions, beta: float) -> Batch:
        units, total = self._sums.leaves[leaves], self._sums.total().clamp(min=1)
        probabilities = units.to(torch.float64) / total.to(torch.float64)
        if share := self.options.uniform_mixture and self._uniform_share():
            probabilities = (1.0 - share) * probabilities + share / self.num_valid
        tiny = torch.finfo(torch.float64).tiny
        weights = (self.num_valid * probabilities).clamp(min=tiny).pow(-beta)
        weights = torch.where((probabilities > 0) & found.usable, weights, 0.0)
        weights = weights / weights.amax().clamp(min=tiny)
        ids = self._known[leaves // self._rows] * self._rows + leaves % self._rows
        batch = Batch(
            obs=found.obs,
            actions=found.actions,
            returns=found.returns,
            discounts=found.discounts,
            next_obs=found.next_obs,
            weights=weights.to(torch.float32),
            ids=ids,
            probabilities=probabilities.to(torch.float32),
        )
        if self.options.device.type == "cpu":
            return batch
        device = self.options.device
        return Batch(*(value.pin_memory().to(device, non_blocking=True) for value in batch))

    # --- Priorities -----------------------------------------------------------------------------

    def update_priorities(self, ids: Any, priorities: Any) -> None:
        """Set the priorities of some transitions, as `PrioritizedReplay.update_priorities`.

        Args:
            ids: As in `Batch.ids`; int64 ``[B]``, any device.
            priorities: New priorities before alpha; float ``[B]``, any device.

        Raises:
            InvalidArgumentError: Wrong shape or type; nothing has changed.
        """
        cpu = torch.device("cpu")
        checked = checked_ids(ids, cpu)
        shape = tuple(checked.shape)
        given = checked_tensor("priorities", priorities, shape, torch.float64, cpu)
        if not len(checked):
            return
        number = checked // self._rows
        block = number % len(self._known)
        index = block * self._rows + checked % self._rows
        # Of a row that must not be drawn the leaf is 0 for ever.
        is_live = (self._known[block] == number) & (number >= 0)
        is_live &= (self._shared.memory.flags[index] & INVALID) == 0
        accepted = self._accepted(given)
        index = torch.where(is_live & (accepted >= 0), index, self._sums.waste)
        self._sums.assign(index, self._sums.units(accepted, self.options.alpha))

    def _accepted(self, priorities: Tensor) -> Tensor:
        """Priorities with -1 in place of refused ones; counts them, and the largest."""
        refused = ~(priorities >= 0)  # true of NaN as well
        self.num_refused += refused.sum()
        kept = torch.where(refused, -1.0, priorities)
        largest = kept.clamp(max=self._sums.largest_priority(self.options.alpha)).amax()
        self.max_priority.clamp_(min=float(largest))
        return kept

    # --- Saving ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all published transitions to a file; explorers wait at their next block meanwhile.

        Raises:
            OSError: It cannot be written; a file of this name is as it was.
        """
        self._check_open()
        with self._shared.locks.held(INDEX_BYTE):
            self._poll_locked()
            save_state(make_state(type(self).__name__, self._description(), self._tensors()), path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace everything in the buffer by what `save` wrote. No explorer may have joined.

        Raises:
            FileNotFoundError: There is no such file.
            CheckpointError: It is damaged, or of another buffer; nothing has changed.
            NotReadyError: Explorers have joined already; nothing has changed.
        """
        if any(status.is_alive for status in self.explorers()):
            raise NotReadyError("load before explorers join; some have")
        state = load_state(path)
        with self._shared.locks.held(INDEX_BYTE):
            restore_state(state, type(self).__name__, self._description(), self._tensors())
            self._sums.rebuild()
            # What was being written when the file was has no writer any more.
            headers = self._shared.headers
            headers[headers[:, STATE] != PUBLISHED, STATE] = EMPTY

    def _tensors(self) -> dict[str, Tensor]:
        shared, memory = self._shared, self._shared.memory
        return {
            "frames": memory.frames,
            "actions": memory.actions,
            "rewards": memory.rewards,
            "flags": memory.flags,
            "first_priorities": shared.priorities,
            "headers": torch.from_numpy(shared.headers),
            "published": torch.from_numpy(shared.published),
            "next": torch.from_numpy(shared.control[NEXT : NEXT + 1]),
            "leaves": self._sums.leaves,
            "block_sums": self._sums.block_sums,
            "known": self._known,
            "num_live": self._num_live,
            "max_priority": self.max_priority,
            "num_refused": self.num_refused,
        }

    def _description(self) -> dict[str, str]:
        described = self.options.describe()
        return {name: text for name, text in described.items() if name not in FREE_OPTIONS}
