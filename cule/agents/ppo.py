"""PPO: proximal policy optimisation with clipped ratios (Schulman et al. 2017).

Collect T steps of N consoles, estimate advantages, then several epochs over shuffled minibatches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress
from cule.agents.distributed import global_moments
from cule.agents.on_policy import OnPolicyAgent, PolicyConfig, check_minibatches
from cule.agents.options import check_least, check_range
from cule.replay import Window


@dataclass(frozen=True, kw_only=True)
class PPOConfig(PolicyConfig):
    """Options of PPO; the defaults are those of public reference scripts."""

    num_steps: int = 128
    """Steps T of a rollout."""

    num_epochs: int = 4
    """Passes over each rollout."""

    num_minibatches: int = 4
    """Parts that a pass is cut into; an update of the optimiser each."""

    learning_rate: float = 2.5e-4
    """Of Adam, at the start."""

    anneal_learning_rate: bool = True
    """The learning rate falls linearly to 0 at the end."""

    adam_eps: float = 1e-5
    """Epsilon of Adam."""

    gae_lambda: float = 0.95
    """Lambda of the advantages."""

    clip_range: float = 0.1
    """How far a ratio may move from 1 before its gradient is cut."""

    clip_values: bool = True
    """Clip the change of values as well, by the same range."""

    value_coef: float = 0.5
    """Factor of the value loss (half the mean squared error)."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    max_grad_norm: float = 0.5
    """Global norm that gradients are clipped to."""

    normalise_advantages: bool = True
    """Advantages of each minibatch get mean 0 and deviation 1."""

    local_norm: bool = False
    """With several processes: normalise over this process's minibatch alone."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "num_steps", "num_epochs", "num_minibatches")
        check_least(self, 0.0, "learning_rate", "adam_eps", "clip_range", "max_grad_norm")
        check_range(self, 0.0, 1.0, "gae_lambda")


class PPO(OnPolicyAgent):
    """The learner; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import PPO, PPOConfig
        >>> agent = PPO(PPOConfig(game="pong", num_envs=8, num_steps=16, total_steps=256))
        >>> [progress.steps for progress in agent.train()]
        [128, 256]
    """

    name: ClassVar[str] = "ppo"
    config_class = PPOConfig
    config: PPOConfig
    learn_from: Callable[..., dict[str, Tensor]]

    def capture(self) -> None:
        """Acting, and an update from a minibatch."""
        super().capture()
        self.learn_from = self.captured(self._learn_from)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Adam."""
        config = self.config
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        return torch.optim.Adam(
            self.network.parameters(), lr=config.learning_rate, eps=config.adam_eps
        )

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is a rollout and its epochs."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.anneal()
            self.collect(config.num_steps)
            self.metrics = self.update()
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor]:
        """All epochs over the rollout that the buffer holds; the mean metrics of its updates."""
        config = self.config
        rollout = self.buffer.window(with_obs=False)
        old_values = rollout.extras["values"]
        advantages, returns = algos.gae(
            rollout.rewards,
            rollout.discounts,
            old_values,
            self.next_values(rollout, old_values),
            rollout.ended,
            config.gae_lambda,
        )
        sums: dict[str, Tensor] = {}
        for _ in range(config.num_epochs):
            for index in self.buffer.minibatches(config.num_minibatches):
                metrics = self._minibatch(rollout, advantages, returns, index)
                for name, value in metrics.items():
                    sums[name] = sums[name] + value if name in sums else value
        count = config.num_epochs * config.num_minibatches
        result = {name: value / count for name, value in sums.items()}
        result["explained_variance"] = algos.explained_variance(old_values, returns)
        result["value_mean"] = old_values.mean()
        return result

    def _minibatch(
        self, rollout: Window, advantages: Tensor, returns: Tensor, index: Tensor
    ) -> dict[str, Tensor]:
        """One update from samples of a rollout: step times N plus console, int64 ``[B]``."""
        extras = rollout.extras
        columns = (rollout.actions, advantages, returns, extras["log_probs"], extras["values"])
        samples = [column.flatten()[index] for column in columns]
        metrics = self.learn_from(self.buffer.obs_at(index), *samples)
        self.updates += 1
        return metrics

    def _learn_from(
        self,
        obs: Tensor,
        actions: Tensor,
        advantage: Tensor,
        returns: Tensor,
        old_log_probs: Tensor,
        old_values: Tensor,
    ) -> dict[str, Tensor]:
        """One update from samples ``[B]``."""
        config = self.config
        with self.autocast():
            logits, values = self.forward(obs)
        log_probs = algos.log_prob(logits, actions)
        if config.normalise_advantages:
            if config.local_norm:
                mean, std = advantage.mean(), advantage.std()
            else:
                mean, std = global_moments(advantage)
            advantage = algos.normalise(advantage, mean, std)
        policy = algos.ppo_policy_loss(log_probs, old_log_probs, advantage, config.clip_range)
        value_loss = 0.5 * algos.value_loss(
            values, returns, old_values, config.clip_range if config.clip_values else None
        )
        entropy = algos.entropy(logits).mean()
        loss = policy.loss + config.value_coef * value_loss - config.entropy_coef * entropy
        norm = self.learn(loss, config.max_grad_norm)
        return {
            "policy_loss": policy.loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": policy.approx_kl,
            "clip_fraction": policy.clip_fraction,
            "grad_norm": norm,
        }
