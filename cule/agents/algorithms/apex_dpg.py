"""Ape-X DPG: deterministic policy gradients on the continuous action interface.

Distributed prioritised replay as in `cule.agents.algorithms.apex`, with an actor that gives (x, y)
on the unit disc and fire, and a critic of these (Horgan et al. 2018, appendix D). The environment
takes radius, angle and fire; replay stores what was executed. Directions and fire have thresholds
at 0.5, so the reward is piecewise constant in the action, and exploration must cross them: Gaussian
noise with a ladder of standard deviations over the environments, and rare random actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.apex_acting import ApexActingConfig, ApexAgent
from cule.agents.training.options import (
    Bounds,
    Fraction,
    GradNorm,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
)
from cule.errors import InvalidArgumentError
from cule.nets import DeterministicActorCritic
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay

#: Methods of a network; see `cule.nets.DeterministicActorCritic`.
CONTRACT = ("features", "raw_actions", "values")


@dataclass(frozen=True, kw_only=True)
class ApexDPGConfig(ApexActingConfig):
    """Options of Ape-X DPG; the defaults follow the paper's continuous control, for Atari."""

    num_envs: Positive = 256
    n_step: Annotated[int, Bounds(1, 10_000)] = 5
    learning_starts: Positive = 50_000
    batch_size: Annotated[int, Bounds(1, 100_000)] = 256
    samples_per_insert: Annotated[float, Bounds(0, 100_000)] = 1.0

    learning_rate: NonNegativeFloat = 1e-4
    """Learning rate of Adam for actor and critic."""

    max_grad_norm: GradNorm = 40.0
    target_interval: Positive = 100
    alpha: Fraction = 0.6

    beta: Fraction = 0.4
    """Exponent of the importance weights."""

    action_gradient_clip: PositiveFloat = 1.0
    """Elementwise clip of the derivative of the critic with respect to the action."""

    saturation_penalty: NonNegativeFloat = 0.01
    """Factor of the mean square of the actor's unbounded outputs, which keeps them where squashing
    has a gradient."""

    sigma_low: PositiveFloat = 0.05
    """Standard deviation of the noise of the first environment, on x, y and fire."""

    sigma_high: PositiveFloat = 0.6
    """Standard deviation of the noise of the last environment."""

    random_action_probability: Fraction = 0.01
    """Probability of a uniformly random action."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if self.compile:
            raise InvalidArgumentError("compile is True; it must be False in Ape-X DPG")

    @property
    def continuous(self) -> bool:
        """Actions are (radius, angle, fire)."""
        return True


class ApexDPG(ApexAgent):
    """Ape-X deterministic policy gradients; see docs/agents/apex-dpg.md.

    Example:
        >>> from cule.agents import ApexDPG, ApexDPGConfig
        >>> config = ApexDPGConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = ApexDPG(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dpg"
    config_class = ApexDPGConfig
    config: ApexDPGConfig

    network: Any  # with the methods of CONTRACT
    target: Any
    actor: Any
    choose: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]

    # --- Set up -----------------------------------------------------------------------------------

    def build(self) -> None:
        """Make the networks and one optimizer, since actor and critic share no parameter."""
        config = self.config
        self.network = self.new_network()
        missing = [name for name in CONTRACT if not hasattr(self.network, name)]
        if missing:
            raise InvalidArgumentError(
                f"the network, a {type(self.network).__name__}, has no {', '.join(missing)}; Ape-X "
                "DPG needs what cule.nets.DeterministicActorCritic has under these names"
            )
        self.target = self.copy_network()
        self.build_actor()
        parameters = self.network.parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)
        ladder = algos.sigma_ladder(self.total_envs, config.sigma_low, config.sigma_high)
        self.sigma = self.of_own_envs(ladder)

    def make_network(self) -> nn.Module:
        """Make the actor and the critic; see `cule.nets.DeterministicActorCritic`."""
        config = self.config
        return DeterministicActorCritic(
            self.obs_shape,
            torso=config.network,
            initialisation=config.initialisation,
            normalize_obs=config.normalize_obs,
        )

    def make_replay(self) -> PrioritizedReplay:
        """Make the memory, of polar actions."""
        return PrioritizedReplay(
            PrioritizedOptions(
                **self.prioritized_options(),
                action_shape=(3,),
                action_dtype=torch.float32,
                beta=self.config.beta,
            )
        )

    def capture(self) -> None:
        """Capture acting and the update."""
        super().capture()
        self.choose = self.captured(self._choose, stream=self.acting_stream)

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Actions of the policy as radius, angle and fire; never random."""
        with self.autocast():
            raw = self.network.raw_actions(self.network.features(obs))
        return algos.polar_from_raw(raw)

    @torch.no_grad()
    def explore(self, action: Tensor) -> Tensor:
        """Add noise to actions (x, y, fire) ``[N, 3]``."""
        noise = torch.randn(action.shape, generator=self.generator, device=self.device)
        noisy = algos.clip_to_disc(action + self.sigma.unsqueeze(-1) * noise)
        random = algos.random_disc_actions(len(action), self.generator, self.device)
        uniform = torch.rand(len(action), 1, generator=self.generator, device=self.device)
        return torch.where(uniform < self.config.random_action_probability, random, noisy)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Exploring actions (x, y, fire), and the values of the policy's actions and of these."""
        with self.autocast():
            features = self.actor.features(obs)
            chosen = algos.disc_from_raw(self.actor.raw_actions(features))
            best = self.actor.values(features, chosen)
            action = self.explore(chosen)
            return action, best, self.actor.values(features, action)

    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `ApexAgent.choose_actions`; radius, angle and fire."""
        action, best, taken = self.choose(obs)
        return algos.polar_from_disc(action), taken, best

    # --- Learn ------------------------------------------------------------------------------------

    def sample(self) -> Batch:
        """Sample a batch; weights are normalised over all processes."""
        return self.weigh(self.local_replay.sample(self.config.batch_size), self.config.beta)

    def _learn_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update from a batch; return errors ``[B]`` and metrics."""
        config = self.config
        with torch.no_grad(), self.autocast():
            next_features = self.target.features(batch.next_obs)
            next_action = algos.disc_from_raw(self.target.raw_actions(next_features))
            next_values = self.target.values(next_features, next_action)
            targets = batch.returns + batch.discounts * next_values
        with self.autocast():
            features = self.network.features(batch.obs)
            values = self.network.values(features, algos.disc_from_polar(batch.actions))
            raw = self.network.raw_actions(features)
            action = algos.disc_from_raw(raw)
            probe = action.detach().requires_grad_()
            probed = self.network.values(features.detach(), probe)
        (gradients,) = torch.autograd.grad(probed.sum(), probe)
        errors = targets - values
        critic_loss = 0.5 * (batch.weights * errors.square()).mean()
        actor_loss = algos.action_gradient_loss(action, gradients, config.action_gradient_clip)
        penalty = config.saturation_penalty * raw.square().mean()
        norm = self.learn(critic_loss + actor_loss + penalty)
        return errors.detach(), {
            "critic_loss": critic_loss.detach(),
            "value_mean": values.detach().mean(),
            "policy_value_mean": probed.detach().mean(),
            "error_mean": errors.detach().abs().mean(),
            "weight_min": batch.weights.amin(),
            "weight_zero_share": (batch.weights == 0).float().mean(),
            "radius_mean": action.detach()[:, :2].norm(dim=-1).mean(),
            "grad_norm": norm,
        }
