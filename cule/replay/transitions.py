"""Transitions from stored timesteps: stacks, n-step returns, discounts. Pure functions.

A *cell* holds one timestep t of one environment: the frame that action t was chosen on, then the
action, reward and flags of the step. A transition is read through its *window*, the timesteps
t-S+1 ... t+n of its environment: S frames of a stack and n steps of a return. A window is an int64
tensor ``[B, S + n]`` of indices into flat memory of cells; column S-1 is timestep t.

Flags of a cell, one bit each: FIRST (its frame starts an episode), TERMINATED, TRUNCATED, LIFE_LOST
(by its action), INVALID (the environment ignored its action).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cule import _core
from cule.kernels import gather_blocks
from cule.replay.options import StorageOptions

FIRST: int = _core.CELL_FIRST
TERMINATED: int = _core.CELL_TERMINATED
TRUNCATED: int = _core.CELL_TRUNCATED
LIFE_LOST: int = _core.CELL_LIFE_LOST
INVALID: int = _core.CELL_INVALID


class Batch(NamedTuple):
    """B sampled transitions, on the device of the buffer. The tensors are yours to keep.

    The target of a state-value method is ``returns + discounts * value(next_obs)``.
    """

    obs: Tensor
    """Observations; ``[B, S, *obs_shape]``, newest last (``[B, *obs_shape]`` without stacking)."""

    actions: Tensor
    """Actions chosen on `obs`; ``[B, *action_shape]``."""

    returns: Tensor
    """n-step sums of discounted rewards; float32 ``[B]``."""

    discounts: Tensor
    """Discount of the value of `next_obs`: gamma to the number of steps, 0 after a termination;
    float32 ``[B]``. It replaces ``done``."""

    next_obs: Tensor
    """Observations n steps later, or the final ones of truncated episodes, as `obs`; meaningless
    where `discounts` is 0."""

    weights: Tensor
    """Loss weights; float32 ``[B]``: 0 for transitions that must not be learned from, otherwise 1
    or the importance weight, at most 1."""

    ids: Tensor
    """Ids of the transitions; int64 ``[B]``. Each id is used once."""

    probabilities: Tensor
    """Probability of sampling each transition; float32 ``[B]``."""


class Transitions(NamedTuple):
    """Transitions before they are weighted; tensors ``[B, ...]`` as in `Batch`."""

    obs: Tensor
    actions: Tensor
    returns: Tensor
    discounts: Tensor
    next_obs: Tensor
    usable: Tensor  # bool: not INVALID, and the final frame, if any, is still in memory

    def as_batch(self, weights: Tensor, ids: Tensor, probabilities: Tensor) -> Batch:
        """Complete a batch."""
        return Batch(*self[:5], weights, ids, probabilities)


class Cells(NamedTuple):
    """Flat memory of cells."""

    frames: Tensor  # [cells + other frames, *obs_shape]
    actions: Tensor  # [cells, *action_shape]
    rewards: Tensor  # float32 [cells]
    flags: Tensor  # uint8 [cells]
    zero_frame: int  # index of an all-zero frame


class Finals(NamedTuple):
    """Final frames of truncated episodes, in the memory of frames."""

    number: Tensor  # int32 [cells]: of a cell's final frame, counted from the first kept; -1: none
    num_kept: Tensor  # int64 scalar: kept so far
    first: int  # index of the first one
    capacity: int

    def find(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Indices of the final frames of cells, and whether they are still in memory."""
        number = self.number[cells].to(torch.int64)
        is_kept = (number >= 0) & (number >= self.num_kept - self.capacity)
        return self.first + number.clamp(min=0) % self.capacity, is_kept


class NStep(NamedTuple):
    """Sums over the n steps of a window; tensors ``[B]``."""

    returns: Tensor  # float32
    discounts: Tensor  # float32
    num_steps: Tensor  # int64: n, or fewer where the episode ends
    truncated: Tensor  # bool: the last step truncated the episode and did not terminate it


def shaped_rewards(rewards: Tensor, clipping: str) -> Tensor:
    """Clip rewards as `StorageOptions.reward_clipping` says."""
    if clipping == "clip":
        return rewards.clamp(-1.0, 1.0)
    return rewards.sign() if clipping == "sign" else rewards


def is_terminal(flags: Tensor, options: StorageOptions) -> Tensor:
    """Whether a step sets the discount to 0; bool, shape of `flags`."""
    bits = TERMINATED | (LIFE_LOST if options.terminal_on_life_loss else 0)
    return (flags & bits) != 0


