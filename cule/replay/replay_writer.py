"""`ReplayWriter`: the writing side of a `SharedPrioritizedReplay`, one a process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError
from cule.replay.errors import DisconnectedError, NotReadyError
from cule.replay.shared_memory import FIRST_EXPLORER_BYTE, SharedHandle, SharedMemory
from cule.replay.steps import Step, checked_frames, checked_tensor
from cule.replay.transitions import (
    FIRST,
    INVALID,
    LIFE_LOST,
    TERMINATED,
    TRUNCATED,
    Batch,
    Memory,
    read_transitions,
)

#: First priorities of a block's transitions, from the transitions themselves: float ``[B]``.
Prioritize = Callable[[Batch], Any]


class ReplayWriter:
    """Collects steps of N environments, and hands them over in blocks.

    Rows of an environment are kept here until `block_size` transitions are complete. Only then is a
    block of the shared memory reserved and filled, which is why explorers hardly ever meet.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from cule.replay import ReplayWriter, SharedOptions, SharedPrioritizedReplay
        >>> options = SharedOptions(capacity=2000, obs_shape=(3,), obs_dtype=torch.float32, stack=1)
        >>> no, obs = torch.zeros(1, dtype=torch.bool), torch.ones(1, 3)
        >>> step = SimpleNamespace(frame=obs, reward=[1.0], terminated=no, truncated=no,
        ...                        life_lost=no, first=no, final_frame=obs)
        >>> with SharedPrioritizedReplay(options) as replay:
        ...     with ReplayWriter(replay.handle(), 0) as explorer:  # in another process
        ...         explorer.start(obs)
        ...         for _ in range(10):
        ...             explorer.append([0], step)
        ...     batch = replay.sample(4)
        >>> batch.returns
        tensor([1., 1., 1., 1.])

    Attributes:
        index: Which explorer this is.
    """

    def __init__(
        self, handle: SharedHandle, index: int, prioritize: Prioritize | None = None
    ) -> None:
        """Join the learner.

        Args:
            handle: `SharedPrioritizedReplay.handle`.
            index: Which explorer this is; another one must not be using it. That of a dead one can
                be used again.
            prioritize: What gives the transitions of a full block their first priorities, such as
                errors of the explorer's own network. By default the largest priority so far.

        Raises:
            InvalidArgumentError: There is no such explorer, or it lives.
            DisconnectedError: The learner is gone.
        """
        options = handle.options
        if not isinstance(index, int) or not 0 <= index < options.num_explorers:
            raise InvalidArgumentError(
                f"index is {index!r}; it must be 0 ... {options.num_explorers - 1}"
            )
        self.index, self._options, self._prioritize = index, options, prioritize
        self._shared: SharedMemory | None = SharedMemory(handle)
        self._shared.check_learner()
        if not self._shared.locks.try_acquire(FIRST_EXPLORER_BYTE + index):
            raise InvalidArgumentError(f"index is {index}, but that explorer lives")
        n, rows = options.num_envs, self._shared.rows
        self._frames = torch.zeros((n, rows + 1, *options.obs_shape), dtype=options.obs_dtype)
        self._actions = torch.zeros((n, rows, *options.action_shape), dtype=options.action_dtype)
        self._rewards = torch.zeros((n, rows), dtype=torch.float32)
        self._flags = torch.zeros((n, rows), dtype=torch.uint8)
        self._counts = [0] * n  # rows with a frame
        self._first_live = [0] * n  # first row that has not been handed over

    def __enter__(self) -> ReplayWriter:
        """Nothing to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hand over what there is, unless the learner is gone, and leave."""
        self.close()

    @property
    def num_published(self) -> int:
        """Transitions handed over so far, by this explorer and those before it of its index."""
        shared = self._joined()
        with shared.locks.held(0):
            return shared.total_of(self.index)

    def start(self, frame: Any) -> None:
        """Begin new episodes in all environments; `frame` as in `UniformReplay.start`."""
        options = self._options
        frames = checked_frames("frame", frame, (options.num_envs,), options)
        for env in range(options.num_envs):
            if self._counts[env]:
                self._flags[env, self._counts[env] - 1] |= INVALID
            self._add(env, frames[env], FIRST)

    def append(self, actions: Any, step: Step) -> None:
        """Store one step of all environments; as `UniformReplay.append`.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or type. In both cases nothing has changed.
            DisconnectedError: A block was full, and the learner is gone.
        """
        options, cpu = self._options, torch.device("cpu")
        self._joined()
        if not self._counts[0]:
            raise NotReadyError("append before the first frames; call start() with them")
        shape = (options.num_envs,)
        frames = checked_frames("step.frame", step.frame, shape, options)
        taken = checked_tensor(
            "actions", actions, shape + options.action_shape, options.action_dtype, cpu
        )
        rewards = checked_tensor("step.reward", step.reward, shape, torch.float32, cpu)
        terminated, truncated, life_lost, first = (
            checked_tensor(f"step.{name}", getattr(step, name), shape, torch.bool, cpu)
            for name in ("terminated", "truncated", "life_lost", "first")
        )
        same_step = options.autoreset_mode == "SameStep"
        finals = None
        if same_step:
            finals = checked_frames("step.final_frame", step.final_frame, shape, options)
        flags = terminated * TERMINATED + truncated * TRUNCATED + life_lost * LIFE_LOST
        if not same_step:
            flags = flags + first * INVALID
        kept = truncated & ~terminated
        for env in range(options.num_envs):
            row = self._counts[env] - 1
            self._actions[env, row] = taken[env]
            self._rewards[env, row] = rewards[env]
            self._flags[env, row] |= int(flags[env])
            if finals is not None and kept[env]:
                # The final observation becomes a row, as in NextStep mode; nothing is done on it.
                self._add(env, finals[env], INVALID)
                self._rewards[env, self._counts[env] - 1] = 0
            self._add(env, frames[env], FIRST if first[env] else 0)

    def _add(self, env: int, frame: Tensor, flags: int) -> None:
        row = self._counts[env]
        if row == self._frames.shape[1] - 1:
            self._hand_over(env)
            row = self._counts[env]
        self._frames[env, row] = frame
        self._flags[env, row] = flags
        self._counts[env] = row + 1

    def flush(self) -> None:
        """Hand over all complete transitions, however few.

        Raises:
            DisconnectedError: The learner is gone.
        """
        for env in range(self._options.num_envs):
            self._hand_over(env)

    def _hand_over(self, env: int) -> None:
        """Publish the complete transitions of one environment, and keep what the next ones need."""
        shared, options = self._joined(), self._options
        count, first_live = self._counts[env], self._first_live[env]
        num_live = count - options.n_step - first_live
        if num_live <= 0:
            return
        shared.check_learner()
        priorities = self._first_priorities(env, first_live, num_live)
        reserved = shared.reserve(self.index)
        for name in ("frames", "actions", "rewards", "flags"):
            source: Tensor = getattr(self, f"_{name}")
            shared.block_rows(name, reserved.block)[:count] = source[env, :count]
        live = slice(first_live, first_live + num_live)
        shared.block_rows("priorities", reserved.block)[live] = priorities
        shared.publish(reserved, first_live, num_live)
        # Rows in front of the first transition that has not been handed over: S-1, if there are.
        keep_from = max(first_live + num_live - (options.stack - 1), 0)
        kept = count - keep_from
        for array in (self._frames, self._actions, self._rewards, self._flags):
            array[env, :kept] = array[env, keep_from:count].clone()
        self._counts[env], self._first_live[env] = kept, first_live + num_live - keep_from

    def _first_priorities(self, env: int, first_live: int, num_live: int) -> Tensor:
        """First priorities of the transitions of a block; NaN for the largest so far."""
        options = self._options
        if self._prioritize is None:
            return torch.full((num_live,), float("nan"))
        memory = Memory(
            self._frames[env], self._actions[env], self._rewards[env], self._flags[env],
            zero_row=self._frames.shape[1] - 1,
        )  # fmt: skip
        offsets = torch.arange(1 - options.stack, options.n_step + 1)
        rows = first_live + torch.arange(num_live)
        window = (rows[:, None] + offsets).clamp(min=0)
        found = read_transitions(memory, window, options.n_step, options)
        batch = Batch(
            obs=found.obs,
            actions=found.actions,
            returns=found.returns,
            discounts=found.discounts,
            next_obs=found.next_obs,
            weights=found.usable.to(torch.float32),
            ids=torch.full((num_live,), -1),
            probabilities=torch.full((num_live,), 1.0 / num_live),
        )
        given = self._prioritize(batch)
        return checked_tensor(
            "what prioritize returned", given, (num_live,), torch.float32, torch.device("cpu")
        )

    def close(self) -> None:
        """Hand over all complete transitions, unless the learner is gone, and leave."""
        if self._shared is not None:
            try:
                self.flush()
            except DisconnectedError:
                pass
            finally:
                self._shared.locks.close()
                self._shared = None

    def _joined(self) -> SharedMemory:
        if self._shared is None:
            raise DisconnectedError("this explorer has been closed")
        return self._shared
