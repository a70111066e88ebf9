"""Networks for continuous actions: a deterministic actor and critic, and a normal policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cule.nets.heads import ActorCritic, TorsoNetwork
from cule.nets.initialization import initialize
from cule.nets.torsos import make_torso

#: Size of an action (x, y, fire).
ACTION_SIZE = 3


class DeterministicActorCritic(TorsoNetwork):
    """Actor and critic of Ape-X DPG on one torso, which only the critic trains.

    The critic has layers of 400 tanh, 300 tanh and 1, on features and action; the actor 300 tanh,
    200 tanh and 3 unbounded numbers, on features without gradient. Both compute in float32, also
    under autocast: an action in bfloat16 would have 8 bits.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        *,
        torso: str = "nature",
        initialization: str = "torch",
        normalize_obs: bool = False,
    ) -> None:
        """Make and initialize the network; arguments as for `cule.nets.QNetwork`."""
        super().__init__(make_torso(torso, obs_shape), obs_shape, normalize_obs)
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
        initialize(self, initialization)
        with torch.no_grad():  # start near the centre, where squashing is linear
            for parameter in self.actor[-1].parameters():
                parameter.mul_(0.01)

    @property
    def _head_dtype(self) -> torch.dtype:
        return next(self.critic.parameters()).dtype

    def raw_actions(self, features: Tensor) -> Tensor:
        """Unbounded actions ``[B, 3]`` of features; no gradient reaches the features."""
        with torch.autocast(features.device.type, enabled=False):
            raw: Tensor = self.actor(features.detach().to(self._head_dtype))
            return raw

    def values(self, features: Tensor, action: Tensor) -> Tensor:
        """Values ``[B]`` of features and actions (x, y, fire) ``[B, 3]``; float32."""
        with torch.autocast(features.device.type, enabled=False):
            inputs = [features.to(self._head_dtype), action.to(self._head_dtype)]
            value: Tensor = self.critic(torch.cat(inputs, -1))
            return value.squeeze(-1)


class GaussianActorCritic(ActorCritic):
    """A normal policy and a value on one torso.

    The means of the three unbounded numbers depend on the observation; their standard deviations
    do not.

    Attributes:
        log_sigma: Logarithms of the standard deviations, a parameter; float32 ``[3]``.
    """

    def __init__(
        self, obs_shape: Sequence[int], *, initial_sigma: float = 1.0, **options: Any
    ) -> None:
        """Make the network with an initial standard deviation; `options` as for `ActorCritic`."""
        super().__init__(obs_shape, ACTION_SIZE, **options)
        self.log_sigma = nn.Parameter(torch.full((ACTION_SIZE,), math.log(initial_sigma)))
