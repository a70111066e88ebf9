"""`ReplayWriter`: the writing side of a `SharedPrioritizedReplay`, one for each process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from cule.errors import DisconnectedError, InvalidArgumentError, NotReadyError
from cule.replay.options import check
from cule.replay.shared_memory import FIRST_WRITER_BYTE, INDEX_BYTE, SharedHandle, SharedMemory
from cule.replay.steps import (
    ArrayLike,
    Step,
    check_first,
    check_mode,
    checked_frames,
    checked_step,
    checked_tensor,
)
from cule.replay.transitions import (
    FIRST,
    INVALID,
    LIFE_LOST,
    TERMINATED,
    TRUNCATED,
    Batch,
    Cells,
    read_transitions,
)

#: Returns the first priorities of the transitions of a block; float ``[B]``.
Prioritize = Callable[[Batch], ArrayLike]

_CPU = torch.device("cpu")


class ReplayWriter:
    """Collects the steps of N environments and publishes them in blocks.

    A writer keeps the timesteps of an environment until `block_size` transitions are complete. Only
    then does it reserve and fill a block of the shared memory, so writers rarely wait.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from cule.replay import ReplayWriter, SharedOptions, SharedPrioritizedReplay
        >>> options = SharedOptions(capacity=2000, obs_shape=(3,), obs_dtype=torch.float32, stack=1)
        >>> no, obs = torch.zeros(1, dtype=torch.bool), torch.ones(1, 3)
        >>> step = SimpleNamespace(frame=obs, reward=[1.0], terminated=no, truncated=no,
        ...                        life_lost=no, first=no, final_frame=obs)
        >>> with SharedPrioritizedReplay(options) as replay:
        ...     with ReplayWriter(replay.handle(), 0) as writer:  # in another process
        ...         writer.start(obs)
        ...         for _ in range(10):
        ...             writer.append([0], step)
        ...     batch = replay.sample(4)
        >>> batch.returns
        tensor([1., 1., 1., 1.])

    Attributes:
        index: Index of the writer.
    """

    def __init__(
        self, handle: SharedHandle, index: int, prioritize: Prioritize | None = None
    ) -> None:
        """Connect to the learner.

        Args:
            handle: `SharedPrioritizedReplay.handle`.
            index: Index of the writer, which no other living writer uses.
            prioritize: Computes the first priorities of the transitions of a full block, such as
                errors of the writer's own network. Default: the largest priority so far.

        Raises:
            InvalidArgumentError: The index is too large, or in use.
            DisconnectedError: The learner is gone.
        """
        options = handle.options
        is_index = isinstance(index, int) and 0 <= index < options.num_writers
        check("index", index, is_index, f"in 0 ... {options.num_writers - 1}")
        self.index, self._options, self._prioritize = index, options, prioritize
        self._shared: SharedMemory | None = SharedMemory(handle)
        self._shared.check_learner()
        if not self._shared.locks.try_acquire(FIRST_WRITER_BYTE + index):
            raise InvalidArgumentError(
                f"index is {index}; it must not be that of another writer that is alive"
            )
        n, cells = options.num_envs, self._shared.block_cells
        self._frames = torch.zeros((n, cells + 1, *options.obs_shape), dtype=options.obs_dtype)
        self._actions = torch.zeros((n, cells, *options.action_shape), dtype=options.action_dtype)
        self._rewards = torch.zeros((n, cells), dtype=torch.float32)
        self._flags = torch.zeros((n, cells), dtype=torch.uint8)
        self._counts = [0] * n  # timesteps with a frame
        self._ended = torch.zeros(n, dtype=torch.bool)  # episodes that ended in the last step
        self._first_live = [0] * n  # first timestep that has not been published

    def __enter__(self) -> ReplayWriter:
        """Return the writer."""
        return self

    def __exit__(self, *_: object) -> None:
        """`close`."""
        self.close()

    @property
    def num_published(self) -> int:
        """Transitions that this writer and earlier ones of its index have published."""
        shared = self._connected()
        with shared.locks.held(INDEX_BYTE):
            return shared.total_of(self.index)

    def start(self, frame: ArrayLike) -> None:
        """Start new episodes in all environments; `frame` as in `UniformReplay.start`.

        Raises:
            InvalidArgumentError: Wrong shape or dtype; the writer is unchanged.
            DisconnectedError: `close` was called.
        """
        options = self._options
        self._connected()
        frames = checked_frames("frame", frame, (options.num_envs,), options, _CPU)
        self._ended.zero_()
        for env in range(options.num_envs):
            if self._counts[env]:
                self._flags[env, self._counts[env] - 1] |= INVALID
            self._add(env, frames[env], FIRST)

    def append(self, actions: ArrayLike, step: Step) -> None:
        """Store one step of all environments, as `UniformReplay.append`.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or dtype, or first without an end of an episode where
                the autoreset mode has it. In both cases the writer is unchanged.
            DisconnectedError: A block was full, and the learner is gone; or `close` was called.

        What `prioritize` raises comes through, and leaves the step half stored: start anew then.
        """
        options = self._options
        self._connected()
        if not self._counts[0]:
            raise NotReadyError("append needs first frames; call start() before it")
        check_mode(step, options)
        same_step = options.autoreset_mode == "SameStep"
        steps = checked_step(actions, step, options, _CPU, finals=same_step)
        assert steps.frames is not None
        terminated, truncated, first = steps.terminated[0], steps.truncated[0], steps.first[0]
        ended = terminated | truncated
        check_first(first, ended if same_step else self._ended, options)
        self._ended = ended
        flags = terminated * TERMINATED + truncated * TRUNCATED + steps.life_lost[0] * LIFE_LOST
        if not same_step:
            flags = flags + first * INVALID
        has_final = truncated & ~terminated
        for env in range(options.num_envs):
            t = self._counts[env] - 1
            self._actions[env, t] = steps.actions[0, env]
            self._rewards[env, t] = steps.rewards[0, env]
            self._flags[env, t] |= int(flags[env])
            if steps.final_frames is not None and has_final[env]:
                # The final frame gets a timestep of its own without an action, as in NextStep.
                self._add(env, steps.final_frames[0, env], INVALID)
                self._rewards[env, self._counts[env] - 1] = 0
            self._add(env, steps.frames[0, env], FIRST if first[env] else 0)

    def _add(self, env: int, frame: Tensor, flags: int) -> None:
        if self._counts[env] == self._frames.shape[1] - 1:
            self._publish(env)
        t = self._counts[env]
        self._frames[env, t] = frame
        self._flags[env, t] = flags
        self._counts[env] = t + 1

    def flush(self) -> None:
        """Publish all complete transitions, however few.

        Raises:
            DisconnectedError: The learner is gone.
        """
        for env in range(self._options.num_envs):
            self._publish(env)

    def _publish(self, env: int) -> None:
        """Publish the complete transitions of an environment; keep what the next ones need."""
        shared, options = self._connected(), self._options
        count, first_live = self._counts[env], self._first_live[env]
        num_live = count - options.n_step - first_live
        if num_live <= 0:
            return
        shared.check_learner()
        priorities = self._first_priorities(env, first_live, num_live)
        block = shared.reserve(self.index)
        mine = self._frames, self._actions, self._rewards, self._flags
        for target, source in zip(shared.cells[:4], mine, strict=True):
            shared.of_block(target, block)[:count] = source[env, :count]
        live = slice(first_live, first_live + num_live)
        shared.of_block(shared.priorities, block)[live] = priorities
        shared.publish(block, first_live, num_live)
        # Keep the S-1 timesteps before the first transition that has not been published.
        keep_from = max(first_live + num_live - (options.stack - 1), 0)
        kept = count - keep_from
        for array in mine:
            array[env, :kept] = array[env, keep_from:count].clone()
        self._counts[env], self._first_live[env] = kept, first_live + num_live - keep_from

    def _first_priorities(self, env: int, first_live: int, num_live: int) -> Tensor:
        """First priorities of the transitions of a block; NaN for the largest so far."""
        options = self._options
        if self._prioritize is None:
            return torch.full((num_live,), float("nan"))
        frames, actions = self._frames[env], self._actions[env]
        cells = Cells(frames, actions, self._rewards[env], self._flags[env], len(frames) - 1)
        offsets = torch.arange(1 - options.stack, options.n_step + 1)
        timesteps = first_live + torch.arange(num_live)
        window = (timesteps[:, None] + offsets).clamp(min=0)
        found = read_transitions(cells, window, options.n_step, options)
        batch = found.as_batch(
            weights=found.usable.to(torch.float32),
            ids=torch.full((num_live,), -1),
            probabilities=torch.full((num_live,), 1.0 / num_live),
        )
        name, shape = "the result of prioritize", (num_live,)
        return checked_tensor(name, self._prioritize(batch), shape, torch.float32, _CPU)

    def close(self) -> None:
        """Publish all complete transitions, unless the learner is gone, and disconnect."""
        if self._shared is not None:
            try:
                with suppress(DisconnectedError):
                    self.flush()
            finally:
                self._shared.locks.close()
                self._shared = None

    def _connected(self) -> SharedMemory:
        if self._shared is None:
            raise DisconnectedError("this writer has been closed")
        return self._shared
