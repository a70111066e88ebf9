"""The action-value network of PQN: layer normalisation between each layer and its ReLU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cule.errors import InvalidArgumentError
from cule.nets.initialisation import initialise
from cule.nets.torsos import ByteConv2d, ByteLinear, channels_last, convolution_plan

#: Torsos that have a normalised form, beside "mlp".
NORMALISED = ("nature", "nature32", "nips", "small")


class NormalisedQNetwork(nn.Module):
    """Action values without a target network need bounded features: hence the normalisation."""

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        torso: str = "nature",
        initialisation: str = "he",
    ) -> None:
        """Make and initialise the network.

        Args:
            obs_shape: Of one observation, ``[S, H, W]``; any shape with "mlp".
            num_actions: A.
            torso: "nature", "nature32", "nips", "small" or "mlp"; others have no such form.
            initialisation: One of `cule.nets.INITIALISATIONS`.

        Raises:
            InvalidArgumentError: A torso without a normalised form, or that does not fit.
        """
        super().__init__()
        layers: list[nn.Module] = []
        self.is_image = torso != "mlp"
        if self.is_image:
            layers, width = _convolutions(torso, obs_shape)
        else:
            flat = int(torch.zeros(tuple(obs_shape)).numel())
            width = 128
            layers = [nn.Flatten(), ByteLinear(flat, width), nn.LayerNorm(width), nn.ReLU()]
            layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, num_actions)
        initialise(self, initialisation)
        if self.is_image:
            channels_last(self)

    def forward(self, obs: Tensor) -> Tensor:
        """Observations, uint8 or float (0..255), to float32 action values ``[B, A]``."""
        if self.is_image and obs.dim() == 3:  # one frame, without the axis of a stack
            obs = obs.unsqueeze(1)
        if obs.dtype == torch.uint8 and self.is_image:
            obs = obs.to(torch.float32, memory_format=torch.channels_last)
        elif obs.dtype == torch.uint8:
            obs = obs.to(torch.float32)
        values: Tensor = self.head(self.body(obs)).float()
        return values


def _convolutions(torso: str, obs_shape: Sequence[int]) -> tuple[list[nn.Module], int]:
    is_image = len(obs_shape) == 3
    if torso not in NORMALISED or not is_image:
        allowed = (*NORMALISED, "mlp") if is_image else ("mlp",)
        raise InvalidArgumentError(
            f"network is {torso!r}; for observations of shape {tuple(obs_shape)} PQN allows: "
            f"{allowed}"
        )
    plan, flat, width = convolution_plan(torso, obs_shape)
    layers: list[nn.Module] = []
    rows, columns = obs_shape[1], obs_shape[2]
    for index, (channels, filters, kernel, stride) in enumerate(plan):
        rows, columns = (rows - kernel) // stride + 1, (columns - kernel) // stride + 1
        kind = ByteConv2d if index == 0 else nn.Conv2d
        layers += [kind(channels, filters, kernel, stride)]
        layers += [nn.LayerNorm((filters, rows, columns)), nn.ReLU()]
    layers += [nn.Flatten(), nn.Linear(flat, width), nn.LayerNorm(width), nn.ReLU()]
    return layers, width
