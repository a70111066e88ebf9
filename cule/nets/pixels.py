"""Running mean and variance of each pixel, for networks that normalise their input."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PixelStatistics(nn.Module):
    """Normalises observations by running statistics, which are buffers and not parameters."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, obs_shape: tuple[int, ...]) -> None:
        """Start with mean 0 and standard deviation 255, with the weight of one observation."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(obs_shape))
        self.register_buffer("variance", torch.full(obs_shape, 255.0**2))
        self.register_buffer("count", torch.ones(()))

    @torch.no_grad()
    def update(self, obs: Tensor) -> None:
        """Update the statistics with observations ``[B, ...]``."""
        x = obs.float()
        self.merge(x.mean(0), x.var(0, correction=0), torch.full_like(self.count, len(x)))

    @torch.no_grad()
    def merge(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Merge the statistics of `count` observations (Chan et al., parallel variance)."""
        total = self.count + count
        delta = mean - self.mean
        share = count / total
        self.variance.copy_(
            self.variance * (1 - share) + variance * share + delta.square() * share * (1 - share)
        )
        self.mean.add_(delta * share)
        self.count.copy_(total)

    def forward(self, obs: Tensor) -> Tensor:
        """Normalise observations; times 255, since torsos divide by it; float32."""
        x = obs.to(torch.float32)
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        scaled = (x - self.mean) * (self.variance + 1e-2).rsqrt()
        return scaled.clamp(-5.0, 5.0) * 255.0
