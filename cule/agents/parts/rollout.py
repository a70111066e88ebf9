"""Parts of algorithms with rollouts: values of following observations, and units of values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts.distributed import update_statistics
from cule.agents.parts.setup import Setup
from cule.nets import PixelStatistics
from cule.replay import Rollout, TrajectoryBuffer

#: Weight of the newest rollout, once there have been more than its inverse.
NEWEST_WEIGHT = 0.01

#: Smallest standard deviation, for games without rewards so far.
SMALLEST_STD = 1e-2


@torch.no_grad()
def next_values(
    rollout: Rollout,
    values: Tensor,
    values_of: Callable[[Tensor], Tensor],
    setup: Setup,
    final_values_of: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Values of the observations that follow each step; float32 ``[T, n]``.

    `final_values_of` is `values_of` for final observations and the steps ``[n]`` before them.

    One pass for the newest observations, and one for the final observations of truncated episodes.
    The latter is skipped if there are none and the host may read the device.
    """
    last_values = values_of(rollout.bootstrap_obs)
    if setup.autoreset_mode == "NextStep":  # final observations are among the others
        return torch.cat([values[1:], last_values.unsqueeze(0)])
    finals = torch.zeros_like(values)
    if not setup.can_sync or bool((rollout.final_steps >= 0).any()):
        for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
            index = steps.clamp(min=0)
            found = final_values_of(obs, index) if final_values_of else values_of(obs)
            kept = torch.where(steps >= 0, found, finals.gather(0, index.unsqueeze(0))[0])
            finals.scatter_(0, index.unsqueeze(0), kept.unsqueeze(0))
    return algos.shift_values(values, last_values, finals, rollout.ended)


@torch.no_grad()
def in_parts(function: Callable[[Tensor], Tensor], obs: Tensor, size: int) -> Tensor:
    """A function of observations ``[B, ...]``, `size` of them at a time, which bounds memory."""
    return torch.cat([function(part) for part in torch.split(obs, size)])


def pixel_statistics(network: nn.Module) -> PixelStatistics | None:
    """The statistics of a network that normalizes pixels; None of others."""
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


class ValueScale(nn.Module):
    """Units of values: the running mean and standard deviation of returns.

    A network learns values in these units; without updates they are those of rewards. After an
    update the last layer is changed such that it gives the same values as before (PopArt, van
    Hasselt et al. 2016), so that the values of a rollout and the returns computed from them agree.
    """

    mean: Tensor
    square: Tensor
    std: Tensor
    count: Tensor

    def __init__(self) -> None:
        """Begin with the units of rewards."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    def values(self, outputs: Tensor) -> Tensor:
        """Convert outputs of the network to values."""
        return outputs * self.std + self.mean

    def outputs(self, values: Tensor) -> Tensor:
        """Convert values to outputs of the network."""
        return (values - self.mean) / self.std

    @torch.no_grad()
    def update(self, mean: Tensor, std: Tensor, head: nn.Module | None) -> None:
        """Take the returns of a rollout into account, by their mean and standard deviation.

        `head`, if it is linear, keeps its values.
        """
        self.count += 1
        weight = (1.0 / self.count).clamp(min=NEWEST_WEIGHT)
        old_mean, old_std = self.mean.clone(), self.std.clone()
        # The first rollout replaces what the statistics begin with.
        self.mean.lerp_(mean, weight)
        self.square.lerp_(std.square() + mean.square(), weight)
        variance = (self.square - self.mean.square()).clamp(min=SMALLEST_STD**2)
        self.std.copy_(variance.sqrt())
        if isinstance(head, nn.Linear):
            head.weight.mul_(old_std / self.std)
            head.bias.copy_((head.bias * old_std + old_mean - self.mean) / self.std)
