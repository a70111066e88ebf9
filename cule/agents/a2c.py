"""A2C: advantage actor-critic, one update from each T steps of all consoles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress
from cule.agents.on_policy import OnPolicyAgent, PolicyConfig
from cule.agents.options import check_least, check_range
from cule.replay import Rollout


@dataclass(frozen=True, kw_only=True)
class A2CConfig(PolicyConfig):
    """Options of A2C; the defaults are those of the 16-environment baselines."""

    num_envs: int = 16
    """Consoles N of each process."""

    num_steps: int = 5
    """Steps T of a rollout."""

    learning_rate: float = 7e-4
    """Of RMSProp, at the start."""

    anneal_learning_rate: bool = False
    """The learning rate falls linearly to 0 at the end."""

    rmsprop_alpha: float = 0.99
    """Decay of the squared gradients."""

    rmsprop_eps: float = 1e-5
    """Epsilon of RMSProp."""

    gae_lambda: float = 1.0
    """Lambda of the advantages; 1: T-step returns."""

    value_coef: float = 0.25
    """Factor of the mean squared error of the values."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    max_grad_norm: float = 0.5
    """Global norm that gradients are clipped to; 0: not clipped."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "num_steps")
        check_least(self, 0.0, "learning_rate", "rmsprop_eps", "max_grad_norm")
        check_range(self, 0.0, 1.0, "gae_lambda", "rmsprop_alpha")


class A2C(OnPolicyAgent):
    """The learner; see docs/agents/a2c.md.

    Example:
        >>> from cule.agents import A2C, A2CConfig
        >>> agent = A2C(A2CConfig(game="pong", num_envs=8, total_steps=80))
        >>> [progress.steps for progress in agent.train()]
        [40, 80]
    """

    name: ClassVar[str] = "a2c"
    config_class = A2CConfig
    config: A2CConfig
    learn_from: Callable[[Rollout], dict[str, Tensor]]

    def capture(self) -> None:
        """Acting, and an update."""
        super().capture()
        self.learn_from = self.captured(self._learn_from)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """RMSProp."""
        config = self.config
        return torch.optim.RMSprop(
            self.network.parameters(),
            lr=self.learning_rate,
            alpha=config.rmsprop_alpha,
            eps=config.rmsprop_eps,
        )

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is a rollout and its update."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.anneal()
            self.collect(config.num_steps)
            self.metrics = self.update()
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor]:
        """One update from the rollout that the buffer holds."""
        metrics = self.learn_from(self.buffer.rollout())
        self.updates += 1
        return metrics

    def _learn_from(self, window: Rollout) -> dict[str, Tensor]:
        config = self.config
        assert window.obs is not None
        with self.autocast():
            logits, values = self.forward(window.obs.flatten(0, 1))
        shape = window.rewards.shape
        values = values.view(shape)
        constants = values.detach()
        advantages, returns = algos.gae(
            window.rewards,
            window.discounts,
            constants,
            self.next_values(window, constants),
            window.ended,
            config.gae_lambda,
        )
        log_probs = algos.log_prob(logits, window.actions.flatten()).view(shape)
        policy_loss = -(advantages * log_probs).mean()
        value_loss = algos.value_loss(values, returns)
        entropy = algos.entropy(logits).mean()
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        norm = self.learn(loss, config.max_grad_norm)
        return {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": constants.mean(),
            "explained_variance": algos.explained_variance(constants, returns),
            "grad_norm": norm,
        }
