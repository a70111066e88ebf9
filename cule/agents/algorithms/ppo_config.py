"""Options of PPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cule.agents.algorithms.on_policy import ActorCriticConfig
from cule.agents.training.options import Epochs, Fraction, NonNegativeFloat, Positive, PositiveFloat
from cule.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Options of PPO; the defaults are those of CleanRL's ppo_atari.py."""

    num_envs: Positive = 8
    episodic_life: bool = True
    fire_after_life_loss: bool = True

    learning_rate_schedule: Literal["constant", "linear"] = "linear"

    adaptive_kl: PositiveFloat | None = None
    """Mean KL divergence of the updates of a rollout to which the learning rate adapts, in place of
    its schedule: it is multiplied by 1.5 after a rollout below half of it, and divided by 1.5 above
    twice. None: the learning rate has its schedule."""

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

    clip_range_end: NonNegativeFloat | None = None
    """Clip range at `total_steps`, towards which it changes linearly; none: it is constant."""

    clip_values: bool = True
    """Clip the change of values by the clip range as well, in units of the value loss."""

    normalise_values: bool = False
    """Learn values in units of the running standard deviation of returns, for games with large
    rewards that are not clipped."""

    normalise_advantages: bool = True
    """Normalise the advantages of each minibatch to mean 0 and standard deviation 1."""

    target_kl: NonNegativeFloat | None = None
    """Mean KL divergence of an epoch above which further epochs change nothing; none: no limit."""

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
        if self.adaptive_kl is not None:
            object.__setattr__(self, "learning_rate_schedule", "constant")
        if self.continuous and self.full_action_space:
            raise InvalidArgumentError(
                "continuous is True and full_action_space True; continuous actions have no list, "
                "so one of them must be False"
            )
