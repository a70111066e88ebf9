"""The ring of time rows that uniform, prioritized and on-policy buffers share.

All environments side by side, time-major, preallocated: row t of every environment is one
contiguous block, and the frame of row t+1 is the next frame of row t, so a frame is stored once.
Row `head` holds only the frame that the next action is chosen on; its action, reward and flags come
with the next step. Row t lives in slot ``t % num_slots``. There is one slot more than rows: the one
that `next_row` lends out, which no sample ever touches.

Memory of frames, in rows of one frame: ``[num_slots * N | kept final frames | waste | zeros]``, so
that one gather reads stacks, their padding and final frames alike. Final frames are kept for
truncated episodes only, and only where the environment overwrites them in the same step
(SameStep). Writes without an effect go to the waste row: nothing here depends on data in its
control flow, allocates beyond its results, or waits for the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cule.replay import native
from cule.replay.errors import NotReadyError
from cule.replay.options import StorageOptions
from cule.replay.steps import Step, Steps, check_started, checked_frames, checked_step
from cule.replay.transitions import (
    FIRST,
    INVALID,
    LIFE_LOST,
    TERMINATED,
    TRUNCATED,
    Memory,
    Transitions,
    empty_rows,
    n_step_returns,
    read_rows,
    read_transitions,
    stack_rows,
)

SCALAR_BYTES = 4 + 1  # reward, flags
FINAL_SLOT_BYTES = 4


class FrameRing:
    """Time rows of N environments; see the top of this file.

    Attributes:
        head: Newest row; int64 scalar on the device, never wraps.
        num_rows: Rows that hold data once the ring is full.
        num_slots: Rows of memory, one more.
        host_head: `head`, as far as calls from Python have moved it; -1 before the first.
        native: The same ring for the processor; None on other devices.
    """

    def __init__(self, num_rows: int, options: StorageOptions) -> None:
        """Allocate everything.

        Args:
            num_rows: Rows that hold data.
            options: Shapes, types, device.
        """
        self.options = options
        self.num_rows, self.num_slots = num_rows, num_rows + 1
        n, device = options.num_envs, options.device
        self.num_finals = num_final_frames(num_rows, options)
        self._waste_row = self.num_slots * n + self.num_finals
        self._zero_row = self._waste_row + 1
        shape = (self._zero_row + 1, *options.obs_shape)
        self.frames = empty_rows(shape, options.obs_dtype, device).zero_()
        slots = (self.num_slots, n)
        self.by_slot = self.frames[: self.num_slots * n].view(slots + options.obs_shape)
        self.actions = torch.zeros(
            slots + options.action_shape, dtype=options.action_dtype, device=device
        )
        self.rewards = torch.zeros(slots, dtype=torch.float32, device=device)
        self.flags = torch.zeros(slots, dtype=torch.uint8, device=device)
        final_slots = slots if self.num_finals else (0, n)
        self.final_slot = torch.full(final_slots, -1, dtype=torch.int32, device=device)
        self.final_count = torch.zeros((), dtype=torch.int64, device=device)
        self.head = torch.full((), -1, dtype=torch.int64, device=device)
        self.host_head = -1
        self._envs = torch.arange(n, device=device)
        self._memory = Memory(
            frames=self.frames,
            actions=self.actions.view(-1, *options.action_shape),
            rewards=self.rewards.view(-1),
            flags=self.flags.view(-1),
            zero_row=self._zero_row,
        )
        self.native: native.NativeRing | None = None
        if native.is_used(device):
            self.native = native.NativeRing(self.tensors(), self.num_finals, options)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint holds, by name."""
        names = ("frames", "actions", "rewards", "flags", "final_slot", "final_count", "head")
        return {name: getattr(self, name) for name in names}

    def resync(self) -> None:
        """Read `head` back from the device, after replays of a CUDA graph or a restore."""
        self.host_head = int(self.head)

    # --- Writing --------------------------------------------------------------------------------

    def next_row(self) -> Tensor:
        """Memory of the next row's frames, ``[N, *obs_shape]``."""
        return self.by_slot[(self.host_head + 1) % self.num_slots]

    def start(self, frame: Any) -> None:
        """Begin new episodes everywhere; `frame` as in `UniformReplay.start`."""
        frames = checked_frames("frame", frame, (self.options.num_envs,), self.options)
        row = self.next_row()
        if frames.data_ptr() != row.data_ptr():
            row.copy_(frames)
        # The action of the row before, if there is one, never happened.
        self.flags[self.host_head % self.num_slots] |= INVALID
        self.flags[(self.host_head + 1) % self.num_slots] = FIRST
        self.head.add_(1)
        self.host_head += 1

    def append(self, actions: Any, step: Step) -> None:
        """Store one step; as `UniformReplay.append`."""
        check_started(self)
        if self.native is not None and self.native.append(actions, step):
            self.host_head += 1
        else:
            self.write(checked_step(self, actions, step))

    def write(self, steps: Steps) -> None:
        """Complete row `head` and the rows after it, and store the frames that follow.

        Args:
            steps: T steps, at most `num_rows`.
        """
        num_steps = steps.rewards.shape[0]
        if self.native is not None:
            self.native.write(steps)
        else:
            self._write(steps)
        self.host_head += num_steps

    def _write(self, steps: Steps) -> None:
        num_steps = steps.rewards.shape[0]
        rows = self.head + torch.arange(num_steps, device=self.head.device)
        slots, next_slots = rows % self.num_slots, (rows + 1) % self.num_slots
        was_first = (self.flags.index_select(0, slots[:1]) & FIRST) != 0
        flags = torch.cat((was_first, steps.first[:-1])) * FIRST
        flags = flags + steps.terminated * TERMINATED + steps.truncated * TRUNCATED
        flags = flags + steps.life_lost * LIFE_LOST
        if self.options.autoreset_mode == "NextStep":
            # The step that shows the first frame of an episode ignored its action.
            flags = flags + steps.first * INVALID
        self.actions.index_copy_(0, slots, steps.actions)
        self.rewards.index_copy_(0, slots, steps.rewards)
        self.flags.index_copy_(0, slots, flags.to(torch.uint8))
        self.flags.index_copy_(0, next_slots[-1:], (steps.first[-1:] * FIRST).to(torch.uint8))
        if self.num_finals and steps.final_frames is not None:
            self._keep_finals(slots, steps.truncated & ~steps.terminated, steps.final_frames)
        if steps.frames is not None:
            copy_rows(self.by_slot, next_slots, steps.frames)
        self.head.add_(num_steps)

    def _keep_finals(self, slots: Tensor, kept: Tensor, final_frames: Tensor) -> None:
        """Give the final frames of truncated episodes places by their running number."""
        number = self.final_count + kept.flatten().cumsum(0) - 1
        count = self.final_count + kept.sum()
        lasts = kept.flatten() & (number >= count - self.num_finals)
        place = self.num_slots * self.options.num_envs + number % self.num_finals
        place = torch.where(lasts, place, self._waste_row)
        copy_rows(self.frames, place, final_frames.reshape(-1, *self.options.obs_shape))
        final_slot = torch.where(kept, number.view(kept.shape), -1).to(torch.int32)
        self.final_slot.index_copy_(0, slots, final_slot)
        self.final_count.copy_(count)

    # --- Reading --------------------------------------------------------------------------------

    def window(self, rows: Tensor, envs: Tensor, before: int, after: int) -> Tensor:
        """Numbers into flat memory of the rows around some rows.

        Args:
            rows: Absolute rows; int64 ``[B]``.
            envs: Environments; int64 ``[B]``.
            before: Rows before each.
            after: Rows after each.

        Returns:
            int64 ``[B, before + 1 + after]``.
        """
        offsets = torch.arange(-before, after + 1, device=rows.device)
        slots = (rows[:, None] + offsets) % self.num_slots
        return slots * self.options.num_envs + envs[:, None]

    def stacks(self, rows: Tensor, envs: Tensor) -> Tensor:
        """Observations of some rows: ``[B, S, *obs_shape]``, or as in `read_rows`."""
        window = self.window(rows, envs, self.options.stack - 1, 0)
        flags = self.flags.view(-1)[window]
        picked = stack_rows(window, flags, self.options.pad, self._zero_row)
        return read_rows(self.frames, picked, self.options)

    def newest(self) -> Tensor:
        """Observations that the next actions are chosen on; ``[N, S, *obs_shape]``."""
        if self.host_head < 0:
            raise NotReadyError("there is no observation yet; call start() with the first frames")
        if self.native is not None:
            return self.native.newest()
        return self.stacks(self.head.expand(self.options.num_envs), self._envs)

    def final_stacks(self, rows: Tensor, envs: Tensor) -> tuple[Tensor, Tensor]:
        """Observations that episodes truncated in some rows ended on.

        Returns:
            ``[B, S, *obs_shape]`` as `stacks`, and bool ``[B]``: false where none is kept.
        """
        window = self.window(rows, envs, self.options.stack - 1, 1)
        flags = self.flags.view(-1)[window]
        final_row, is_kept = self._final_rows(window[:, -2])
        picked = self._stack_to(window[:, 1:], flags[:, 1:], final_row, is_kept)
        return read_rows(self.frames, picked, self.options), is_kept

    def _final_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Where the final frames of some flat rows are, and whether they still are."""
        number = self.final_slot.view(-1)[rows].to(torch.int64)
        is_kept = (number >= 0) & (number >= self.final_count - self.num_finals)
        place = self.num_slots * self.options.num_envs + number.clamp(min=0) % self.num_finals
        return place, is_kept

    def _stack_to(self, rows: Tensor, flags: Tensor, final: Tensor, use: Tensor) -> Tensor:
        """`stack_rows`, the newest being a final frame where asked."""
        newest = torch.where(use, final, rows[:, -1])
        flags = torch.cat((flags[:, :-1], torch.where(use[:, None], 0, flags[:, -1:])), dim=1)
        rows = torch.cat((rows[:, :-1], newest[:, None]), dim=1)
        return stack_rows(rows, flags, self.options.pad, self._zero_row)

    def read(self, rows: Tensor, envs: Tensor, n_step: int) -> Transitions:
        """The transitions that begin in some rows.

        Args:
            rows: Absolute rows, int64 ``[B]``. Rows outside the ring give other rows' data.
            envs: Environments, int64 ``[B]``.
            n_step: Steps n of the returns.
        """
        options, stack = self.options, self.options.stack
        window = self.window(rows, envs, stack - 1, n_step)
        if not self.num_finals:
            return read_transitions(self._memory, window, n_step, options)
        flags = self.flags.view(-1)[window]
        rewards = self.rewards.view(-1)[window[:, stack - 1 : -1]]
        result = n_step_returns(flags[:, stack - 1 :], rewards, options)
        picked = stack_rows(window[:, :stack], flags[:, :stack], options.pad, self._zero_row)
        columns = result.num_steps[:, None] + torch.arange(stack, device=rows.device)
        # The row of the last step, which has the final frame, stands before the newest one.
        last = window.gather(1, columns[:, -1:] - 1).squeeze(1)
        final, is_kept = self._final_rows(last)
        next_picked = self._stack_to(
            window.gather(1, columns), flags.gather(1, columns), final, result.truncated
        )
        is_real = (flags[:, stack - 1] & INVALID) == 0
        return Transitions(
            obs=read_rows(self.frames, picked, options),
            actions=self._memory.actions.index_select(0, window[:, stack - 1]),
            returns=result.returns,
            discounts=result.discounts,
            next_obs=read_rows(self.frames, next_picked, options),
            usable=is_real & (is_kept | ~result.truncated),
        )


def copy_rows(target: Tensor, index: Tensor, source: Tensor) -> None:
    """``target[index] = source`` along the first axis, in words of 8 bytes where rows allow it.

    index_copy_ goes from element to element, and those of frames are single bytes.
    """
    row_bytes = target.itemsize * target[0].numel()
    offset_bytes = source.storage_offset() * source.itemsize
    if row_bytes % 8 == 0 and offset_bytes % 8 == 0 and source.is_contiguous():
        target = target.view(target.shape[0], -1).view(torch.int64)
        source = source.view(source.shape[0], -1).view(torch.int64)
    target.index_copy_(0, index, source)


def num_final_frames(num_rows: int, options: StorageOptions) -> int:
    """Final frames to keep: as many as there can be truncations among the rows of the ring."""
    if options.autoreset_mode != "SameStep":
        return 0
    return options.num_envs * -(-num_rows // options.max_episode_steps)


def ring_bytes(num_rows: int, options: StorageOptions) -> dict[str, int]:
    """Bytes of a ring by what they hold, before it is made."""
    cells = (num_rows + 1) * options.num_envs
    finals = num_final_frames(num_rows, options)
    frame = options.obs_dtype.itemsize * int(np.prod(options.obs_shape, dtype=np.int64))
    action = options.action_dtype.itemsize * int(np.prod(options.action_shape, dtype=np.int64))
    return {
        "frames": cells * frame,
        "final frames": finals * frame,
        "padding": 2 * frame,
        "actions": cells * action,
        "rewards and flags": cells * SCALAR_BYTES + (cells * FINAL_SLOT_BYTES if finals else 0),
    }
