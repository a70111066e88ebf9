"""The encoder Hadamax (Kooi et al. 2025): maxima of products of parallel convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

#: (filters, kernel, window of the maximum, its stride) of each block.
_BLOCKS = ((32, 8, 4, 4), (64, 4, 2, 2), (64, 3, 3, 1))
_WIDTH = 512


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of each pixel."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize images ``[B, C, H, W]``."""
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class HadamaxBlock(nn.Module):
    """The maximum over a window of the product of two convolutions, each normalized, with GELU.

    Padding is "SAME" of JAX: convolutions have stride 1 and keep the size of the image, and where
    the pixels around it cannot be the same before and after, there is one more after it.
    """

    def __init__(self, conv: type[nn.Conv2d], channels: int, sizes: Sequence[int]) -> None:
        """Make both branches of the class `conv`, for images of `channels`."""
        super().__init__()
        filters, kernel, self.window, self.stride = sizes
        before = (kernel - 1) // 2
        self.padding = (before, kernel - 1 - before) * 2
        self.branches = nn.ModuleList(
            nn.Sequential(
                conv(channels, filters, kernel),
                ChannelNorm(filters, eps=1e-6),
                nn.GELU(approximate="tanh"),
            )
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Images ``[B, C, H, W]`` to ``[B, filters, H', W']``, sizes divided by the stride."""
        padded = F.pad(x, self.padding)
        product = self.branches[0](padded) * self.branches[1](padded)
        rows, columns = (self._around(size) for size in product.shape[-2:])
        product = F.pad(product, (*columns, *rows), value=-math.inf)
        return F.max_pool2d(product, self.window, self.stride)

    def _around(self, size: int) -> tuple[int, int]:
        """Pixels before and after an axis, with which the windows cover it."""
        total = max((-(-size // self.stride) - 1) * self.stride + self.window - size, 0)
        return total // 2, total - total // 2


def hadamax_body(first: type[nn.Conv2d], obs_shape: Sequence[int]) -> nn.Sequential:
    """Layers of the encoder for observations ``[S, H, W]``; the class `first` reads them."""
    channels, rows, columns = obs_shape
    layers: list[nn.Module] = []
    conv = first
    for sizes in _BLOCKS:
        layers.append(HadamaxBlock(conv, channels, sizes))
        channels, stride, conv = sizes[0], sizes[3], nn.Conv2d
        rows, columns = -(-rows // stride), -(-columns // stride)
    linear = nn.Linear(channels * rows * columns, _WIDTH)
    norm = nn.LayerNorm(_WIDTH, eps=1e-6)
    return nn.Sequential(*layers, nn.Flatten(), linear, norm, nn.GELU(approximate="tanh"))
