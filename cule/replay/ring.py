"""The ring of timesteps that uniform, prioritized and on-policy buffers share.

Timestep t holds all environments in one contiguous block, and the frame of timestep t+1 is the
next frame of timestep t, so each frame is stored once. Timestep `head` holds only the frame that
the next action is chosen on; the next step adds its action, reward and flags. Timestep t is in slot
``t % num_slots``. There is one slot more than timesteps: `next_frame` is in it, and no sample reads
it.

Frames are in one tensor, ``[num_slots * N | final frames | waste | zeros]``, so that one gather
reads stacks, their padding and final frames. Final frames are kept for truncated episodes, and only
if the environment overwrites them in the same step (SameStep). Writes without an effect go to the
waste frame: nothing here depends on data in its control flow, allocates beyond its results, or
waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cule.errors import NotReadyError
from cule.replay import native
from cule.replay.checkpoint import Saveable, State
from cule.replay.options import StorageOptions
from cule.replay.steps import (
    ArrayLike,
    Step,
    Steps,
    check_first,
    check_mode,
    checked_frames,
    checked_step,
)
from cule.replay.transitions import (
    FIRST,
    INVALID,
    LIFE_LOST,
    TERMINATED,
    TRUNCATED,
    Cells,
    Finals,
    Transitions,
    empty_frames,
    gather_frames,
    pad_final_stacks,
    pad_stacks,
    read_transitions,
)

SCALAR_BYTES = 4 + 1  # reward, flags
FINAL_SLOT_BYTES = 4


class FrameRing:
    """Timesteps of N environments; see the top of this file.

    Attributes:
        head: Newest timestep; int64 scalar on the device, never wraps.
        num_timesteps: Timesteps of a full ring.
        num_slots: Slots, one more.
        num_finals: Final frames that the ring keeps.
        host_head: `head` as calls from Python have moved it; -1 before the first. On a CPU it is
            read from `head`, so that Ctrl-C inside a call cannot part them.
        native: The same ring for the CPU; None on other devices.
    """

    def __init__(self, num_timesteps: int, options: StorageOptions) -> None:
        """Allocate all tensors."""
        self.options = options
        self.num_timesteps, self.num_slots = num_timesteps, num_timesteps + 1
        n, device = options.num_envs, options.device
        num_cells = self.num_slots * n
        self.num_finals = num_final_frames(num_timesteps, options)
        self._waste_frame = num_cells + self.num_finals
        shape = (self._waste_frame + 2, *options.obs_shape)
        self.frames = empty_frames(shape, options.obs_dtype, device).zero_()
        slots = (self.num_slots, n)
        self.by_slot = self.frames[:num_cells].view(slots + options.obs_shape)
        self.actions = torch.zeros(
            slots + options.action_shape, dtype=options.action_dtype, device=device
        )
        self.rewards = torch.zeros(slots, dtype=torch.float32, device=device)
        self.flags = torch.zeros(slots, dtype=torch.uint8, device=device)
        final_slots = slots if self.num_finals else (0, n)
        self.final_slot = torch.full(final_slots, -1, dtype=torch.int32, device=device)
        self.final_count = torch.zeros((), dtype=torch.int64, device=device)
        self.head = torch.full((), -1, dtype=torch.int64, device=device)
        self._host_head = -1
        self._head_view = self.head.numpy() if device.type == "cpu" else None
        self._envs = torch.arange(n, device=device)
        self._cells = Cells(
            frames=self.frames,
            actions=self.actions.view(-1, *options.action_shape),
            rewards=self.rewards.view(-1),
            flags=self.flags.view(-1),
            zero_frame=self._waste_frame + 1,
        )
        self._finals = (
            Finals(self.final_slot.view(-1), self.final_count, num_cells, self.num_finals)
            if self.num_finals
            else None
        )
        self.native: native.NativeRing | None = None
        if native.is_used(device) and not options.pixel_blocks:
            self.native = native.NativeRing(self.tensors(), self.num_finals, options)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint holds, by name."""
        names = ("frames", "actions", "rewards", "flags", "final_slot", "final_count", "head")
        return {name: getattr(self, name) for name in names}

    @property
    def host_head(self) -> int:
        """See the class."""
        return self._host_head if self._head_view is None else int(self._head_view)

    def advance(self, num_steps: int) -> None:
        """Count timesteps by which `head` has moved, or will on the device."""
        self._host_head += num_steps

    def resync(self) -> None:
        """Read `head` from the device, after a CUDA graph has run or a checkpoint was loaded."""
        self._host_head = int(self.head)

    def next_frame(self) -> Tensor:
        """Memory of the frames of the next timestep; ``[N, *obs_shape]``."""
        return self.by_slot[(self.host_head + 1) % self.num_slots]

    def start(self, frame: ArrayLike) -> None:
        """Start new episodes in all environments, as `UniformReplay.start`."""
        options = self.options
        frames = checked_frames("frame", frame, (options.num_envs,), options, options.device)
        target = self.next_frame()
        if frames.data_ptr() != target.data_ptr():
            target.copy_(frames)
        # The timestep before, if there is one, never gets an action.
        self.flags[self.host_head % self.num_slots] |= INVALID
        self.flags[(self.host_head + 1) % self.num_slots] = FIRST
        self.head.add_(1)
        self.advance(1)

    def check_started(self) -> None:
        """Raise NotReadyError before the first `start`."""
        if self.host_head < 0:
            raise NotReadyError("append needs first frames; call start() before it")

    def where_first(self, ended: Tensor) -> Tensor:
        """Where first frames of episodes can be, by the ends of episodes; bool ``[T, N]``."""
        if self.options.autoreset_mode == "SameStep":
            return ended
        flags = self.flags[(self.host_head - 1) % self.num_slots]
        ended_before = (flags & (TERMINATED | TRUNCATED)) != 0
        return torch.cat((ended_before[None], ended[:-1]))

    def check_first(self, first: Tensor, ended: Tensor) -> None:
        """Raise InvalidArgumentError where none can be; not on a GPU, which would have to wait."""
        if self.native is not None:
            check_first(first, self.where_first(ended), self.options)

    def append(self, actions: ArrayLike, step: Step) -> None:
        """Store one step, as `UniformReplay.append`."""
        self.check_started()
        check_mode(step, self.options)
        if self.native is not None and self.native.append(actions, step):
            self.advance(1)
            return
        options, finals = self.options, self.num_finals > 0
        steps = checked_step(actions, step, options, options.device, finals=finals)
        self.check_first(steps.first, steps.terminated | steps.truncated)
        self.write(self.without_overlap(steps))

    def write(self, steps: Steps) -> None:
        """Complete timesteps from `head` on; at most `num_timesteps`, `without_overlap`."""
        if self.native is not None:
            self.native.write(steps)
        else:
            self._write(steps)
        self.advance(len(steps.rewards))

    def without_overlap(self, steps: Steps) -> Steps:
        """Leave out frames that are in place, and copy others that are part of the ring."""
        memory = self.frames.untyped_storage().data_ptr()

        def outside(frames: Tensor | None) -> Tensor | None:
            is_inside = frames is not None and frames.untyped_storage().data_ptr() == memory
            return frames.clone() if frames is not None and is_inside else frames

        frames = steps.frames
        if frames is not None and len(frames) == 1:
            frames = None if frames.data_ptr() == self.next_frame().data_ptr() else frames
        return steps._replace(frames=outside(frames), final_frames=outside(steps.final_frames))

    def _write(self, steps: Steps) -> None:
        num_steps = steps.rewards.shape[0]
        timesteps = self.head + torch.arange(num_steps, device=self.head.device)
        slots, next_slots = timesteps % self.num_slots, (timesteps + 1) % self.num_slots
        was_first = (self.flags.index_select(0, slots[:1]) & FIRST) != 0
        flags = torch.cat((was_first, steps.first[:-1])) * FIRST
        flags = flags + steps.terminated * TERMINATED + steps.truncated * TRUNCATED
        flags = flags + steps.life_lost * LIFE_LOST
        # The step that shows the first frame of an episode ignored its action, unless it is the
        # step in which the one before has ended.
        has_action = steps.terminated | steps.truncated
        if self.options.autoreset_mode == "NextStep":
            has_action = torch.zeros_like(has_action)
        flags = flags + (steps.first & ~has_action) * INVALID
        self.actions.index_copy_(0, slots, steps.actions)
        self.rewards.index_copy_(0, slots, steps.rewards)
        self.flags.index_copy_(0, slots, flags.to(torch.uint8))
        self.flags.index_copy_(0, next_slots[-1:], (steps.first[-1:] * FIRST).to(torch.uint8))
        if self.num_finals and steps.final_frames is not None:
            self._keep_finals(slots, steps.truncated & ~steps.terminated, steps.final_frames)
        if steps.frames is not None:
            copy_frames(self.by_slot, next_slots, steps.frames)
        self.head.add_(num_steps)

    def _keep_finals(self, slots: Tensor, kept: Tensor, final_frames: Tensor) -> None:
        """Store the final frames of truncated episodes, each at its running number."""
        number = self.final_count + kept.flatten().cumsum(0) - 1
        count = self.final_count + kept.sum()
        lasts = kept.flatten() & (number >= count - self.num_finals)
        place = self.num_slots * self.options.num_envs + number % self.num_finals
        place = torch.where(lasts, place, self._waste_frame)
        copy_frames(self.frames, place, final_frames.reshape(-1, *self.options.obs_shape))
        final_slot = torch.where(kept, number.view(kept.shape), -1).to(torch.int32)
        self.final_slot.index_copy_(0, slots, final_slot)
        self.final_count.copy_(count)

    def window(self, timesteps: Tensor, envs: Tensor, before: int, after: int) -> Tensor:
        """Cells of the timesteps around given ones; int64 ``[B, before + 1 + after]``."""
        offsets = torch.arange(-before, after + 1, device=timesteps.device)
        slots = (timesteps[:, None] + offsets) % self.num_slots
        return slots * self.options.num_envs + envs[:, None]

    def stacks(self, timesteps: Tensor, envs: Tensor) -> Tensor:
        """Observations of timesteps: ``[B, S, *obs_shape]``, or as in `gather_frames`."""
        window = self.window(timesteps, envs, self.options.stack - 1, 0)
        flags = self._cells.flags[window]
        frames = pad_stacks(window, flags, self.options.pad, self._cells.zero_frame)
        return gather_frames(self.frames, frames, self.options)

    def observe(self) -> Tensor:
        """Observations to choose the next actions on, as `UniformReplay.observe`."""
        if self.host_head < 0:
            raise NotReadyError("there is no observation yet; call start() with the first frames")
        if self.native is not None:
            return self.native.observe()
        return self.stacks(self.head.expand(self.options.num_envs), self._envs)

    def final_stacks(self, timesteps: Tensor, envs: Tensor) -> tuple[Tensor, Tensor]:
        """Final observations of episodes truncated at timesteps, and whether they are in memory."""
        assert self._finals is not None
        options, zero_frame = self.options, self._cells.zero_frame
        window = self.window(timesteps, envs, options.stack - 1, 1)
        flags = self._cells.flags[window]
        final, is_kept = self._finals.find(window[:, -2])
        frames = pad_final_stacks(
            window[:, 1:], flags[:, 1:], final, is_kept, options.pad, zero_frame
        )
        return gather_frames(self.frames, frames, options), is_kept

    def read(self, timesteps: Tensor, envs: Tensor, n_step: int) -> Transitions:
        """The transitions of timesteps ``[B]``; those outside the ring give the data of others."""
        window = self.window(timesteps, envs, self.options.stack - 1, n_step)
        return read_transitions(self._cells, window, n_step, self.options, self._finals)


