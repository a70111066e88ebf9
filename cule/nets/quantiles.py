"""The network of IQN: quantiles of returns at any fraction (Dabney et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cule.nets.heads import TorsoNetwork, linear_maker, torso_without_hidden_layer
from cule.nets.initialization import initialize


class ImplicitQuantileNetwork(TorsoNetwork):
    """Features of an observation times an embedding of a fraction, then a hidden layer.

    With `dueling` a second hidden layer leads to the quantile of the state, as in BTR.
    """

    harmonics: Tensor
    midpoints: Tensor

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        torso: str = "nature",
        initialization: str = "torch",
        dueling: bool = False,
        noisy: bool = False,
        noise_sigma0: float = 0.5,
        noise_groups: int = 1,
        num_cosines: int = 64,
        num_midpoints: int = 32,
        hidden: int = 512,
        normalize_obs: bool = False,
    ) -> None:
        """Make and initialize the network.

        Args:
            obs_shape: Shape of one observation: ``[S, H, W]`` or ``[D]``.
            num_actions: A.
            torso: One of `cule.nets.TORSOS`, without its last linear layer.
            initialization: One of `cule.nets.INITIALIZATIONS`.
            dueling: Separate streams for state and advantages (Wang et al. 2016).
            noisy: Use noisy layers after the embedding.
            noise_sigma0: Initial scale of the noise.
            noise_groups: Groups of a batch with independent noise.
            num_cosines: Cosines in the embedding of a fraction.
            num_midpoints: Fractions of the action values that `forward` returns without any.
            hidden: Width of each hidden layer.
            normalize_obs: Subtract a running mean of each pixel, divide by its deviation.
        """
        super().__init__(torso_without_hidden_layer(torso, obs_shape), obs_shape, normalize_obs)
        width = self.torso.num_features
        self.embedding = nn.Linear(num_cosines, width)
        linear = linear_maker(noisy, noise_sigma0, noise_groups)
        self.hidden = linear(width, hidden)
        self.head = linear(hidden, num_actions, is_head=True)
        self.value: nn.Module | None = None
        if dueling:
            first, last = linear(width, hidden), linear(hidden, 1, is_head=True)
            self.value = nn.Sequential(first, nn.ReLU(), last)
        harmonics = math.pi * torch.arange(1, num_cosines + 1)
        self.register_buffer("harmonics", harmonics, persistent=False)
        midpoints = (torch.arange(num_midpoints) + 0.5) / num_midpoints
        self.register_buffer("midpoints", midpoints, persistent=False)
        initialize(self, initialization)

    def forward(self, obs: Tensor, fractions: Tensor | None = None) -> Tensor:
        """Quantiles of returns at fractions in 0..1.

        Args:
            obs: As for a torso; ``[B, ...]``.
            fractions: float32 ``[B, M]``; by default evenly spaced, and their mean is returned.

        Returns:
            Quantiles, float32 ``[B, M, A]``; without fractions action values ``[B, A]``.
        """
        if fractions is None:
            return self.forward(obs, self.midpoints.expand(len(obs), -1)).mean(1)
        cosines = torch.cos(fractions.unsqueeze(-1) * self.harmonics)  # [B, M, num_cosines]
        embedded = F.relu(self.embedding(cosines))
        features = self.features(obs).unsqueeze(1) * embedded
        quantiles: Tensor = self.head(F.relu(self.hidden(features)))
        if self.value is not None:
            quantiles = self.value(features) + quantiles - quantiles.mean(-1, keepdim=True)
        return quantiles
