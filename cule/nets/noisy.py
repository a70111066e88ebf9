"""Noisy linear layers with factorised noise (Fortunato et al. 2017)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NoisyLinear(nn.Module):
    """``(mu + sigma * noise) x``; noise is an outer product of two transformed normal vectors.

    A batch is split into `groups` equal groups of rows with independent noise, so that thousands of
    environments do not explore in lockstep. In evaluation mode there is no noise.

    With `is_head` it computes in float32, also under autocast, as `cule.nets.heads.HeadLinear`.
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        sigma0: float = 0.5,
        groups: int = 1,
        is_head: bool = False,
    ) -> None:
        """Sample mu; sigma starts at ``sigma0 / sqrt(in_features)``, the noise at zero."""
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.is_head = is_head
        bound = 1.0 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma0 * bound))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma0 * bound))
        self.register_buffer("noise_in", torch.zeros(groups, in_features), persistent=False)
        self.register_buffer("noise_out", torch.zeros(groups, out_features), persistent=False)

    @torch.no_grad()
    def sample_noise(self, generator: torch.Generator | None = None) -> None:
        """Sample new noise in place; `generator` is on the device of the layer."""
        for noise in (self.noise_in, self.noise_out):
            noise.normal_(generator=generator)
            noise.copy_(noise.sign() * noise.abs().sqrt())

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, in]`` to ``[B, out]``."""
        if not self.is_head:
            return self._forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return self._forward(x.to(self.weight.dtype))

    def _forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.linear(x, self.weight, self.bias)
        groups = len(self.noise_in)
        if groups == 1 or len(x) % groups:  # one noise, that of the first group
            noise_in, noise_out = self.noise_in[0], self.noise_out[0]
            weight = torch.addcmul(self.weight, self.weight_sigma, torch.outer(noise_out, noise_in))
            return F.linear(x, weight, torch.addcmul(self.bias, self.bias_sigma, noise_out))
        # mu x + noise_out * (sigma (noise_in * x)) needs no weights per group.
        plain = F.linear(x, self.weight, self.bias)
        grouped = x.reshape(groups, -1, self.in_features) * self.noise_in.unsqueeze(1)
        moved = F.linear(grouped, self.weight_sigma, self.bias_sigma) * self.noise_out.unsqueeze(1)
        return plain + moved.reshape(plain.shape)


def sample_noise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Sample new noise for all noisy layers."""
    for layer in module.modules():
        if isinstance(layer, NoisyLinear):
            layer.sample_noise(generator)
