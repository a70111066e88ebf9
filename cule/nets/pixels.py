"""Running mean and variance of each pixel, for networks that normalize their input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cule.nets.torsos import WHITE, ByteConv2d, ByteLinear, float_images

#: Largest absolute value of a normalized pixel.
LIMIT = 5.0

#: Divisor of the numbers of objects in networks for vectors and images; positions are up to 210.
OBJECT_SCALE = 24.0


class PixelStatistics(nn.Module):
    """Normalizes observations by running statistics, which are buffers and not parameters.

    The frames of a stack share the statistics of a frame ``[H, W]``: a stack is the same picture
    at several times. Elements of vectors ``[D]`` have their own.
    """

    white = WHITE  # 1 for observations that are not bytes
    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, obs_shape: tuple[int, ...]) -> None:
        """Start with mean 0 and standard deviation 255, with the weight of one frame."""
        super().__init__()
        frame_shape = obs_shape[-2:]
        self.register_buffer("mean", torch.zeros(frame_shape))
        self.register_buffer("variance", torch.full(frame_shape, WHITE**2))
        self.register_buffer("count", torch.ones(()))

    @torch.no_grad()
    def update(self, frames: Tensor) -> None:
        """Update the statistics with frames ``[B, H, W]`` or vectors ``[B, D]``."""
        frames = frames.float().reshape(-1, *self.mean.shape)  # channels are frames, too
        mean = frames.mean(0)  # two passes take a tenth of the time of torch.var_mean on a CPU
        variance = (frames - mean).square_().mean(0)
        self.merge(mean, variance, torch.full_like(self.count, len(frames)))

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
        """Normalize observations; times 255, since torsos divide by it; float32."""
        scale = (self.variance + 1e-2).rsqrt() * self.white
        shift = -self.mean * scale
        if obs.dim() < 4:
            x = obs.to(torch.float32)
        else:
            # All in one layout: a product of tensors of different layouts is many times slower.
            x = float_images(obs)
            shape = (1, *obs.shape[1:])
            scale = scale.expand(shape).contiguous(memory_format=torch.channels_last)
            shift = shift.expand(shape).contiguous(memory_format=torch.channels_last)
        limit = LIMIT * self.white
        return torch.addcmul(shift, x, scale).clamp_(-limit, limit)


def read_floats(network: nn.Module, scale: float = 1.0) -> None:
    """Let a network of `cule.nets` read observations that are not bytes, divided by `scale`."""
    for module in network.modules():
        if isinstance(module, ByteConv2d | ByteLinear | PixelStatistics):
            module.white = scale
        if isinstance(module, PixelStatistics):
            module.variance.fill_(scale**2)
