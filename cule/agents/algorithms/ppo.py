"""PPO: proximal policy optimisation with clipped ratios (Schulman et al. 2017).

`RolloutAgent.round` collects T steps of N environments and calls `update`, which estimates
advantages and runs several epochs over shuffled minibatches. The variants are in files of their
own: continuous actions in `policies`, V-trace advantages and prioritised environments in
`ppo_targets`, the target KL in `early_stopping`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.early_stopping import EarlyStop, add_to
from cule.agents.algorithms.on_policy import ActorCriticAgent, ActorCriticConfig, check_minibatches
from cule.agents.algorithms.policies import GaussianPolicy
from cule.agents.algorithms.ppo_targets import GaeTargets, VTraceTargets, sample_envs
from cule.agents.training.distributed import global_moments
from cule.agents.training.graphs import make_capturable
from cule.agents.training.options import Epochs, Fraction, NonNegativeFloat, Positive, PositiveFloat
from cule.errors import InvalidArgumentError
from cule.nets import GaussianActorCritic
from cule.replay import TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Options of PPO; the defaults are those of public reference implementations."""

    num_envs: Positive = 8
    anneal_learning_rate: bool = True

    num_epochs: Epochs = 4
    """Passes over each rollout."""

    num_minibatches: Positive = 4
    """Minibatches of each epoch, with one update of the optimizer each."""

    adam_eps: NonNegativeFloat = 1e-5
    """Epsilon of Adam."""

    gae_lambda: Fraction = 0.95
    """Lambda of the advantages."""

    clip_range: NonNegativeFloat = 0.1
    """Maximum distance of a ratio from 1 before its gradient is clipped."""

    clip_values: bool = True
    """Clip the change of values by `clip_range` as well."""

    normalise_advantages: bool = True
    """Normalise the advantages of each minibatch to mean 0 and standard deviation 1."""

    target_kl: NonNegativeFloat | None = None
    """Mean KL divergence of an epoch above which further epochs change nothing; none: no limit."""

    vtrace: bool = False
    """Recompute the advantages before each minibatch, with the newest ratios clipped at 1."""

    prio: bool = False
    """Use minibatches of whole environments, sampled by total advantage to the power of 0.8."""

    local_norm: bool = False
    """With several processes, normalise advantages over the minibatch of this process only."""

    continuous: bool = False
    """Use radius, angle and fire, sampled from a normal policy, instead of discrete actions."""

    initial_sigma: PositiveFloat = 1.0
    """Initial standard deviation of the continuous policy, before squashing."""

    value_coef: float = 0.5
    """Factor of the value loss (half the mean squared error)."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if self.continuous and self.full_action_space:
            raise InvalidArgumentError(
                "continuous is True and full_action_space True; continuous actions have no list, "
                "so one of them must be False"
            )


class PPO(ActorCriticAgent):
    """Proximal policy optimisation; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import PPO, PPOConfig
        >>> agent = PPO(PPOConfig(game="pong", num_envs=8, num_steps=16, total_steps=256))
        >>> [progress.steps for progress in agent.train()]
        [128, 256]
    """

    name: ClassVar[str] = "ppo"
    config_class = PPOConfig
    config: PPOConfig
    learn_from: Callable[..., tuple[dict[str, Tensor], Tensor]]

    # --- Set up -----------------------------------------------------------------------------------

    def build(self) -> None:
        """Make network, optimizer and policy."""
        super().build()
        if isinstance(self.network, GaussianActorCritic):
            self.policy = GaussianPolicy(self.network)

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Logits, or with continuous actions means of three numbers, and the value."""
        return (
            {"means": (3,), "values": ()} if self.config.continuous else super().network_outputs()
        )

    def make_network(self) -> nn.Module:
        """Make a policy, discrete or normal, and a value."""
        config = self.config
        if not config.continuous:
            return super().make_network()
        return GaussianActorCritic(
            self.obs_shape,
            initial_sigma=config.initial_sigma,
            torso=config.network,
            initialisation=config.initialisation,
            normalize_obs=config.normalize_obs,
        )

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make Adam."""
        config = self.config
        if config.prio:
            check_minibatches(config.num_minibatches, self.num_envs, "num_envs, with prio")
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.learning_rate, eps=config.adam_eps
        )
        if config.target_kl is not None and self.device.type == "cuda":
            make_capturable(optimizer, self.device)  # undone steps include its state
        return optimizer

    def buffer_options(self) -> TrajectoryOptions:
        """Options of the buffer; with continuous actions those of `GaussianPolicy`."""
        options = super().buffer_options()
        if not self.config.continuous:
            return options
        return dataclasses.replace(
            options,
            action_shape=(3,),
            action_dtype=torch.float32,
            extras=dict(GaussianPolicy.extras),
        )

    # --- Learn ------------------------------------------------------------------------------------

    def update(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config = self.config
        rollout = self.buffer.rollout(with_obs=False)
        old_values = rollout.extras["values"]
        old_log_probs = self.policy.behaviour_log_probs(rollout)
        estimator = VTraceTargets if config.vtrace else GaeTargets
        targets = estimator(rollout, self.next_values(rollout, old_values), config.gae_lambda)
        explained_variance = algos.explained_variance(old_values, targets.returns)
        early_stop = EarlyStop(
            config.target_kl, config.num_minibatches, self.device, can_sync=self.can_sync
        )
        for _ in range(config.num_epochs):
            epoch: dict[str, Tensor] = {}
            for index in self.minibatches(targets):
                samples = [
                    column.flatten(0, 1)[index]
                    for column in (
                        rollout.actions,
                        targets.advantages,
                        targets.returns,
                        old_log_probs,
                        old_values,
                    )
                ]
                metrics, log_ratios = self.learn_from(
                    self.buffer.obs_at(index), *samples, early_stop.has_stopped
                )
                self.updates += 1
                targets.add_ratios(index, log_ratios)
                add_to(epoch, metrics)
            if early_stop.end_epoch(epoch):
                break
        return {
            **early_stop.mean_metrics(),
            "explained_variance": explained_variance,
            "value_mean": old_values.mean(),
        }

    def minibatches(self, targets: GaeTargets) -> Iterable[Tensor]:
        """Minibatches of an epoch: step times N plus environment, int64 ``[B]`` each."""
        count = self.config.num_minibatches
        if self.config.prio:
            # Each is sampled from the advantages at that time.
            return (sample_envs(targets.advantages, count, self.generator) for _ in range(count))
        return self.buffer.minibatches(count).unbind()

    def _learn_from(
        self,
        obs: Tensor,
        actions: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_log_probs: Tensor,
        old_values: Tensor,
        has_stopped: Tensor,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Update from samples ``[B]``; return the metrics and the log-ratios before the update."""
        config = self.config
        with self.autocast():
            output, values = self.forward(obs)
        log_probs, entropy = self.policy.log_probs_and_entropy(output, actions)
        if config.normalise_advantages:
            if config.local_norm:
                mean, std = advantages.mean(), advantages.std()
            else:
                mean, std = global_moments(advantages)
            advantages = algos.normalise(advantages, mean, std)
        surrogate = algos.ppo_policy_loss(log_probs, old_log_probs, advantages, config.clip_range)
        value_loss = 0.5 * algos.value_loss(
            values, returns, old_values, config.clip_range if config.clip_values else None
        )
        loss = surrogate.loss + config.value_coef * value_loss - config.entropy_coef * entropy
        may_skip = config.target_kl is not None and not self.can_sync
        norm = self.learn(loss, has_stopped if may_skip else None)
        metrics = {
            "policy_loss": surrogate.loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": surrogate.approx_kl,
            "clip_fraction": surrogate.clip_fraction,
            "grad_norm": norm,
        }
        return metrics, log_probs.detach() - old_log_probs
