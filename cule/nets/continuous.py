"""Networks for the continuous action interface: deterministic actor and critic, normal policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cule.nets.heads import ActorCritic
from cule.nets.initialisation import initialise
from cule.nets.torsos import make_torso

#: (x, y, fire): what the critic sees and the actor, squashed, emits.
ACTION_SIZE = 3


class DeterministicActorCritic(nn.Module):
    """One convolutional torso, trained by the critic only, and the two heads of Ape-X DPG.

    The critic is torso and action to 400 tanh, 300 tanh, 1; the actor is features without
    gradient to 300 tanh, 200 tanh, 3 unbounded numbers.
    """

    def __init__(
        self, obs_shape: Sequence[int], *, torso: str = "nature", initialisation: str = "torch"
    ) -> None:
        """Make and initialise the network; arguments as for `cule.nets.QNetwork`."""
        super().__init__()
        self.torso = make_torso(torso, obs_shape)
        features = self.torso.num_features
        self.critic = nn.Sequential(
            nn.Linear(features + ACTION_SIZE, 400),
            nn.Tanh(),
            nn.Linear(400, 300),
            nn.Tanh(),
            nn.Linear(300, 1),
        )
        self.actor = nn.Sequential(
            nn.Linear(features, 300),
            nn.Tanh(),
            nn.Linear(300, 200),
            nn.Tanh(),
            nn.Linear(200, ACTION_SIZE),
        )
        initialise(self, initialisation)
        with torch.no_grad():  # the first actions are near the centre, where squashing is linear
            for parameter in self.actor[-1].parameters():
                parameter.mul_(0.01)

    def features(self, obs: Tensor) -> Tensor:
        """Observations to features ``[B, F]``."""
        found: Tensor = self.torso(obs)
        return found

    def raw_actions(self, features: Tensor) -> Tensor:
        """Features to unbounded numbers ``[B, 3]``; no gradient reaches the features."""
        raw: Tensor = self.actor(features.detach())
        return raw.float()

    def values(self, features: Tensor, action: Tensor) -> Tensor:
        """Features and (x, y, fire) ``[B, 3]`` to float32 values ``[B]``."""
        value: Tensor = self.critic(torch.cat([features, action.to(features.dtype)], -1))
        return value.float().squeeze(-1)


class GaussianActorCritic(ActorCritic):
    """A normal policy and a value on one torso.

    The means of the three unbounded numbers depend on the observation, their deviations do not.

    Attributes:
        log_sigma: Logarithms of the deviations, a parameter; float32 ``[3]``.
    """

    def __init__(
        self, obs_shape: Sequence[int], *, initial_sigma: float = 1.0, **options: Any
    ) -> None:
        """Make and initialise the network.

        Args:
            obs_shape: Of one observation, ``[S, H, W]`` or ``[D]``.
            initial_sigma: Deviation at the start.
            options: As for `ActorCritic`, whose logits are the means here.
        """
        super().__init__(obs_shape, ACTION_SIZE, **options)
        self.log_sigma = nn.Parameter(torch.full((ACTION_SIZE,), math.log(initial_sigma)))