class RingBuffer(Saveable):
    """A buffer over a `FrameRing`."""

    def __init__(self, num_timesteps: int, options: StorageOptions) -> None:
        """Allocate the memory."""
        self._ring = FrameRing(num_timesteps, options)
        self.generator = torch.Generator(device=options.device)
        self.generator.manual_seed(options.seed)

    def start(self, frame: ArrayLike) -> None:
        """Start new episodes in all environments, as after ``env.reset()``.

        Args:
            frame: Frames to choose the next actions on; ``[N, *obs_shape]``, obs_dtype, any device.
                Pass the newest of stacked observations: ``obs[:, -1]``. Copied, unless it is
                `next_frame`.

        Raises:
            InvalidArgumentError: Wrong shape or dtype; the buffer is unchanged.
        """
        self._ring.start(frame)

    def next_frame(self) -> Tensor:
        """Memory for the next frames of the environments.

        ``append(actions, env.step_frames(actions, out=replay.next_frame()))`` stores frames without
        a copy.

        Returns:
            ``[N, *obs_shape]``, a view into the ring that no sample reads before `append`. Valid
            until the next `append` or `start`.
        """
        return self._ring.next_frame()

    def observe(self) -> Tensor:
        """Observations to choose the next actions on, bit for bit as later samples have them.

        Returns:
            A new tensor ``[N, S, *obs_shape]`` (``[N, *obs_shape]`` without stacking).

        Raises:
            NotReadyError: `start` has not been called.
        """
        return self._ring.observe()

    def resync(self) -> None:
        """Update the host after a CUDA graph has appended steps. Waits for the device."""
        self._ring.resync()

    def __reduce__(self) -> tuple[object, ...]:
        """Copies and pickles are new buffers with the same options and content."""
        return _restored_buffer, (type(self), self._ring.options, self.state_dict())

    def _restored(self) -> None:
        self._ring.resync()


