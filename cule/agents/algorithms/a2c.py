"""A2C: advantage actor-critic, one update from each T steps of all environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.agent import Progress
from cule.agents.algorithms.on_policy import ActorCriticAgent, RMSpropConfig, make_rmsprop
from cule.agents.training.options import Fraction, NonNegativeFloat, Positive
from cule.replay import Rollout


@dataclass(frozen=True, kw_only=True)
class A2CConfig(RMSpropConfig):
    """Options of A2C; the defaults are those of the 16-environment baselines."""

    num_envs: Positive = 16
    num_steps: Positive = 5
    learning_rate: NonNegativeFloat = 7e-4

    gae_lambda: Fraction = 1.0
    """Lambda of the advantages; 1: T-step returns."""

    value_coef: float = 0.25
    """Factor of the mean squared error of the values."""


class A2C(ActorCriticAgent):
    """Advantage actor-critic; see docs/agents/a2c.md.

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

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make RMSProp."""
        return make_rmsprop(self, self.config)

    def capture(self) -> None:
        """Capture acting and the update."""
        super().capture()
        self.learn_from = self.captured(self._learn_from)

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train as `Agent.train`; a round is a rollout and its update."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.anneal()
            self.collect(config.num_steps)
            self.metrics = self.update()
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor]:
        """Update once from the rollout in the buffer; return its metrics."""
        metrics = self.learn_from(self.buffer.rollout())
        self.updates += 1
        return metrics

    def _learn_from(self, rollout: Rollout) -> dict[str, Tensor]:
        assert rollout.obs is not None
        with self.autocast():
            logits, values = self.forward(rollout.obs.flatten(0, 1))
        shape = rollout.rewards.shape
        values = values.view(shape)
        constants = values.detach()
        advantages, returns = algos.gae(
            rollout.rewards,
            rollout.discounts,
            constants,
            self.next_values(rollout, constants),
            rollout.ended,
            self.config.gae_lambda,
        )
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(shape)
        return self.learn_actor_critic(logits, log_probs, values, advantages, returns)
