"""Networks with discrete actions: policy and value, and action values with their variants.

The last layers compute in float32, also under autocast: bfloat16 has 8 bits of precision, which
would round values and the logarithms of probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cule.nets.initialization import initialize
from cule.nets.pixels import PixelStatistics
from cule.nets.torsos import OBJECT_TORSOS, Torso, make_torso


class HeadLinear(nn.Linear):
    """A last linear layer, which computes in float32 also under autocast."""

    def forward(self, input: Tensor) -> Tensor:
        """Map ``[B, in]`` of any floating type to float32 ``[B, out]``."""
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


def linear_maker(noisy: bool, sigma0: float, groups: int) -> Callable[..., nn.Module]:
    """Choose the linear layers of a head, from inputs, outputs and `is_head`: all noisy or none."""

    def linear(inputs: int, outputs: int, *, is_head: bool = False) -> nn.Module:
        if noisy:
            from cule.nets.noisy import NoisyLinear

            return NoisyLinear(inputs, outputs, sigma0=sigma0, groups=groups, is_head=is_head)
        return (HeadLinear if is_head else nn.Linear)(inputs, outputs)

    return linear


class TorsoNetwork(nn.Module):
    """A torso, with statistics of pixels before it if they are normalized; heads are added."""

    def __init__(self, torso: Torso, obs_shape: Sequence[int], normalize_obs: bool) -> None:
        """Begin with a torso for observations of this shape."""
        super().__init__()
        self.statistics = PixelStatistics(tuple(obs_shape)) if normalize_obs else None
        self.torso = torso

    def features(self, obs: Tensor) -> Tensor:
        """Features ``[B, F]`` of observations ``[B, ...]``."""
        if self.statistics is not None:
            obs = self.statistics(obs)
        features: Tensor = self.torso(obs)
        return features


class ActorCritic(TorsoNetwork):
    """A policy and a value on one torso."""

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        torso: str = "nature",
        initialization: str = "orthogonal",
        normalize_obs: bool = False,
    ) -> None:
        """Make and initialize the network.

        Args:
            obs_shape: Shape of one observation: ``[S, H, W]`` or ``[D]``.
            num_actions: A.
            torso: One of `cule.nets.TORSOS`.
            initialization: One of `cule.nets.INITIALIZATIONS`.
            normalize_obs: Subtract a running mean of each pixel, divide by its deviation.
        """
        super().__init__(make_torso(torso, obs_shape), obs_shape, normalize_obs)
        self.policy = HeadLinear(self.torso.num_features, num_actions)
        self.value = HeadLinear(self.torso.num_features, 1)
        initialize(self.torso, initialization)
        self.initialize_heads(initialization)

    def initialize_heads(self, initialization: str) -> None:
        """Initialize policy and value."""
        initialize(self.policy, initialization, 0.01)
        initialize(self.value, initialization, 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Turn observations ``[B, ...]`` into float32 logits ``[B, A]`` and values ``[B]``."""
        features = self.features(obs)
        return self.policy(features), self.value(features).squeeze(-1)


class QNetwork(TorsoNetwork):
    """Action values, or with several atoms their distributions; optionally dueling and noisy."""

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        torso: str = "nature",
        initialization: str = "torch",
        dueling: bool = False,
        noisy: bool = False,
        num_atoms: int = 1,
        noise_sigma0: float = 0.5,
        noise_groups: int = 1,
        hidden: int = 512,
        normalize_obs: bool = False,
    ) -> None:
        """Make and initialize the network.

        Args:
            obs_shape: Shape of one observation: ``[S, H, W]`` or ``[D]``.
            num_actions: A.
            torso: One of `cule.nets.TORSOS`. A dueling or noisy head, which has a hidden layer,
                replaces its last linear layer.
            initialization: One of `cule.nets.INITIALIZATIONS`.
            dueling: Separate streams for state value and advantages (Wang et al. 2016).
            noisy: Use noisy layers in the head.
            num_atoms: Atoms K of a distribution; 1: scalar values.
            noise_sigma0: Initial scale of the noise.
            noise_groups: Groups of a batch with independent noise.
            hidden: Width of the streams.
            normalize_obs: Subtract a running mean of each pixel, divide by its deviation.
        """
        has_hidden = dueling or noisy
        make = torso_without_hidden_layer if has_hidden else make_torso
        super().__init__(make(torso, obs_shape), obs_shape, normalize_obs)
        self.num_actions, self.num_atoms, self.dueling = num_actions, num_atoms, dueling

        linear = linear_maker(noisy, noise_sigma0, noise_groups)

        def stream(outputs: int) -> nn.Module:
            if not has_hidden:
                return linear(features, outputs, is_head=True)
            first = linear(features, hidden)
            return nn.Sequential(first, nn.ReLU(), linear(hidden, outputs, is_head=True))

        features = self.torso.num_features
        self.advantage = stream(num_actions * num_atoms)
        self.value = stream(num_atoms) if dueling else None
        initialize(self, initialization)

    def forward(self, obs: Tensor) -> Tensor:
        """Turn observations into float32 values ``[B, A]`` or, with atoms, logits ``[B, A, K]``."""
        features = self.features(obs)
        shape = (len(features), self.num_actions, self.num_atoms)
        out: Tensor = self.advantage(features).reshape(shape)
        if self.value is not None:
            value = self.value(features).reshape(len(features), 1, self.num_atoms)
            out = value + out - out.mean(1, keepdim=True)
        return out.squeeze(-1) if self.num_atoms == 1 else out


def torso_without_hidden_layer(name: str, obs_shape: Sequence[int]) -> Torso:
    """A torso without its last linear layer; "vector", "mlp" and `OBJECT_TORSOS` keep theirs."""
    torso = make_torso(name, obs_shape)
    if name not in ("vector", "mlp", *OBJECT_TORSOS):
        assert isinstance(torso.body, nn.Sequential)
        last = max(i for i, layer in enumerate(torso.body) if isinstance(layer, nn.Linear))
        torso.num_features = int(torso.body[last].in_features)  # type: ignore[arg-type]
        torso.body = torso.body[:last]
    return torso


def soft_copy(target: nn.Module, source: nn.Module, tau: float = 1.0) -> None:
    """Move the parameters of the target to those of the source: ``t += tau (s - t)``; 1 copies."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            if tau == 1.0:
                old.copy_(new)
            else:
                old.lerp_(new, tau)
        for kept, given in zip(target.buffers(), source.buffers(), strict=True):
            kept.copy_(given)


def gather_actions(values: Tensor, actions: Tensor) -> Tensor:
    """Select the taken actions: ``[B, A, ...]`` and ``[B]`` to ``[B, ...]``."""
    index = actions.long().reshape(-1, 1, *([1] * (values.dim() - 2)))
    return values.gather(1, index.expand(-1, 1, *values.shape[2:])).squeeze(1)
