"""PPO: proximal policy optimisation with clipped ratios (Schulman et al. 2017).

`RolloutAgent.round` collects T steps of N environments and calls `update`, which estimates
advantages and runs several epochs over shuffled minibatches. Options and variants are in files of
their own: options in `ppo_config`, continuous actions in `policies`, the target KL in
`early_stopping`, learning rates in `schedules`, normalised values in `value_scale`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.early_stopping import EarlyStop, add_to
from cule.agents.algorithms.on_policy import ActorCriticAgent, check_minibatches
from cule.agents.algorithms.policies import GaussianPolicy
from cule.agents.algorithms.ppo_config import PPOConfig
from cule.agents.algorithms.schedules import adapt_learning_rate
from cule.agents.training.checkpoint import Metrics
from cule.agents.training.distributed import global_moments, local_moments
from cule.agents.training.graphs import make_capturable
from cule.nets import GaussianActorCritic
from cule.replay import TrajectoryOptions


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

    # --- Set up -----------------------------------------------------------------------------------

    def build(self) -> None:
        """Make network, optimizer, policy and scheduled numbers."""
        super().build()
        self.clip_range = torch.tensor(self.config.clip_range, device=self.device)
        if self.config.continuous:
            self.policy = GaussianPolicy(self.network)

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Logits, or with continuous actions means of three numbers, and the value."""
        outputs = super().network_outputs()
        return {"means": (3,), "values": ()} if self.config.continuous else outputs

    def make_network(self) -> nn.Module:
        """Make a policy, discrete or normal, and a value."""
        if not (config := self.config).continuous:
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
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.learning_rate, eps=config.adam_eps
        )
        reads_kl = config.target_kl is not None or config.adaptive_kl is not None
        if reads_kl and self.device.type == "cuda":
            make_capturable(optimizer, self.device)  # state and rate change there
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

    def anneal(self) -> None:
        """Set the scheduled numbers of the next round."""
        super().anneal()
        config = self.config
        if config.clip_range_end is not None:
            self.clip_range.fill_(self.scheduled(config.clip_range, config.clip_range_end))

    def updates_of(self, metrics: Metrics) -> int:
        """One for each minibatch of each epoch that was not left out."""
        config = self.config
        stops = config.target_kl is not None and self.can_sync
        epochs = int(metrics["epochs"]) if stops else config.num_epochs
        return epochs * config.num_minibatches

    def _learn_once(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, rollout = self.config, self.buffer.rollout(with_obs=False)
        old_values = rollout.extras["values"]
        old_log_probs = self.policy.behaviour_log_probs(rollout)
        advantages, returns = algos.gae(
            rollout.rewards,
            rollout.discounts,
            old_values,
            self.next_values(rollout, old_values),
            rollout.ended,
            config.gae_lambda,
        )
        columns = (rollout.actions, advantages, returns, old_log_probs, old_values, rollout.valid)
        flat = [column.flatten(0, 1) for column in columns]
        early_stop = EarlyStop(
            config.target_kl, config.num_minibatches, self.device, can_sync=self.can_sync
        )
        for _ in range(config.num_epochs):
            epoch: dict[str, Tensor] = {}
            for index in self.buffer.minibatches(config.num_minibatches).unbind():
                samples = [*(column[index] for column in flat), early_stop.has_stopped]
                add_to(epoch, self._learn_from(self.buffer.obs_at(index), *samples))
            if early_stop.end_epoch(epoch):
                break
        metrics = early_stop.mean_metrics()
        if config.adaptive_kl is not None:
            adapt_learning_rate(self.optimizer, metrics["approx_kl"], config.adaptive_kl)
        if config.normalise_values:
            head = getattr(self.network, "value", None)
            moments = global_moments(returns, self.only_valid(rollout.valid))
            self.value_scale.update(*moments, head)
        return {
            **metrics,
            "explained_variance": algos.explained_variance(old_values, returns),
            "value_mean": old_values.mean(),
        }

    def _learn_from(
        self,
        obs: Tensor,
        actions: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_log_probs: Tensor,
        old_values: Tensor,
        valid: Tensor,
        has_stopped: Tensor,
    ) -> dict[str, Tensor]:
        """Update from samples ``[B]``; return the metrics."""
        config, used = self.config, self.only_valid(valid)
        with self.autocast():
            output, values = self.forward(obs)  # values in the units of value_scale
        log_probs, entropies = self.policy.log_probs_and_entropies(output, actions)
        entropy = algos.mean_of(entropies, used)
        if config.normalise_advantages:
            moments = local_moments if config.local_norm else global_moments
            advantages = algos.normalise(advantages, *moments(advantages, used))
        surrogate = algos.ppo_policy_loss(
            log_probs, old_log_probs, advantages, self.clip_range, used
        )
        value_loss = 0.5 * algos.value_loss(
            values,
            self.value_scale.outputs(returns),
            self.value_scale.outputs(old_values),
            self.clip_range if config.clip_values else None,
            used,
        )
        loss = surrogate.loss + config.value_coef * value_loss - self.entropy_coef * entropy
        may_skip = config.target_kl is not None and not self.can_sync
        norm = self.learn(loss, has_stopped if may_skip else None)
        return {
            "policy_loss": surrogate.loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": surrogate.approx_kl,
            "clip_fraction": surrogate.clip_fraction,
            "grad_norm": norm,
        }
