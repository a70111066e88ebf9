"""`UniformReplay`: a ring of steps, sampled uniformly."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError, NotReadyError, ShortReplayWarning, shown, warn
from cule.replay.memory import check_batch_size, plan_size, report
from cule.replay.options import ReplayOptions, check_options
from cule.replay.permutation import permuted
from cule.replay.ring import RingBuffer, ring_bytes
from cule.replay.steps import (
    ArrayLike,
    Step,
    Steps,
    checked_frames,
    checked_ids,
    checked_length,
    checked_tensor,
)
from cule.replay.transitions import Batch

_KEY_RANGE = 2**62

#: Options that a restored buffer may change: they affect sampling and reading, not what is stored.
_FREE_OPTIONS = (
    *("capacity", "gamma", "reward_clipping", "replacement"),
    *("device", "seed", "pad", "pixel_blocks"),
)

#: Below this many steps per environment, a ring holds little but the data of the current policy.
SHORT_STEPS = 1_000


class UniformReplay(RingBuffer):
    """Replay buffer of N environments that step together, sampled uniformly.

    All memory is allocated once, on one device. `append`, `append_block`, `sample` and `sample_at`
    have static shapes and read nothing back, so you can capture them in a CUDA graph: register
    `generator` with the graph, pass `append` frames of your own instead of `next_frame`, and call
    `resync` after the graph has run.

    Timestep t can be sampled from when its n steps are complete until the first frame of its stack
    is overwritten: ``num_timesteps - (S - 1) - n`` timesteps of every environment in a full ring.

    Example:
        >>> import torch
        >>> from cule.replay import ReplayOptions, UniformReplay
        >>> options = ReplayOptions(capacity=4000, num_envs=2, obs_shape=(3,),
        ...                         obs_dtype=torch.float32, stack=1)
        >>> replay = UniformReplay(options)
        >>> replay.start(torch.zeros(2, 3))
        >>> ended = torch.zeros(5, 2, dtype=torch.bool)
        >>> replay.append_block(frames=torch.ones(5, 2, 3), actions=torch.zeros(5, 2).long(),
        ...                     rewards=torch.ones(5, 2), terminated=ended)
        >>> replay.sample(8).obs.shape
        torch.Size([8, 3])

    Attributes:
        options: Options of the buffer.
        generator: Random generator of all samples, on the device.
        num_timesteps: Timesteps of a full ring.
    """

    def __init__(self, options: ReplayOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device.

        Raises:
            InvalidArgumentError: The capacity is invalid.
            CapacityError: The buffer does not fit into the memory of the device.
        """
        check_options(options, ReplayOptions)
        self.options = options
        device, n = options.device, options.num_envs
        self.num_timesteps = plan_size(
            options.capacity,
            device,
            partial(self._bytes_of, options),
            transitions_each=n,
            overhead=self._overhead,
        )
        num_steps = self.num_timesteps - self._overhead
        if num_steps < SHORT_STEPS:
            warn(
                f"capacity is {shown(options.capacity)}: with {n} environments the ring spans "
                f"{num_steps} steps, so its data is nearly on-policy",
                ShortReplayWarning,
            )
        super().__init__(self.num_timesteps, options)
        # Key, position and head of the current order without replacement.
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        self._position = torch.zeros((), dtype=torch.int64, device=device)
        self._order_head = torch.full((), -1, dtype=torch.int64, device=device)

    @staticmethod
    def _bytes_of(options: ReplayOptions, num_timesteps: int) -> dict[str, int]:
        return ring_bytes(num_timesteps, options)

    @property
    def _overhead(self) -> int:
        """Timesteps that cannot be sampled: the rest of the oldest stack and the newest return."""
        return self.options.stack - 1 + self.options.n_step

    @property
    def head(self) -> int:
        """Newest timestep, counted from 0 and never wrapped; -1 before `start`."""
        return self._ring.host_head

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled, with ignored steps (they get weight 0)."""
        oldest = max(self.head - self.num_timesteps + self.options.stack, 0)
        return max(self.head - self.options.n_step - oldest + 1, 0) * self.options.num_envs

    def count_valid(self) -> Tensor:
        """`num_valid` as an int64 scalar on the device, which a CUDA graph can read."""
        return self._valid()[1]

    def __len__(self) -> int:
        """`num_valid`."""
        return self.num_valid

    def __repr__(self) -> str:
        """Transitions, sizes and device."""
        capacity = (self.num_timesteps - self._overhead) * self.options.num_envs
        name, sizes = type(self).__name__, self.options.summary()
        return f"{name}({len(self):,} of {capacity:,} transitions, {sizes})"

    def memory_bytes(self) -> dict[str, int]:
        """Bytes of the tensors, by use."""
        return self._bytes_of(self.options, self.num_timesteps)

    def memory_report(self) -> str:
        """A table of `memory_bytes`."""
        parts = self.memory_bytes()
        num_steps = self.num_timesteps - self._overhead
        transitions = num_steps * self.options.num_envs
        facts = {
            "transitions": f"{transitions:,}",
            "bytes per transition": f"{sum(parts.values()) / transitions:,.1f}",
            "steps spanned": f"{num_steps:,}",
        }
        return report(parts, facts)

    def append(self, actions: ArrayLike, step: Step) -> None:
        """Store one step of all environments.

        Args:
            actions: Actions chosen on `observe`; ``[N, *action_shape]``.
            step: Result of the actions, such as `cule.FrameStep`; arrays or tensors ``[N, ...]`` on
                any device. `final_frame` is read in SameStep mode only; `frame` is not copied if it
                is `next_frame`.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or dtype; a step of an `AtariVectorEnv` with another
                autoreset mode; or, on the CPU, first without an end of an episode where the mode
                has it. In all cases the buffer is unchanged. On a GPU, samples of such a step get
                weight 0.
        """
        self._ring.append(actions, step)

    def append_block(
        self,
        *,
        frames: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike | None = None,
        life_lost: ArrayLike | None = None,
        first: ArrayLike | None = None,
        final_frames: ArrayLike | None = None,
    ) -> None:
        """Store T steps of all environments at once, from arrays or tensors on any device.

        Args:
            frames: Frames after each step; ``[T, N, *obs_shape]``, obs_dtype.
            actions: Actions before them; ``[T, N, *action_shape]``.
            rewards: Rewards; ``[T, N]``, stored as float32.
            terminated: Whether the episode terminated; bool ``[T, N]``.
            truncated: Whether the episode was truncated; bool ``[T, N]``. Default: all False.
            life_lost: Whether a life was lost; bool ``[T, N]``. Default: all False.
            first: Whether the frame is the first of an episode; bool ``[T, N]``. Default: follows
                from `terminated`, `truncated` and the autoreset mode.
            final_frames: Final frames of episodes, read where truncated; as `frames`. Required with
                `truncated` in SameStep mode, otherwise not read.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or dtype, or `first` as in `append`. In both cases the
                buffer is unchanged.
        """
        ring, options, device = self._ring, self.options, self.options.device
        ring.check_started()
        lead = (checked_length("frames", frames), options.num_envs)
        if not lead[0]:
            raise InvalidArgumentError("frames has no steps; it must have at least one")

        def flags(name: str, value: ArrayLike | None) -> Tensor:
            if value is None:
                return torch.zeros(lead, dtype=torch.bool, device=device)
            return checked_tensor(name, value, lead, torch.bool, device)

        checked_finals = None
        if ring.num_finals and truncated is not None:
            if final_frames is None:
                raise InvalidArgumentError(
                    "final_frames is None; with truncated in SameStep mode it must be an array"
                )
            checked_finals = checked_frames("final_frames", final_frames, lead, options, device)
        is_terminated, is_truncated = flags("terminated", terminated), flags("truncated", truncated)
        is_first = flags("first", first)
        if first is None:
            is_first = ring.where_first(is_terminated | is_truncated)
        else:
            ring.check_first(is_first, is_terminated | is_truncated)
        shape = lead + options.action_shape
        steps = ring.without_overlap(
            Steps(
                frames=checked_frames("frames", frames, lead, options, device),
                actions=checked_tensor("actions", actions, shape, options.action_dtype, device),
                rewards=checked_tensor("rewards", rewards, lead, torch.float32, device),
                terminated=is_terminated,
                truncated=is_truncated,
                life_lost=flags("life_lost", life_lost),
                first=is_first,
                final_frames=checked_finals,
            )
        )
        # A longer write would overwrite its own timesteps.
        most = self.num_timesteps - self._overhead
        for begin in range(0, steps.rewards.shape[0], most):
            self._write(Steps._make(x if x is None else x[begin : begin + most] for x in steps))

    def _write(self, steps: Steps) -> None:
        self._ring.write(steps)

    def sample(self, batch_size: int) -> Batch:
        """Sample transitions.

        Args:
            batch_size: Transitions B.

        Returns:
            The batch. Weights are 0 for transitions that must not be learned from, otherwise 1.

        Raises:
            InvalidArgumentError: batch_size is not a positive int, or exceeds `num_valid` without
                replacement.
            CapacityError: The batch does not fit into the free memory.
            NotReadyError: There is nothing to sample yet.
        """
        self._check_batch_size(batch_size)
        if not self.options.replacement:
            if batch_size > self.num_valid:
                raise InvalidArgumentError(
                    f"batch_size is {batch_size}; without replacement it must be at most "
                    f"{self.num_valid}, the number of transitions in the buffer"
                )
            return self._gather(self._distinct_ids(batch_size))
        native = self._ring.native
        if native is not None:
            return native.sample(self.generator, batch_size, self.options.n_step)
        return self._gather(self._uniform_ids(batch_size))

    def sample_at(self, ids: ArrayLike) -> Batch:
        """The transitions of given ids; those that have left the buffer get weight 0.

        Args:
            ids: int64 ``[B]``: timestep times N, plus environment.

        Raises:
            InvalidArgumentError: Wrong shape or dtype.
            NotReadyError: There is nothing to sample yet.
        """
        checked = checked_ids(ids, self.options.device)
        self._check_batch_size(len(checked))
        return self._gather(checked)

    def _check_batch_size(self, batch_size: object) -> None:
        check_batch_size(batch_size, self.options)
        if self.num_valid == 0:
            raise NotReadyError(
                f"nothing to sample yet: head is {self.head}, and a transition needs "
                f"{self.options.n_step} steps"
            )

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(
            count, generator=self.generator, dtype=torch.float64, device=self.options.device
        )

    def _uniform_ids(self, count: int) -> Tensor:
        """Uniformly sampled ids, with replacement."""
        oldest, num_valid = self._valid()
        position = (self._uniform(count) * num_valid).to(torch.int64).clamp(max=num_valid - 1)
        return oldest * self.options.num_envs + position

    def _valid(self) -> tuple[Tensor, Tensor]:
        """Oldest valid timestep, and the number of valid transitions; int64 scalars."""
        head = self._ring.head
        oldest = (head - (self.num_timesteps - self.options.stack)).clamp(min=0)
        return oldest, (head - self.options.n_step - oldest + 1) * self.options.num_envs

    def _is_valid(self, timesteps: Tensor, oldest: Tensor) -> Tensor:
        """Whether timesteps can be sampled; bool, shape of `timesteps`."""
        return (timesteps >= oldest) & (timesteps <= self._ring.head - self.options.n_step)

    def _distinct_ids(self, count: int) -> Tensor:
        """The next ids of a random order."""
        native, head = self._ring.native, self._ring.head
        if native is not None:
            order = self._key, self._position, self._order_head
            return native.sample_distinct(order, self._uniform(1), count, self.options.n_step)
        oldest, num_valid = self._valid()
        is_new = (head != self._order_head) | (self._position + count > num_valid)
        new_key = (self._uniform(1)[0] * _KEY_RANGE).to(torch.int64)
        self._key.copy_(torch.where(is_new, new_key, self._key))
        self._position.copy_(torch.where(is_new, 0, self._position))
        self._order_head.copy_(head)
        positions = self._position + torch.arange(count, device=head.device)
        self._position.add_(count)
        return oldest * self.options.num_envs + permuted(positions, num_valid, self._key)

    def _gather(self, ids: Tensor) -> Batch:
        """The transitions of ids; the weights are 1 where a transition is usable."""
        n, native = self.options.num_envs, self._ring.native
        if native is not None:
            return native.gather(ids, self.options.n_step)
        timesteps = ids // n
        found = self._ring.read(timesteps, ids % n, self.options.n_step)
        oldest, count = self._valid()
        return found.as_batch(
            weights=(found.usable & self._is_valid(timesteps, oldest)).to(torch.float32),
            ids=ids,
            probabilities=(1.0 / count.to(torch.float32)).expand(len(ids)),
        )

    def _tensors(self) -> dict[str, Tensor]:
        order = {"key": self._key, "position": self._position, "order_head": self._order_head}
        return {**self._ring.tensors(), **order}

    def _description(self) -> dict[str, str]:
        described = self.options.describe(without=_FREE_OPTIONS)
        return {**described, "num_timesteps": str(self.num_timesteps)}
