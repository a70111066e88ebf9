"""Parts of the algorithms with rollouts: values of the observations that follow each step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts.distributed import update_statistics
from cule.agents.parts.setup import Setup
from cule.nets import PixelStatistics
from cule.replay import Rollout, TrajectoryBuffer


@torch.no_grad()
def next_values(
    rollout: Rollout,
    values: Tensor,
    values_of: Callable[[Tensor], Tensor],
    setup: Setup,
) -> Tensor:
    """Values of the observations that follow each step; float32 ``[T, n]``.

    One pass for the newest observations, and one for the final observations of truncated episodes.
    The latter is skipped if there are none and the host may read the device.
    """
    last_values = values_of(rollout.bootstrap_obs)
    if setup.autoreset_mode == "NextStep":  # final observations are among the others
        return torch.cat([values[1:], last_values.unsqueeze(0)])
    finals = torch.zeros_like(values)
    if not setup.can_sync or bool((rollout.final_steps >= 0).any()):
        for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
            index = steps.clamp(min=0).unsqueeze(0)
            kept = torch.where(steps >= 0, values_of(obs), finals.gather(0, index)[0])
            finals.scatter_(0, index, kept.unsqueeze(0))
    return algos.shift_values(values, last_values, finals, rollout.ended)


@torch.no_grad()
def in_parts(function: Callable[[Tensor], Tensor], obs: Tensor, size: int) -> Tensor:
    """A function of observations ``[B, ...]``, `size` of them at a time, which bounds memory."""
    return torch.cat([function(part) for part in torch.split(obs, size)])


def pixel_statistics(network: nn.Module) -> PixelStatistics | None:
    """The statistics of a network that normalises pixels; None of others."""
    return getattr(network, "statistics", None)  # a network of your own has none


def count_frames(network: nn.Module, frames: Tensor) -> None:
    """Add frames to the statistics of pixels, if the network has any."""
    statistics = pixel_statistics(network)
    if statistics is not None:
        update_statistics(statistics, frames.to(statistics.mean.device))


def count_rollout(network: nn.Module, buffer: TrajectoryBuffer, size: int) -> None:
    """Add the frames of a rollout to the statistics of pixels, `size` at a time.

    Called after the update: acting and learning so read the same statistics, and ratios of
    probabilities begin at 1.
    """
    if pixel_statistics(network) is not None:
        for frames in buffer.frames(size):
            count_frames(network, frames)