def n_step_returns(flags: Tensor, rewards: Tensor, options: StorageOptions) -> NStep:
    """Sum n steps, or fewer where an episode ends; flags ``[B, n + 1]``, rewards ``[B, n]``."""
    rewards = shaped_rewards(rewards, options.reward_clipping)
    terminal = is_terminal(flags, options)
    # An episode also ends before an ignored timestep, whatever the flags before it say.
    ended = terminal | ((flags & TRUNCATED) != 0)
    ended = ended[:, :-1] | ((flags[:, 1:] & INVALID) != 0)
    step_discounts = torch.where(terminal, 0.0, options.gamma).to(torch.float32)

    is_truncated = ((flags[:, :-1] & TRUNCATED) != 0) & ~((flags[:, :-1] & TERMINATED) != 0)
    returns, discounts, truncated = rewards[:, 0], step_discounts[:, 0], is_truncated[:, 0]
    num_steps = torch.ones_like(flags[:, 0], dtype=torch.int64)
    alive = ~ended[:, 0]
    for k in range(1, rewards.shape[1]):
        returns = torch.where(alive, returns + discounts * rewards[:, k], returns)
        discounts = torch.where(alive, discounts * step_discounts[:, k], discounts)
        num_steps = num_steps + alive
        truncated = truncated | (alive & is_truncated[:, k])
        alive = alive & ~ended[:, k]
    return NStep(returns, discounts, num_steps, truncated)


def pad_stacks(window: Tensor, flags: Tensor, pad: str, zero_frame: int) -> Tensor:
    """Indices of the frames of stacks, with padding before the start of the episode; ``[B, S]``."""
    if window.shape[1] == 1:
        return window
    columns = torch.arange(window.shape[1], device=window.device)
    # No FIRST at all and a FIRST in column 0 both mean no padding.
    start = ((flags & FIRST).to(torch.int64) * columns).amax(dim=1, keepdim=True)
    if pad == "zero":
        return torch.where(columns >= start, window, zero_frame)
    return window.gather(1, torch.maximum(columns, start))


def pad_final_stacks(
    window: Tensor, flags: Tensor, final: Tensor, use: Tensor, pad: str, zero_frame: int
) -> Tensor:
    """Pad like `pad_stacks`, with `final` as the newest frame where `use` is true; both ``[B]``."""
    newest = torch.where(use, final, window[:, -1])
    # A final frame starts no episode.
    flags = torch.cat((flags[:, :-1], torch.where(use[:, None], 0, flags[:, -1:])), dim=1)
    window = torch.cat((window[:, :-1], newest[:, None]), dim=1)
    return pad_stacks(window, flags, pad, zero_frame)


def read_transitions(
    cells: Cells,
    window: Tensor,
    n_step: int,
    options: StorageOptions,
    finals: Finals | None = None,
) -> Transitions:
    """Read windows ``[B, S + n]``. Without `finals`, each final frame is the frame of a cell."""
    stack, pad, zero = options.stack, options.pad, cells.zero_frame
    flags = cells.flags[window]
    rewards = cells.rewards[window[:, stack - 1 : -1]]
    result = n_step_returns(flags[:, stack - 1 :], rewards, options)
    frames = pad_stacks(window[:, :stack], flags[:, :stack], pad, zero)
    columns = result.num_steps[:, None] + torch.arange(stack, device=window.device)
    next_window, next_flags = window.gather(1, columns), flags.gather(1, columns)
    usable = (flags[:, stack - 1] & INVALID) == 0
    if finals is None:
        next_frames = pad_stacks(next_window, next_flags, pad, zero)
    else:
        # The cell of the last step has the final frame; it precedes that of the newest frame.
        last = window.gather(1, columns[:, -1:] - 1).squeeze(1)
        final, is_kept = finals.find(last)
        next_frames = pad_final_stacks(next_window, next_flags, final, result.truncated, pad, zero)
        usable = usable & (is_kept | ~result.truncated)
    return Transitions(
        obs=gather_frames(cells.frames, frames, options),
        actions=cells.actions.index_select(0, window[:, stack - 1]),
        returns=result.returns,
        discounts=result.discounts,
        next_obs=gather_frames(cells.frames, next_frames, options),
        usable=usable,
    )


def empty_frames(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Allocate frames without initializing them."""
    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    # numpy asks the system for large pages. Without them the first touch of a large batch takes
    # several times as long as a copy.
    size_bytes = dtype.itemsize * torch.Size(shape).numel()
    return torch.from_numpy(np.empty(size_bytes, np.uint8)).view(dtype).view(shape)


def gather_frames(frames: Tensor, index: Tensor, options: StorageOptions) -> Tensor:
    """Copy frames at ``[B, S]`` to ``[B, S, *obs_shape]``, without S if nothing is stacked.

    With `StorageOptions.pixel_blocks` as `cule.kernels.gather_blocks`.
    """
    if options.pixel_blocks:
        return gather_blocks(frames, index)
    flat = index.reshape(-1)
    out = empty_frames((len(flat), *frames.shape[1:]), frames.dtype, frames.device)
    gathered = torch.index_select(frames, 0, flat, out=out)
    return gathered.view(index.shape + options.obs_shape) if options.stack > 1 else gathered
