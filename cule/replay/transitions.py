"""From stored rows to what a learner reads: stacks, n-step returns, discounts. Pure functions.

A row holds the frame shown before action t, then action, reward and flags of step t. A sample is
looked at through its *window*: the rows t-S+1 ... t+n of one environment, S frames of a stack and
n steps of a return. Where these rows lie in memory is the caller's affair: a window is an int64
tensor ``[B, S + n]`` of row numbers into flat memory, and column S-1 is row t itself.

Flags of a row, one bit each: FIRST (its frame starts an episode), TERMINATED, TRUNCATED, LIFE_LOST
(by its action), INVALID (nothing happened in it: the environment ignored its action).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cule import _core
from cule.replay.options import StorageOptions

if TYPE_CHECKING:
    from cule.replay.native import NativeRows

FIRST: int = _core.ROW_FIRST
TERMINATED: int = _core.ROW_TERMINATED
TRUNCATED: int = _core.ROW_TRUNCATED
LIFE_LOST: int = _core.ROW_LIFE_LOST
INVALID: int = _core.ROW_INVALID


class Batch(NamedTuple):
    """B sampled transitions, on the device of the buffer. The memory is the caller's.

    The target of a state-value method is ``returns + discounts * value(next_obs)``.
    """

    obs: Tensor
    """Observations; ``[B, S, *obs_shape]``, newest last (``[B, *obs_shape]`` without stacking)."""

    actions: Tensor
    """Actions taken on them; ``[B, *action_shape]``."""

    returns: Tensor
    """n-step sums of discounted rewards; float32 ``[B]``."""

    discounts: Tensor
    """What the value of `next_obs` counts: gamma to the number of steps, 0 after a termination;
    float32 ``[B]``. It takes the place of ``done``."""

    next_obs: Tensor
    """Observations n steps later, or those an episode was truncated on, as `obs`; without meaning
    where `discounts` is 0."""

    weights: Tensor
    """Loss weights; float32 ``[B]``: 0 where a row is not to be learnt from, otherwise 1 or the
    importance weight, at most 1."""

    ids: Tensor
    """Which transitions these are; int64 ``[B]``. Never used again for other transitions."""

    probabilities: Tensor
    """Probability of a draw to give this transition; float32 ``[B]``."""


class Transitions(NamedTuple):
    """What is read before it is weighed; tensors ``[B, ...]`` as in `Batch`."""

    obs: Tensor
    actions: Tensor
    returns: Tensor
    discounts: Tensor
    next_obs: Tensor
    usable: Tensor  # bool: the row is a real step, and its final frame, if any, is still there


class Memory(NamedTuple):
    """Flat memory of rows."""

    frames: Tensor  # [rows, *obs_shape]
    actions: Tensor  # [rows, *action_shape]
    rewards: Tensor  # float32 [rows]
    flags: Tensor  # uint8 [rows]
    zero_row: int  # a row of frames that is all zero
    native: NativeRows | None = None  # the same for the processor


class NStep(NamedTuple):
    """What the n steps of a window add up to; tensors ``[B]``."""

    returns: Tensor  # float32
    discounts: Tensor  # float32
    num_steps: Tensor  # int64, steps taken: n, or up to the end of the episode
    truncated: Tensor  # bool: the last of these steps was truncated, and not terminated


def shaped_rewards(rewards: Tensor, clipping: str) -> Tensor:
    """Rewards as they are learnt from; `clipping` as in `StorageOptions.reward_clipping`."""
    if clipping == "clip":
        return rewards.clamp(-1.0, 1.0)
    return rewards.sign() if clipping == "sign" else rewards


def is_terminal(flags: Tensor, options: StorageOptions) -> Tensor:
    """Whether nothing that follows a row counts; bool, as `flags`."""
    bits = TERMINATED | (LIFE_LOST if options.terminal_on_life_loss else 0)
    return (flags & bits) != 0


def n_step_returns(flags: Tensor, rewards: Tensor, options: StorageOptions) -> NStep:
    """Sum up n steps, ending with the episode.

    Args:
        flags: uint8 ``[B, n + 1]``, rows t ... t+n.
        rewards: float32 ``[B, n]`` as stored, rows t ... t+n-1.
        options: Discount, clipping, what is terminal.
    """
    rewards = shaped_rewards(rewards, options.reward_clipping)
    terminal = is_terminal(flags, options)
    # An episode also ends before a row that was ignored, whether or not anything says why.
    ended = terminal | ((flags & TRUNCATED) != 0)
    ended = ended[:, :-1] | ((flags[:, 1:] & INVALID) != 0)
    step_discounts = torch.where(terminal, 0.0, options.gamma).to(torch.float32)

    cut = ((flags[:, :-1] & TRUNCATED) != 0) & ~((flags[:, :-1] & TERMINATED) != 0)
    returns, discounts, truncated = rewards[:, 0], step_discounts[:, 0], cut[:, 0]
    num_steps = torch.ones_like(flags[:, 0], dtype=torch.int64)
    alive = ~ended[:, 0]
    for k in range(1, rewards.shape[1]):
        returns = torch.where(alive, returns + discounts * rewards[:, k], returns)
        discounts = torch.where(alive, discounts * step_discounts[:, k], discounts)
        num_steps = num_steps + alive
        truncated = truncated | (alive & cut[:, k])
        alive = alive & ~ended[:, k]
    return NStep(returns, discounts, num_steps, truncated)


def stack_rows(rows: Tensor, flags: Tensor, pad: str, zero_row: int) -> Tensor:
    """The rows to read a stack from.

    Args:
        rows: int64 ``[B, S]``, the S newest rows, oldest first.
        flags: uint8 ``[B, S]``, their flags.
        pad: As in `StorageOptions.pad`.
        zero_row: A row of zeros.

    Returns:
        int64 ``[B, S]``: `rows`, with padding in place of everything before the newest FIRST.
    """
    if rows.shape[1] == 1:
        return rows
    columns = torch.arange(rows.shape[1], device=rows.device)
    # No FIRST at all and a FIRST in column 0 both mean that nothing is padded.
    start = ((flags & FIRST).to(torch.int64) * columns).amax(dim=1, keepdim=True)
    if pad == "zero":
        return torch.where(columns >= start, rows, zero_row)
    return rows.gather(1, torch.maximum(columns, start))


def read_transitions(
    memory: Memory, window: Tensor, n_step: int, options: StorageOptions
) -> Transitions:
    """The transitions of some windows, where every frame they need is a row of its own.

    Args:
        memory: Where the rows are.
        window: int64 ``[B, S + n]``, see the top of this file.
        n_step: Steps n.
        options: What rows mean.
    """
    if memory.native is not None:
        return memory.native.read(window, n_step)
    stack = options.stack
    flags = memory.flags[window]
    rewards = memory.rewards[window[:, stack - 1 : -1]]
    result = n_step_returns(flags[:, stack - 1 :], rewards, options)
    columns = result.num_steps[:, None] + torch.arange(stack, device=window.device)
    pad, zero = options.pad, memory.zero_row
    rows = stack_rows(window[:, :stack], flags[:, :stack], pad, zero)
    next_rows = stack_rows(window.gather(1, columns), flags.gather(1, columns), pad, zero)
    return Transitions(
        obs=read_rows(memory.frames, rows, options),
        actions=memory.actions.index_select(0, window[:, stack - 1]),
        returns=result.returns,
        discounts=result.discounts,
        next_obs=read_rows(memory.frames, next_rows, options),
        usable=(flags[:, stack - 1] & INVALID) == 0,
    )


def empty_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory for frames, not filled."""
    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    # numpy asks the system for large pages. Without them a large batch takes several times as long
    # to touch for the first time as to copy.
    size_bytes = dtype.itemsize * torch.Size(shape).numel()
    return torch.from_numpy(np.empty(size_bytes, np.uint8)).view(dtype).view(shape)


def read_rows(frames: Tensor, rows: Tensor, options: StorageOptions) -> Tensor:
    """Frames of some rows.

    Args:
        frames: Flat memory, ``[rows, *obs_shape]``.
        rows: int64 ``[B, S]``.
        options: Shape and stack.

    Returns:
        ``[B, S, *obs_shape]``, or ``[B, *obs_shape]`` without stacking.
    """
    shape = options.obs_shape
    index = rows.reshape(-1)
    out = empty_rows((len(index), *frames.shape[1:]), frames.dtype, frames.device)
    taken = torch.index_select(frames, 0, index, out=out)
    return taken.view(rows.shape + shape) if options.stack > 1 else taken
