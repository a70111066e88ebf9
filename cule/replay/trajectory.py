"""`TrajectoryBuffer`: rollouts of the last T steps, for on-policy learners."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from cule.device import free_device_bytes
from cule.errors import CapacityError, InvalidArgumentError, NotReadyError, shown
from cule.files import format_bytes
from cule.replay.memory import report
from cule.replay.multi_batch import MultiBatchSchedule
from cule.replay.options import TrajectoryOptions, check_int, check_options
from cule.replay.ring import RingBuffer, ring_bytes
from cule.replay.steps import ArrayLike, Step, checked_length, checked_tensor
from cule.replay.transitions import INVALID, TERMINATED, TRUNCATED, is_terminal, shaped_rewards

_FREE_OPTIONS = (
    *("gamma", "reward_clipping", "num_batches", "steps_per_update", "device", "seed"),
    "pixel_blocks",
)


class Rollout(NamedTuple):
    """T consecutive steps of n environments, time first. The tensors are yours to keep.

    The value after step t is that of ``obs[t + 1]`` (`bootstrap_obs` after the last step), or that
    of the `final_obs` whose `final_steps` is t; its discount is ``discounts[t]``. Where
    ``ended[t]``, nothing else passes from step t+1 to step t.
    """

    obs: Tensor | None
    """Observations; ``[T, n, S, *obs_shape]`` (``[T, n, *obs_shape]`` without stacking); None if
    not requested."""

    actions: Tensor
    """Actions chosen on `obs`; ``[T, n, *action_shape]``."""

    rewards: Tensor
    """Rewards, clipped as the options say; float32 ``[T, n]``."""

    discounts: Tensor
    """gamma, or 0 after a termination; float32 ``[T, n]``."""

    ended: Tensor
    """Whether the episode ended with this step, for any reason; bool ``[T, n]``."""

    valid: Tensor
    """Whether to learn from the step; bool ``[T, n]``. False where the environment ignored the
    action, and where the final observation of a truncated episode is lost."""

    extras: dict[str, Tensor]
    """Further stored values, by name; ``[T, n, ...]``."""

    bootstrap_obs: Tensor
    """Observations after the last step; ``[n, S, *obs_shape]``."""

    final_obs: Tensor
    """Final observations of truncated episodes; ``[K, n, S, *obs_shape]``. K is the most of one
    environment, and 0 in NextStep mode, where `obs` holds them."""

    final_steps: Tensor
    """Step of the rollout that each of `final_obs` ended with, or -1 for none; int64 ``[K, n]``."""


class TrajectoryBuffer(RingBuffer):
    """The last T steps of N environments, as rollouts for A2C, V-trace and PPO.

    A ring with one frame a step: appending shifts and copies nothing. `due` tells when to update
    and on which environments (`MultiBatchSchedule`).

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from cule.replay import TrajectoryBuffer, TrajectoryOptions
        >>> buffer = TrajectoryBuffer(TrajectoryOptions(num_envs=2, num_steps=5, extras={}))
        >>> buffer.start(torch.zeros(2, 84, 84, dtype=torch.uint8))
        >>> no = torch.zeros(2, dtype=torch.bool)
        >>> for _ in range(5):
        ...     frame = buffer.next_frame()  # env.step_frames(actions, out=frame) writes here
        ...     step = SimpleNamespace(frame=frame, reward=torch.ones(2), terminated=no,
        ...                            truncated=no, life_lost=no, first=no, final_frame=frame)
        ...     buffer.append(torch.zeros(2, dtype=torch.int64), step)
        >>> [buffer.rollout(envs).obs.shape for envs in buffer.due()]
        [torch.Size([5, 2, 4, 84, 84])]

    Attributes:
        options: Options of the buffer.
        schedule: When updates are due.
        generator: Random generator of `minibatches`, on the device.
    """

    def __init__(self, options: TrajectoryOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device.

        Raises:
            InvalidArgumentError: num_batches or steps_per_update is not allowed.
            CapacityError: The buffer does not fit into the memory of the device.
        """
        check_options(options, TrajectoryOptions)
        self.options = options
        spacing = options.steps_per_update
        self.schedule = MultiBatchSchedule(
            options.num_envs,
            num_batches=options.num_batches,
            num_steps=options.num_steps,
            steps_per_update=options.num_steps if spacing is None else spacing,
        )
        # T steps, the timestep after them, and the rest of the oldest stack.
        num_timesteps = options.num_steps + options.stack
        wanted, free = sum(self._bytes(num_timesteps).values()), free_device_bytes(options.device)
        if wanted > free:
            raise CapacityError(
                f"num_steps is {options.num_steps}, which needs {format_bytes(wanted)} with "
                f"{options.num_envs} environments; {options.device} has {format_bytes(free)} free"
            )
        super().__init__(num_timesteps, options)
        slots = (self._ring.num_slots, options.num_envs)
        self._extras = {
            name: torch.zeros(slots + shape, dtype=dtype, device=options.device)
            for name, (shape, dtype) in options.extras.items()
        }
        self._steps_done = torch.zeros((), dtype=torch.int64)  # on the host, but saved
        self._counted = self._ring.host_head  # timestep that they include
        same_step = options.autoreset_mode == "SameStep"
        self._num_finals = -(-options.num_steps // options.max_episode_steps) if same_step else 0

    def _bytes(self, num_timesteps: int) -> dict[str, int]:
        parts = ring_bytes(num_timesteps, self.options)
        cells = (num_timesteps + 1) * self.options.num_envs
        for name, (shape, dtype) in self.options.extras.items():
            parts[name] = cells * dtype.itemsize * int(torch.Size(shape).numel())
        return parts

    def memory_report(self) -> str:
        """A table of the memory by use; the bytes are those of the tensors."""
        return report(self._bytes(self._ring.num_timesteps))

    def append(self, actions: ArrayLike, step: Step, **extras: ArrayLike) -> None:
        """Store one step of all environments.

        Args:
            actions: As in `UniformReplay.append`.
            step: As in `UniformReplay.append`.
            **extras: The extras of the options; ``[N, ...]`` each.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape, dtype or names. The buffer is unchanged.
        """
        options = self.options
        if extras.keys() != self._extras.keys():
            raise InvalidArgumentError(
                f"extras are {sorted(extras)}; they must be {sorted(self._extras)}"
            )
        n, device = options.num_envs, options.device
        checked = {
            name: checked_tensor(name, extras[name], (n, *shape), dtype, device)
            for name, (shape, dtype) in options.extras.items()
        }
        # First, so that Ctrl-C leaves no step without its extras.
        slots = (self._ring.head % self._ring.num_slots).view(1)
        for name, value in checked.items():
            self._extras[name].index_copy_(0, slots, value[None])
        self._ring.append(actions, step)
        self._count_steps()

    def count_captured_step(self) -> None:
        """Count a step that a CUDA graph has appended. Does not wait for the device."""
        self._ring.advance(1)
        self._count_steps()

    def _count_steps(self) -> None:
        head = self._ring.host_head
        # Not a torch operation, which a CUDA graph would capture.
        self._steps_done.numpy()[...] += head - self._counted
        self._counted = head

    def start(self, frame: ArrayLike) -> None:
        """Start new episodes in all environments, as `UniformReplay.start`."""
        super().start(frame)
        self._counted = self._ring.host_head

    def __repr__(self) -> str:
        """Steps, sizes and device."""
        steps = self.options.num_steps
        return f"TrajectoryBuffer(num_steps={steps}, {self.options.summary()})"

    @property
    def num_steps_done(self) -> int:
        """Completed steps of all environments."""
        return int(self._steps_done.numpy())

    @property
    def is_full(self) -> bool:
        """Whether there are T steps, enough for a rollout."""
        return self.num_steps_done >= self.options.num_steps

    def due(self) -> list[slice]:
        """Environments of the updates after the last step, in order."""
        return self.schedule.due(self.num_steps_done)

    def rollout(self, envs: slice | Tensor | None = None, *, with_obs: bool = True) -> Rollout:
        """The last T steps of environments.

        Args:
            envs: Contiguous environments, or their numbers on the device, int64 ``[n]``, which are
                not checked. Default: all.
            with_obs: False omits `Rollout.obs`, the largest part; `obs_at` gives parts of it.

        Raises:
            NotReadyError: There are fewer than T steps.
            InvalidArgumentError: envs is not a contiguous range of environments.
        """
        options, ring = self.options, self._ring
        if not self.is_full:
            raise NotReadyError(
                f"there are {self.num_steps_done} steps; a rollout needs {options.num_steps}"
            )
        if isinstance(envs, Tensor):
            chosen, columns = envs, None
        else:
            try:
                some = range(options.num_envs)[slice(None) if envs is None else envs]
            except (TypeError, IndexError):
                some = range(0)
            if not isinstance(envs, slice | None) or not len(some) or some.step != 1:
                raise InvalidArgumentError(
                    f"envs is {shown(envs)}; it must be a slice of 0 ... {options.num_envs} in "
                    "steps of 1"
                )
            chosen = some.start + self._range(len(some))
            columns = slice(some.start, some.stop)
        timesteps = ring.head - options.num_steps + self._range(options.num_steps)

        def read(stored: Tensor, timesteps: Tensor = timesteps) -> Tensor:
            rows = stored.index_select(0, timesteps % ring.num_slots)
            return rows.index_select(1, chosen) if columns is None else rows[:, columns]

        flags, next_flags = read(ring.flags), read(ring.flags, timesteps + 1)
        truncated = ((flags & TRUNCATED) != 0) & ((flags & TERMINATED) == 0)
        ended = ((flags & (TERMINATED | TRUNCATED)) != 0) | ((next_flags & INVALID) != 0)
        final_obs, final_steps, lost = self._finals(truncated, timesteps, chosen)
        discounts = torch.where(is_terminal(flags, options), 0.0, options.gamma)
        return Rollout(
            obs=self._all_obs(chosen) if with_obs else None,
            actions=read(ring.actions),
            rewards=shaped_rewards(read(ring.rewards), options.reward_clipping),
            discounts=discounts.to(torch.float32),
            ended=ended,
            valid=((flags & INVALID) == 0) & ~lost,
            extras={name: read(stored) for name, stored in self._extras.items()},
            bootstrap_obs=ring.stacks(ring.head.expand(len(chosen)), chosen),
            final_obs=final_obs,
            final_steps=final_steps,
        )

    def obs_at(self, index: ArrayLike) -> Tensor:
        """Observations of steps of the rollout of all environments.

        Args:
            index: Step of the rollout times N, plus environment; int64 ``[B]``, as `minibatches`.

        Returns:
            ``[B, S, *obs_shape]`` (``[B, *obs_shape]`` without stacking).

        Raises:
            InvalidArgumentError: Wrong shape or dtype.
        """
        shape, n = (checked_length("index", index),), self.options.num_envs
        index = checked_tensor("index", index, shape, torch.int64, self.options.device)
        timesteps = self._ring.head - self.options.num_steps + index // n
        return self._ring.stacks(timesteps, index % n)

    def frames(self, size: int) -> Iterator[Tensor]:
        """The newest frame of every observation of the rollout, in parts.

        Args:
            size: Number of frames of a part, rounded to whole steps of all environments.

        Yields:
            ``[B, *obs_shape]``, a copy.

        Raises:
            InvalidArgumentError: size is no positive int.
        """
        check_int("size", size, 1)
        ring, options = self._ring, self.options
        timesteps = ring.head - options.num_steps + self._range(options.num_steps)
        for part in torch.split(timesteps, max(size // options.num_envs, 1)):
            yield ring.by_slot.index_select(0, part % ring.num_slots).flatten(0, 1)

    def minibatches(self, count: int) -> Tensor:
        """All steps of the rollout in random order, each once.

        Args:
            count: Number of minibatches; it divides T * N.

        Returns:
            int64 ``[count, T * N / count]``: step times N, plus environment.

        Raises:
            InvalidArgumentError: count does not divide T * N.
        """
        size = self.options.num_steps * self.options.num_envs
        if not isinstance(count, Integral) or count < 1 or size % count:
            raise InvalidArgumentError(f"count is {shown(count)}; it must divide the {size} steps")
        order = torch.randperm(size, generator=self.generator, device=self.options.device)
        return order.view(int(count), -1)

    def _range(self, count: int) -> Tensor:
        return torch.arange(count, device=self.options.device)

    def _all_obs(self, chosen: Tensor) -> Tensor:
        num_steps, n = self.options.num_steps, self.options.num_envs
        index = self._range(num_steps)[:, None] * n + chosen
        obs = self.obs_at(index.flatten())
        return obs.view(num_steps, len(chosen), *obs.shape[1:])

    def _finals(
        self, truncated: Tensor, timesteps: Tensor, chosen: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`Rollout.final_obs`, `Rollout.final_steps`, and where a final observation is lost."""
        ring, n = self._ring, len(chosen)
        if not self._num_finals:
            stack = (self.options.stack,) if self.options.stack > 1 else ()
            empty = ring.frames.new_zeros((0, n, *stack, *self.options.obs_shape))
            none = torch.zeros((0, n), dtype=torch.int64, device=timesteps.device)
            return empty, none, torch.zeros_like(truncated)
        number = truncated.cumsum(0)
        lost = truncated & (number > self._num_finals)
        all_obs, all_steps = [], []
        for k in range(1, self._num_finals + 1):
            is_this = truncated & (number == k)
            step = is_this.to(torch.uint8).argmax(0)
            obs, is_kept = ring.final_stacks(timesteps[step], chosen)
            found = is_this.any(0)
            all_obs.append(obs)
            all_steps.append(torch.where(found & is_kept, step, -1))
            lost = lost | (is_this & ~is_kept)
        return torch.stack(all_obs), torch.stack(all_steps), lost

    def resync(self) -> None:
        """Update the host after a CUDA graph has appended steps. Waits for the device."""
        super().resync()
        self._count_steps()

    def _restored(self) -> None:
        super()._restored()
        self._counted = self._ring.host_head

    def _tensors(self) -> dict[str, Tensor]:
        extras = {f"extras.{name}": value for name, value in self._extras.items()}
        return {**self._ring.tensors(), **extras, "steps_done": self._steps_done}

    def _description(self) -> dict[str, str]:
        return self.options.describe(without=_FREE_OPTIONS)
