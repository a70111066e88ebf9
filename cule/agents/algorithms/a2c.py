"""A2C: advantage actor-critic, one update from each T steps of all environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from cule import algos
from cule.agents.algorithms.on_policy import AdvantageAgent, RMSpropConfig
from cule.agents.training.options import Fraction, NonNegativeFloat, Positive
from cule.replay import Rollout


@dataclass(frozen=True, kw_only=True)
class A2CConfig(RMSpropConfig):
    """Options of A2C; the defaults are those of RL Baselines3 Zoo, after OpenAI Baselines."""

    num_envs: Positive = 16
    episodic_life: bool = True
    fire_after_life_loss: bool = True
    num_steps: Positive = 5
    learning_rate: NonNegativeFloat = 7e-4

    gae_lambda: Fraction = 1.0
    """Lambda of the advantages; 1: T-step returns."""

    value_coef: float = 0.25
    """Factor of the mean squared error of the values."""


class A2C(AdvantageAgent):
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

    def estimate(
        self, rollout: Rollout, values: Tensor, log_probs: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Advantages and T-step or lambda-returns."""
        advantages, returns = algos.gae(
            rollout.rewards,
            rollout.discounts,
            values,
            self.next_values(rollout, values),
            rollout.ended,
            self.config.gae_lambda,
        )
        return advantages, returns, {}
