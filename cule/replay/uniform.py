"""`UniformReplay`: a ring of steps, sampled uniformly."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError
from cule.replay.checkpoint import Saveable
from cule.replay.errors import NotReadyError
from cule.replay.options import ReplayOptions, check_int
from cule.replay.permutation import permuted
from cule.replay.plan import overhead_rows, plan_rows, report
from cule.replay.ring import FrameRing, ring_bytes
from cule.replay.steps import Step, Steps, checked_block, checked_ids
from cule.replay.transitions import Batch

_KEY_RANGE = 2**62
#: Options that change what is drawn or read, not what is stored: a restored buffer may differ.
_FREE_OPTIONS = (
    *("capacity", "gamma", "reward_clipping", "replacement", "uniform_mixture"),
    *("device", "seed", "pad"),
)


class UniformReplay(Saveable):
    """Replay memory of N environments that step together, sampled uniformly.

    Everything is allocated once, on one device; `append`, `append_block`, `sample` and `sample_at`
    have static shapes and read nothing back, so that a CUDA graph can hold them (use `resync`
    after replays, register `generator` with the graph, and give `append` frames of its own
    instead of `next_row`).

    Row t can be sampled once its n steps are there, and until the first frame of its stack is
    overwritten: ``num_rows - (S - 1) - n`` rows of every environment when the ring is full.

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
        options: What it was made with.
        generator: Source of all draws, on the device.
        num_rows: Rows of the ring.
    """

    def __init__(self, options: ReplayOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device.

        Raises:
            InvalidArgumentError: The capacity is none.
            CapacityError: It does not fit into the memory of the device.
        """
        self.options = options
        self.num_rows = plan_rows(options, partial(self._bytes_of, options))
        self._ring = FrameRing(self.num_rows, options)
        self.generator = torch.Generator(device=options.device)
        self.generator.manual_seed(options.seed)
        device = options.device
        # An order without replacement: its key, how far it has been read, and for which head.
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        self._position = torch.zeros((), dtype=torch.int64, device=device)
        self._order_head = torch.full((), -1, dtype=torch.int64, device=device)

    @staticmethod
    def _bytes_of(options: ReplayOptions, num_rows: int) -> dict[str, int]:
        return ring_bytes(num_rows, options)

    # --- What is in it --------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """Newest row, counted from 0 and never wrapped; -1 before `start`."""
        return self._ring.host_head

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled, ignored rows included (they get weight 0)."""
        oldest = max(self.head - self.num_rows + self.options.stack, 0)
        return max(self.head - self.options.n_step - oldest + 1, 0) * self.options.num_envs

    def memory_report(self) -> str:
        """What the memory is used for, as a table; the bytes are those of the tensors."""
        return report(self.options, self.num_rows, self._bytes_of(self.options, self.num_rows))

    def resync(self) -> None:
        """Learn from the device what replays of a CUDA graph have appended. Waits for it."""
        self._ring.resync()

    # --- Writing --------------------------------------------------------------------------------

    def start(self, frame: Any) -> None:
        """Begin new episodes in all environments, as after ``env.reset()``.

        Args:
            frame: Frames that the next actions are chosen on; ``[N, *obs_shape]``, obs_dtype, any
                device. Of stacked observations this is the newest: ``obs[:, -1]``. Copied, unless
                it is `next_row`.

        Raises:
            InvalidArgumentError: Wrong shape or type; nothing has changed.
        """
        self._ring.start(frame)

    def next_row(self) -> Tensor:
        """Memory to let the environment write its next frames into.

        ``append(actions, env.step_frames(actions, out=replay.next_row()))`` stores frames without
        a copy.

        Returns:
            ``[N, *obs_shape]``, a view into the ring; no sample touches it before `append`.
            Valid until the next `append` or `start`.
        """
        return self._ring.next_row()

    def observe(self) -> Tensor:
        """Observations that the next actions are chosen on, bit for bit what is sampled later.

        Returns:
            ``[N, S, *obs_shape]`` (``[N, *obs_shape]`` without stacking); the caller's.

        Raises:
            NotReadyError: `start` has not been called.
        """
        return self._ring.newest()

    def append(self, actions: Any, step: Step) -> None:
        """Store one step of all environments.

        Args:
            actions: Actions taken on `observe`; ``[N, *action_shape]``.
            step: What they led to, such as `cule.FrameStep`; arrays or tensors ``[N, ...]`` on any
                device. Its `final_frame` is read in SameStep mode only, its `frame` is not copied
                where it is `next_row`.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or type. Either way nothing has changed.
        """
        self._ring.append(actions, step)

    def append_block(
        self,
        *,
        frames: Any,
        actions: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any = None,
        life_lost: Any = None,
        first: Any = None,
        final_frames: Any = None,
    ) -> None:
        """Store T steps of all environments at once, from arrays or tensors on any device.

        Args:
            frames: Frames after each step; ``[T, N, *obs_shape]``, obs_dtype.
            actions: Actions before them; ``[T, N, *action_shape]``.
            rewards: Rewards; ``[T, N]``, stored as float32.
            terminated: Whether the episode ended by itself; bool ``[T, N]``.
            truncated: Whether it was cut off; bool ``[T, N]``; never by default.
            life_lost: Whether a life was lost; bool ``[T, N]``; none by default.
            first: Whether the frame is the first of an episode; bool ``[T, N]``; by default what
                the autoreset mode makes of `terminated` and `truncated`.
            final_frames: Frames that episodes ended on, read where truncated; as `frames`. Needed
                with `truncated` in SameStep mode, otherwise not read.

        Raises:
            NotReadyError: `start` has not been called.
            InvalidArgumentError: Wrong shape or type. Either way nothing has changed.
        """
        steps = checked_block(
            self._ring,
            frames=frames,
            actions=actions,
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            life_lost=life_lost,
            first=first,
            final_frames=final_frames,
        )
        # More at once would write rows that the same call writes over again.
        most = self.num_rows - overhead_rows(self.options)
        for begin in range(0, steps.rewards.shape[0], most):
            self._write(Steps._make(x if x is None else x[begin : begin + most] for x in steps))

    def _write(self, steps: Steps) -> None:
        self._ring.write(steps)

    # --- Reading --------------------------------------------------------------------------------

    def sample(self, batch_size: int) -> Batch:
        """Draw transitions.

        Args:
            batch_size: Transitions B.

        Returns:
            The batch; its weights are 0 for rows that are not to be learnt from, otherwise 1.

        Raises:
            InvalidArgumentError: batch_size is no positive int, or more than there is without
                replacement.
            NotReadyError: There is nothing to sample yet.
        """
        self._check_batch_size(batch_size)
        replacement = self.options.replacement
        if not replacement and batch_size > self.num_valid:
            raise InvalidArgumentError(
                f"batch_size is {batch_size}; without replacement it must be at most "
                f"{self.num_valid}, the transitions there are"
            )
        if not replacement:
            return self._batch(self._dealt(batch_size))
        native = self._ring.native
        if native is not None:
            return native.sample(self.generator, batch_size, self.options.n_step)
        return self._batch(self._uniform_ids(batch_size))

    def sample_at(self, ids: Any) -> Batch:
        """The transitions of given ids; those that are not in the buffer any more get weight 0.

        Args:
            ids: int64 ``[B]``: row times N, plus environment.

        Raises:
            InvalidArgumentError: Wrong shape or type.
            NotReadyError: There is nothing to sample yet.
        """
        checked = checked_ids(ids, self.options.device)
        self._check_batch_size(len(checked))
        return self._batch(checked)

    def _check_batch_size(self, batch_size: object) -> None:
        check_int("batch_size", batch_size, 1)
        if self.num_valid == 0:
            raise NotReadyError(
                f"nothing to sample yet: head is {self.head}, and a transition takes "
                f"{self.options.n_step} steps"
            )

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(
            count, generator=self.generator, dtype=torch.float64, device=self.options.device
        )

    def _uniform_ids(self, count: int) -> Tensor:
        """Any transitions, each as likely as every other, with replacement."""
        oldest, num_valid = self._valid()
        position = (self._uniform(count) * num_valid).to(torch.int64).clamp(max=num_valid - 1)
        return oldest * self.options.num_envs + position

    def _valid(self) -> tuple[Tensor, Tensor]:
        """Oldest row that can be sampled, and transitions from there on; int64 scalars."""
        head = self._ring.head
        oldest = (head - (self.num_rows - self.options.stack)).clamp(min=0)
        return oldest, (head - self.options.n_step - oldest + 1) * self.options.num_envs

    def _dealt(self, count: int) -> Tensor:
        """The next ids of a random order."""
        native = self._ring.native
        if native is not None:
            order = self._key, self._position, self._order_head
            return native.deal(order, self._uniform(1), count, self.options.n_step)
        oldest, num_valid = self._valid()
        position = permuted(*self._next_positions(count, num_valid))
        return oldest * self.options.num_envs + position

    def _next_positions(self, batch_size: int, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positions of the current order to draw next, its length, its key."""
        head = self._ring.head
        is_new = (head != self._order_head) | (self._position + batch_size > count)
        fresh = (self._uniform(1)[0] * _KEY_RANGE).to(torch.int64)
        self._key.copy_(torch.where(is_new, fresh, self._key))
        self._position.copy_(torch.where(is_new, 0, self._position))
        self._order_head.copy_(head)
        positions = self._position + torch.arange(batch_size, device=head.device)
        self._position.add_(batch_size)
        return positions, count, self._key

    def _batch(self, ids: Tensor) -> Batch:
        """The transitions of some ids, with weight 1 where they can be learnt from."""
        n, native = self.options.num_envs, self._ring.native
        if native is not None:
            return native.batch(ids, self.options.n_step)
        rows, envs = ids // n, ids % n
        found = self._ring.read(rows, envs, self.options.n_step)
        oldest, count = self._valid()
        is_there = (rows >= oldest) & (rows <= self._ring.head - self.options.n_step)
        return Batch(
            obs=found.obs,
            actions=found.actions,
            returns=found.returns,
            discounts=found.discounts,
            next_obs=found.next_obs,
            weights=(found.usable & is_there).to(torch.float32),
            ids=ids,
            probabilities=(1.0 / count.to(torch.float32)).expand(len(ids)),
        )

    # --- Saving ---------------------------------------------------------------------------------

    def _restored(self) -> None:
        self.resync()

    def _tensors(self) -> dict[str, Tensor]:
        order = {"key": self._key, "position": self._position, "order_head": self._order_head}
        return {**self._ring.tensors(), **order}

    def _description(self) -> dict[str, str]:
        described = self.options.describe()
        fixed = {name: text for name, text in described.items() if name not in _FREE_OPTIONS}
        return {**fixed, "num_rows": str(self.num_rows)}
