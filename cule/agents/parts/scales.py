"""Units of values: the running mean and standard deviation of returns.

A network learns values in these units; without updates they are those of rewards. After an update
the last layer is changed such that it gives the same values as before (PopArt, van Hasselt et al.
2016), so that the values of a rollout and the returns computed from them agree.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Weight of the newest rollout, once there have been more than its inverse.
NEWEST_WEIGHT = 0.01

#: Smallest standard deviation, for games without rewards so far.
SMALLEST_STD = 1e-2


class ValueScale(nn.Module):
    """Converts between values and the outputs of a network."""

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
        """Values of outputs."""
        return outputs * self.std + self.mean

    def outputs(self, values: Tensor) -> Tensor:
        """Outputs that stand for values."""
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
