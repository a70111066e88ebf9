"""IQN: implicit quantile networks (Dabney et al. 2018).

`DQN` with a network that estimates quantiles of the return at sampled fractions. It acts on the
mean of `num_acting_quantiles` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.dqn import DQN, DQNConfig
from cule.agents.training.options import Bounds, NonNegativeFloat, PositiveFloat
from cule.errors import InvalidArgumentError
from cule.nets import ImplicitQuantileNetwork, gather_actions
from cule.replay import Batch


@dataclass(frozen=True, kw_only=True)
class IQNConfig(DQNConfig):
    """Options of IQN; the defaults are those of Dopamine, on 32 environments."""

    repeat_action_probability: Annotated[float, Bounds(0, 1)] = 0.25
    noop_max: Annotated[int, Bounds(0, 100_000)] = 1
    use_fire_reset: bool = False
    learning_rate: NonNegativeFloat = 5e-5
    optimizer_eps: NonNegativeFloat = 0.01 / 32
    n_step: Annotated[int, Bounds(1, 10_000)] = 3

    num_quantiles: Annotated[int, Bounds(1, 10_000)] = 64
    """Sampled fractions at which the network learns."""

    num_target_quantiles: Annotated[int, Bounds(1, 10_000)] = 64
    """Sampled fractions of the target network that it learns from."""

    num_acting_quantiles: Annotated[int, Bounds(1, 10_000)] = 32
    """Sampled fractions whose mean is the value of an action."""

    kappa: PositiveFloat = 1.0
    """Error up to which the loss is quadratic."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        for name, value in (
            ("num_atoms", 1),
            ("noisy", False),
            ("dueling", False),
            ("loss", "huber"),
        ):
            if getattr(self, name) != value:
                raise InvalidArgumentError(
                    f"{name} is {getattr(self, name)!r}; with IQN it must be {value!r}"
                )


class IQN(DQN):
    """Implicit quantile networks; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import IQN, IQNConfig
        >>> agent = IQN(IQNConfig(game="pong", num_envs=8, memory=8000, learning_starts=64))
        >>> agent.config.num_quantiles, agent.config.n_step
        (64, 3)
    """

    name: ClassVar[str] = "iqn"
    config_class = IQNConfig
    config: IQNConfig

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Action values, which the network returns without fractions."""
        return {"action values": (self.num_actions,)}

    def make_network(self) -> nn.Module:
        """Make quantiles at any fraction, on the CPU."""
        return ImplicitQuantileNetwork(
            self.obs_shape,
            self.num_actions,
            torso=self.config.network,
            initialisation=self.config.initialisation,
            normalize_obs=self.config.normalize_obs,
        )

    # --- Act --------------------------------------------------------------------------------------

    def q_values(
        self,
        network: Callable[..., Tensor] | nn.Module,
        obs: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Action values ``[B, A]``: means of quantiles at sampled fractions."""
        count = self.config.num_acting_quantiles
        fractions = self._fractions(len(obs), count, generator or self.generator)
        with self.autocast():
            return network(obs, fractions).mean(1)

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability `eval_epsilon` random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        values = self.q_values(self.forward, obs, generator)
        return algos.epsilon_greedy(values, epsilon, generator)

    # --- Learn ------------------------------------------------------------------------------------

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Losses, as priorities and with gradients, and values of the taken actions; ``[B]``."""
        config, size = self.config, len(batch.actions)
        with torch.no_grad():
            online = self.forward if config.double else self.target
            best = self.q_values(online, batch.next_obs).argmax(-1)
            sampled = self._fractions(size, config.num_target_quantiles, self.generator)
            after = self._quantiles(self.target, batch.next_obs, sampled, best)
            targets = batch.returns.unsqueeze(1) + batch.discounts.unsqueeze(1) * after
        fractions = self._fractions(size, config.num_quantiles, self.generator)
        taken = self._quantiles(self.forward, batch.obs, fractions, batch.actions)
        losses = algos.quantile_huber_loss(taken, fractions, targets, config.kappa)
        return losses.detach(), losses, taken.detach().mean(1)

    def _quantiles(
        self,
        network: Callable[..., Tensor] | nn.Module,
        obs: Tensor,
        fractions: Tensor,
        actions: Tensor,
    ) -> Tensor:
        """Quantiles ``[B, M]`` of the returns of actions ``[B]``."""
        with self.autocast():
            return gather_actions(network(obs, fractions).transpose(1, 2), actions)

    def _fractions(self, size: int, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand((size, count), generator=generator, device=self.device)
