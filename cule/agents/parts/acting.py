"""Policies of the actor-critic algorithms, from the outputs of their networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from cule import algos
from cule.errors import InvalidArgumentError
from cule.replay import Rollout


class Policy:
    """A distribution over the indices of actions, from logits ``[N, A]``."""

    def sample(
        self, output: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Sample actions as the buffer stores them, and the extras it stores with them."""
        actions = algos.sample_categorical(output, generator)
        return actions, {"log_probs": algos.log_prob(output, actions)}

    def best(self, output: Tensor) -> Tensor:
        """The most probable actions, as the buffer stores them."""
        return output.argmax(-1)

    def env_actions(self, actions: Tensor) -> Tensor:
        """Stored actions as the environment takes them."""
        return actions

    def behaviour_log_probs(self, rollout: Rollout) -> Tensor:
        """Log-probabilities ``[T, N]`` under the policy that acted, before the first update."""
        return rollout.extras["log_probs"]

    def log_probs_and_entropies(self, output: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of stored actions, and entropies; ``[B]`` each."""
        return algos.log_prob(output, actions), algos.entropy(output)


class GaussianPolicy(Policy):
    """Normal distributions over three unbounded numbers, from their means ``[N, 3]``.

    The buffer stores the numbers and the standard normal noise in them; the environment receives
    their squashed, polar form.
    """

    #: Extras of the buffer: shapes and types.
    extras: Mapping[str, tuple[tuple[int, ...], torch.dtype]] = {
        "noise": ((3,), torch.float32),
        "values": ((), torch.float32),
    }

    def __init__(self, network: nn.Module) -> None:
        """Use the standard deviations of a network, the exponentials of its `log_sigma`."""
        if not isinstance(getattr(network, "log_sigma", None), Tensor):
            raise InvalidArgumentError(
                f"the network, a {type(network).__name__}, has no log_sigma; with continuous True "
                "it must have the logarithms of three standard deviations under this name"
            )
        self._network = network

    @property
    def _log_sigma(self) -> Tensor:
        return cast(Tensor, self._network.log_sigma)

    def sample(
        self, output: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Sample actions, float32 ``[N, 3]``, with their noise as the extra."""
        noise = torch.randn(output.shape, generator=generator, device=output.device)
        return output + self._log_sigma.exp() * noise, {"noise": noise}

    def best(self, output: Tensor) -> Tensor:
        """Return the means."""
        return output

    def env_actions(self, actions: Tensor) -> Tensor:
        """Convert stored actions to radius, angle and fire."""
        return algos.polar_from_raw(actions)

    @torch.no_grad()
    def behaviour_log_probs(self, rollout: Rollout) -> Tensor:
        """Compute log-probabilities ``[T, N]`` from the stored noise."""
        return algos.noise_log_prob(rollout.extras["noise"], self._log_sigma)

    def log_probs_and_entropies(self, output: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Compute log-probabilities and entropies of the unbounded numbers; ``[B]`` each."""
        log_sigma = self._log_sigma
        log_probs = algos.gaussian_log_prob(output, log_sigma, actions)
        return log_probs, algos.gaussian_entropy(log_sigma).expand_as(log_probs)
