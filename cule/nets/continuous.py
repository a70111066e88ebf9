"""Actor and critic of deterministic policy gradients, for the continuous action interface."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

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
