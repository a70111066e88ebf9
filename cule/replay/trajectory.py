"""`TrajectoryBuffer`: the last T steps of every environment, in order, for on-policy learners."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError
from cule.replay.checkpoint import Saveable
from cule.replay.errors import CapacityError, NotReadyError
from cule.replay.memory import format_bytes, free_memory_bytes
from cule.replay.multi_batch import MultiBatchSchedule
from cule.replay.options import TrajectoryOptions
from cule.replay.ring import FrameRing, ring_bytes
from cule.replay.steps import Step, checked_tensor
from cule.replay.transitions import INVALID, TERMINATED, TRUNCATED, is_terminal, shaped_rewards

_FREE_OPTIONS = ("gamma", "reward_clipping", "num_batches", "steps_per_update", "device", "seed")


class Rollout(NamedTuple):
    """T consecutive steps of n environments; time first. The memory is the caller's.

    The value that follows step t is that of ``obs[t + 1]`` (`bootstrap_obs` after the last), but
    where `final_steps` names t, that of the `final_obs` beside it; it counts ``discounts[t]``.
    Nothing else is to pass from step t+1 to step t where ``ended[t]``.
    """

    obs: Tensor | None
    """Observations; ``[T, n, S, *obs_shape]`` (``[T, n, *obs_shape]`` without stacking); None where
    not asked for."""

    actions: Tensor
    """Actions taken on them; ``[T, n, *action_shape]``."""

    rewards: Tensor
    """Rewards, clipped as the options say; float32 ``[T, n]``."""

    discounts: Tensor
    """gamma, or 0 where nothing that follows counts; float32 ``[T, n]``."""

    ended: Tensor
    """The episode ended with this step, for whatever reason; bool ``[T, n]``."""

    valid: Tensor
    """The step is to be learnt from; bool ``[T, n]``. False where the environment ignored the
    action, and where the final observation of a truncated episode is lost."""

    extras: dict[str, Tensor]
    """What was stored beside, by name; ``[T, n, ...]``."""

    bootstrap_obs: Tensor
    """Observations after the last step; ``[n, S, *obs_shape]``."""

    final_obs: Tensor
    """Observations that truncated episodes ended on; ``[K, n, S, *obs_shape]``: K, the most of
    one environment, is 0 where `obs` shows them anyway (NextStep)."""

    final_steps: Tensor
    """Step of the window that each ended with, or -1 where there is none; int64 ``[K, n]``."""


class TrajectoryBuffer(Saveable):
    """The last T steps of N environments: rollouts, and the window of A2C with V-trace.

    A ring of one frame a step: nothing is shifted or copied as steps come in. `due` tells when to
    update and on which environments (`MultiBatchSchedule`).

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from cule.replay import TrajectoryBuffer, TrajectoryOptions
        >>> buffer = TrajectoryBuffer(TrajectoryOptions(num_envs=2, num_steps=5, extras={}))
        >>> buffer.start(torch.zeros(2, 84, 84, dtype=torch.uint8))
        >>> no = torch.zeros(2, dtype=torch.bool)
        >>> for _ in range(5):
        ...     frame = buffer.next_row()  # what env.step_frames(actions, out=...) writes into
        ...     step = SimpleNamespace(frame=frame, reward=torch.ones(2), terminated=no,
        ...                            truncated=no, life_lost=no, first=no, final_frame=frame)
        ...     buffer.append(torch.zeros(2, dtype=torch.int64), step)
        >>> [buffer.window(envs).obs.shape for envs in buffer.due()]
        [torch.Size([5, 2, 4, 84, 84])]

    Attributes:
        options: What it was made with.
        schedule: When updates are due.
        generator: Source of `minibatches`, on the device.
    """

    def __init__(self, options: TrajectoryOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device.

        Raises:
            InvalidArgumentError: The batches do not go together with the environments.
            CapacityError: It does not fit into the memory of the device.
        """
        self.options = options
        spacing = options.steps_per_update
        self.schedule = MultiBatchSchedule(
            options.num_envs,
            num_batches=options.num_batches,
            num_steps=options.num_steps,
            steps_per_update=options.num_steps if spacing is None else spacing,
        )
        # T steps, the row after them, and what the oldest stack needs before them.
        num_rows = options.num_steps + options.stack
        wanted, free = sum(self._bytes(num_rows).values()), free_memory_bytes(options.device)
        if wanted > free:
            raise CapacityError(
                f"num_steps is {options.num_steps}, which takes {format_bytes(wanted)} with "
                f"{options.num_envs} environments; {options.device} has {format_bytes(free)} free"
            )
        self._ring = FrameRing(num_rows, options)
        slots = (self._ring.num_slots, options.num_envs)
        self._extras = {
            name: torch.zeros(slots + shape, dtype=dtype, device=options.device)
            for name, (shape, dtype) in options.extras.items()
        }
        self.generator = torch.Generator(device=options.device)
        self.generator.manual_seed(options.seed)
        self._steps_done = torch.zeros((), dtype=torch.int64)  # on the host, but saved
        same_step = options.autoreset_mode == "SameStep"
        self._num_finals = -(-options.num_steps // options.max_episode_steps) if same_step else 0

    def _bytes(self, num_rows: int) -> dict[str, int]:
        parts = ring_bytes(num_rows, self.options)
        cells = (num_rows + 1) * self.options.num_envs
        for name, (shape, dtype) in self.options.extras.items():
            parts[name] = cells * dtype.itemsize * int(torch.Size(shape).numel())
        return parts

    def memory_report(self) -> str:
        """What the memory is used for, as a table; the bytes are those of the tensors."""
        parts = self._bytes(self._ring.num_rows)
        parts["total"] = sum(parts.values())
        return "\n".join(f"{name:<20}{format_bytes(n):>12}" for name, n in parts.items())

    # --- Writing --------------------------------------------------------------------------------

    def start(self, frame: Any) -> None:
        """Begin new episodes in all environments, as `UniformReplay.start`."""
        self._ring.start(frame)

    def next_row(self) -> Tensor:
        """Memory to let the environment write its next frames into, as in `UniformReplay`."""
        return self._ring.next_row()

    def observe(self) -> Tensor:
        """Observations that the next actions are chosen on, as `UniformReplay.observe`."""
        return self._ring.newest()

    def append(self, actions: Any, step: Step, **extras: Any) -> None:
        """Store one step of all environments.

        Args:
            actions: As in `UniformReplay.append`.
            step: As there.
            **extras: What the options name; ``[N, ...]`` each.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape, type or names. Either way nothing has changed.
        """
        options = self.options
        if extras.keys() != self._extras.keys():
            raise InvalidArgumentError(
                f"extras are {sorted(extras)}; they must be {sorted(self._extras)}"
            )
        checked = {
            name: checked_tensor(name, value, (options.num_envs, *shape), dtype, options.device)
            for (name, (shape, dtype)), value in zip(
                options.extras.items(), (extras[name] for name in options.extras), strict=True
            )
        }
        self._ring.append(actions, step)
        slots = ((self._ring.head - 1) % self._ring.num_slots).view(1)
        for name, value in checked.items():
            self._extras[name].index_copy_(0, slots, value[None])
        self._count_steps(1)

    def count_replay(self) -> None:
        """Count a step that the replay of a CUDA graph has appended; waits for nothing."""
        self._ring.host_head += 1
        self._count_steps(1)

    def _count_steps(self, count: int) -> None:
        # No operation of torch, of which a graph's replay could be made.
        self._steps_done.numpy()[...] += count

    # --- Reading --------------------------------------------------------------------------------

    @property
    def num_steps_done(self) -> int:
        """Steps of all environments so far."""
        return int(self._steps_done.numpy())

    @property
    def is_full(self) -> bool:
        """Whether there are T steps to look at."""
        return self.num_steps_done >= self.options.num_steps

    def due(self) -> list[slice]:
        """Environments of the updates that are to be made after the last step, in order."""
        return self.schedule.due(self.num_steps_done)

    def window(self, envs: slice | None = None, *, with_obs: bool = True) -> Rollout:
        """The last T steps of some environments.

        Args:
            envs: Which, contiguous; all by default.
            with_obs: False leaves out `Rollout.obs`, the largest part; `obs_at` gives parts of it.

        Raises:
            NotReadyError: There are fewer than T steps.
            InvalidArgumentError: These are no environments of this buffer.
        """
        options, ring = self.options, self._ring
        if not self.is_full:
            raise NotReadyError(
                f"{self.num_steps_done} steps so far; a window has {options.num_steps}"
            )
        chosen = range(options.num_envs)[envs if envs is not None else slice(None)]
        if not len(chosen) or chosen.step != 1:
            raise InvalidArgumentError(
                f"envs is {envs!r}; it must be a slice of 0 ... {options.num_envs} in steps of 1"
            )
        columns = slice(chosen.start, chosen.stop)
        rows = ring.head - options.num_steps + self._range(options.num_steps)
        slots = rows % ring.num_slots
        flags = ring.flags.index_select(0, slots)[:, columns]
        next_flags = ring.flags.index_select(0, (rows + 1) % ring.num_slots)[:, columns]
        rewards = ring.rewards.index_select(0, slots)[:, columns]
        truncated = ((flags & TRUNCATED) != 0) & ((flags & TERMINATED) == 0)
        ended = ((flags & (TERMINATED | TRUNCATED)) != 0) | ((next_flags & INVALID) != 0)
        valid = (flags & INVALID) == 0
        final_obs, final_steps, lost = self._finals(truncated, rows, chosen)
        terminal = is_terminal(flags, options)
        return Rollout(
            obs=self._all_obs(chosen) if with_obs else None,
            actions=ring.actions.index_select(0, slots)[:, columns],
            rewards=shaped_rewards(rewards, options.reward_clipping),
            discounts=torch.where(terminal, 0.0, options.gamma).to(torch.float32),
            ended=ended,
            valid=valid & ~lost,
            extras={
                name: stored.index_select(0, slots)[:, columns]
                for name, stored in self._extras.items()
            },
            bootstrap_obs=ring.stacks(ring.head.expand(len(chosen)), self._envs(chosen)),
            final_obs=final_obs,
            final_steps=final_steps,
        )

    def obs_at(self, index: Any) -> Tensor:
        """Observations of some steps of the window of all environments.

        Args:
            index: Step of the window times N, plus environment; int64 ``[B]``, as `minibatches`.

        Returns:
            ``[B, S, *obs_shape]`` (``[B, *obs_shape]`` without stacking).
        """
        shape, n = tuple(torch.as_tensor(index).shape), self.options.num_envs
        index = checked_tensor("index", index, shape, torch.int64, self.options.device)
        rows = self._ring.head - self.options.num_steps + index // n
        return self._ring.stacks(rows, index % n)

    def minibatches(self, count: int) -> Tensor:
        """All steps of the window in random order, each once.

        Args:
            count: Minibatches; it divides T * N.

        Returns:
            int64 ``[count, T * N / count]``: step times N, plus environment.

        Raises:
            InvalidArgumentError: count does not divide the steps.
        """
        size = self.options.num_steps * self.options.num_envs
        if count < 1 or size % count:
            raise InvalidArgumentError(f"count is {count}; it must divide the {size} steps")
        order = torch.randperm(size, generator=self.generator, device=self.options.device)
        return order.view(count, -1)

    def _range(self, count: int) -> Tensor:
        return torch.arange(count, device=self.options.device)

    def _envs(self, chosen: range) -> Tensor:
        return chosen.start + self._range(len(chosen))

    def _all_obs(self, chosen: range) -> Tensor:
        num_steps, n = self.options.num_steps, self.options.num_envs
        index = self._range(num_steps)[:, None] * n + self._envs(chosen)
        obs = self.obs_at(index.flatten())
        return obs.view(num_steps, len(chosen), *obs.shape[1:])

    def _finals(
        self, truncated: Tensor, rows: Tensor, chosen: range
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`Rollout.final_obs`, `Rollout.final_steps`, and where a final observation is lost."""
        ring, n = self._ring, len(chosen)
        if not self._num_finals:
            stack = (self.options.stack,) if self.options.stack > 1 else ()
            empty = ring.frames.new_zeros((0, n, *stack, *self.options.obs_shape))
            none = torch.zeros((0, n), dtype=torch.int64, device=rows.device)
            return empty, none, torch.zeros_like(truncated)
        number = truncated.cumsum(0)
        lost = truncated & (number > self._num_finals)
        all_obs, all_steps = [], []
        for k in range(1, self._num_finals + 1):
            is_this = truncated & (number == k)
            step = is_this.to(torch.uint8).argmax(0)
            obs, is_kept = ring.final_stacks(rows[step], self._envs(chosen))
            found = is_this.any(0)
            all_obs.append(obs)
            all_steps.append(torch.where(found & is_kept, step, -1))
            lost = lost | (is_this & ~is_kept)
        return torch.stack(all_obs), torch.stack(all_steps), lost

    # --- Saving ---------------------------------------------------------------------------------

    def resync(self) -> None:
        """Learn from the device what replays of a CUDA graph have appended. Waits for it."""
        before = self._ring.host_head
        self._ring.resync()
        self._count_steps(self._ring.host_head - before)

    def _restored(self) -> None:
        self._ring.resync()

    def _tensors(self) -> dict[str, Tensor]:
        extras = {f"extras.{name}": value for name, value in self._extras.items()}
        return {**self._ring.tensors(), **extras, "steps_done": self._steps_done}

    def _description(self) -> dict[str, str]:
        described = self.options.describe()
        return {name: text for name, text in described.items() if name not in _FREE_OPTIONS}
