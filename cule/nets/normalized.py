"""The action-value network of PQN, with layer normalization before each ReLU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError, shown
from cule.nets.heads import HeadLinear
from cule.nets.initialization import initialize
from cule.nets.pixels import PixelStatistics
from cule.nets.torsos import CONVOLUTIONS, Torso, channels_last, convolutional_body, linear_body


class NormalizedQNetwork(Torso):
    """Action values; normalization bounds the features, which replaces a target network."""

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        torso: str = "nature",
        initialization: str = "he",
        normalize_obs: bool = False,
    ) -> None:
        """Make the network as `QNetwork`, with a torso of `CONVOLUTIONS` or "mlp".

        With `normalize_obs` a running mean of each pixel is subtracted, and the difference is
        divided by its deviation.
        """
        example = torch.zeros(1, *obs_shape)
        if torso == "mlp":
            body = linear_body(example.numel(), 2, normalized=True)
        elif torso in CONVOLUTIONS and len(obs_shape) == 3:
            body = convolutional_body(torso, obs_shape, normalized=True)
        else:
            allowed = (*CONVOLUTIONS, "mlp") if len(obs_shape) == 3 else ("mlp",)
            raise InvalidArgumentError(
                f"network is {shown(torso)}; with PQN and observations of shape {tuple(obs_shape)} "
                f"it must be one of {', '.join(allowed)}"
            )
        super().__init__(body, example, is_image=torso != "mlp")
        self.statistics = PixelStatistics(tuple(obs_shape)) if normalize_obs else None
        self.head = HeadLinear(self.num_features, num_actions)
        initialize(self, initialization)
        if self.is_image:
            channels_last(self)

    def forward(self, obs: Tensor) -> Tensor:
        """Turn observations, uint8 or float (0..255), into float32 action values ``[B, A]``."""
        if self.statistics is not None:
            obs = self.statistics(obs)
        values: Tensor = self.head(super().forward(obs))
        return values
