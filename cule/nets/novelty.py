"""Networks of random network distillation: a measure of novelty, and a policy with two values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from cule.nets.heads import ActorCritic, HeadLinear
from cule.nets.initialization import initialize
from cule.nets.pixels import PixelStatistics
from cule.nets.torsos import make_torso


class Novelty(nn.Module):
    """How badly a network predicts the outputs of a fixed random one (Burda et al. 2018).

    The error is large for frames unlike those that the predictor has learned from. Both read one
    frame, normalized by the running statistics of its pixels, without which a random network may
    hardly depend on its input.

    Attributes:
        statistics: Mean and deviation of the frames, which the caller updates.
        predictor: The network that learns; the parameters of the other one need no gradient.
    """

    def __init__(self, obs_shape: Sequence[int], *, torso: str = "nature") -> None:
        """Make both networks.

        Args:
            obs_shape: Shape of one observation: ``[S, H, W]``, of which the newest frame is read,
                or ``[D]``.
            torso: One of `cule.nets.TORSOS`.
        """
        super().__init__()
        self.num_dims = 1 + len(obs_shape)
        shape = (1, *obs_shape[1:]) if len(obs_shape) > 1 else tuple(obs_shape)
        self.statistics = PixelStatistics(shape)
        first, second = make_torso(torso, shape), make_torso(torso, shape)
        features = first.num_features
        self.target = nn.Sequential(first, HeadLinear(features, features))
        self.predictor = nn.Sequential(
            second,
            nn.Linear(features, features),
            nn.ReLU(),
            nn.Linear(features, features),
            nn.ReLU(),
            HeadLinear(features, features),
        )
        for network in (self.target, self.predictor):
            initialize(network, "orthogonal")
        self.target.requires_grad_(False)

    def forward(self, obs: Tensor) -> Tensor:
        """Mean squared errors ``[B]`` for observations ``[B, ...]``; float32."""
        if obs.dim() < self.num_dims:  # a stack of one frame may have no axis
            obs = obs.unsqueeze(1)
        frames = self.statistics(obs[:, -1:] if obs.dim() > 2 else obs)
        errors: Tensor = self.predictor(frames) - self.target(frames)
        return errors.square().mean(-1)


class CuriousActorCritic(ActorCritic):
    """A policy and two values on one torso: of rewards, and of novelty."""

    def __init__(self, obs_shape: Sequence[int], num_actions: int, **options: Any) -> None:
        """Make and initialize the network; arguments as for `ActorCritic`."""
        super().__init__(obs_shape, num_actions, **options)
        self.value = HeadLinear(self.torso.num_features, 2)
        self.initialize_heads(options.get("initialization", "orthogonal"))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Turn observations into float32 logits ``[B, A]`` and values ``[B, 2]``."""
        features = self.features(obs)
        return self.policy(features), self.value(features)