def _restored_buffer(
    kind: Callable[[StorageOptions], RingBuffer], options: StorageOptions, state: State
) -> RingBuffer:
    """A new buffer with the content of another one."""
    buffer = kind(options)
    buffer.load_state_dict(state)
    return buffer


def copy_frames(target: Tensor, index: Tensor, source: Tensor) -> None:
    """``target[index] = source`` along the first axis, in words of 8 bytes where possible.

    index_copy_ copies single elements, and those of frames are bytes.
    """
    entry_bytes = target.itemsize * target[0].numel()
    offset_bytes = source.storage_offset() * source.itemsize
    if entry_bytes % 8 == 0 and offset_bytes % 8 == 0 and source.is_contiguous():
        target = target.view(target.shape[0], -1).view(torch.int64)
        source = source.view(source.shape[0], -1).view(torch.int64)
    target.index_copy_(0, index, source)


def num_final_frames(num_timesteps: int, options: StorageOptions) -> int:
    """Final frames to keep: the most truncations among the timesteps of the ring."""
    if options.autoreset_mode != "SameStep":
        return 0
    return options.num_envs * -(-num_timesteps // options.max_episode_steps)


def ring_bytes(num_timesteps: int, options: StorageOptions) -> dict[str, int]:
    """Bytes of a ring by part."""
    cells = (num_timesteps + 1) * options.num_envs
    finals = num_final_frames(num_timesteps, options)
    frame = options.obs_dtype.itemsize * math.prod(options.obs_shape)
    action = options.action_dtype.itemsize * math.prod(options.action_shape)
    return {
        "frames": cells * frame,
        "final frames": finals * frame,
        "padding": 2 * frame,
        "actions": cells * action,
        "rewards and flags": cells * SCALAR_BYTES + (cells * FINAL_SLOT_BYTES if finals else 0),
    }
