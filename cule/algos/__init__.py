"""Losses, returns and targets as pure functions of tensors.

In: rewards, discounts, values, log-probabilities, as float tensors; rollouts are time-major
``[T, N]``. Out: advantages, returns, targets, losses, priorities. No function keeps state or reads
a number back to the host.

``discounts`` are ``gamma * (1 - terminated)``: 0 where nothing follows. ``cut`` is true where an
episode ended, by termination or a time limit: traces stop. ``next_values`` are the values of the
observations that follow each step; at a time limit that is the final observation of the old episode
and not the first of the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cule.lazy import lazy_names, needs

with needs("cule[train]"):
    from cule.algos.losses import (
        entropy,
        explained_variance,
        huber,
        log_prob,
        mean_of,
        normalize,
        ppo_policy_loss,
        value_loss,
    )
from cule.algos.priorities import (
    epsilon_ladder,
    linear_schedule,
    priorities_from_errors,
    sigma_ladder,
)
from cule.algos.returns import (
    clip_rewards,
    gae,
    n_step_returns,
    q_lambda_returns,
    q_targets,
    shift_values,
    vtrace,
)
from cule.algos.sampling import epsilon_greedy, sample_categorical

if TYPE_CHECKING:
    from cule.algos.categorical import (
        atoms,
        categorical_loss,
        expected_values,
        project_distribution,
    )
    from cule.algos.continuous import (
        action_gradient_loss,
        clip_to_disc,
        disc_from_polar,
        disc_from_raw,
        gaussian_entropy,
        gaussian_log_prob,
        noise_log_prob,
        polar_from_disc,
        polar_from_raw,
        random_disc_actions,
    )
    from cule.algos.quantiles import munchausen_targets, quantile_huber_loss

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "categorical": ("atoms", "categorical_loss", "expected_values", "project_distribution"),
        "continuous": (
            *("action_gradient_loss", "clip_to_disc", "disc_from_polar", "disc_from_raw"),
            *("gaussian_entropy", "gaussian_log_prob", "noise_log_prob", "polar_from_disc"),
            *("polar_from_raw", "random_disc_actions"),
        ),
        "quantiles": ("munchausen_targets", "quantile_huber_loss"),
    },
)

__all__ = [
    "action_gradient_loss",
    "atoms",
    "categorical_loss",
    "clip_rewards",
    "clip_to_disc",
    "disc_from_polar",
    "disc_from_raw",
    "entropy",
    "epsilon_greedy",
    "epsilon_ladder",
    "expected_values",
    "explained_variance",
    "gae",
    "gaussian_entropy",
    "gaussian_log_prob",
    "huber",
    "linear_schedule",
    "log_prob",
    "mean_of",
    "munchausen_targets",
    "n_step_returns",
    "noise_log_prob",
    "normalize",
    "polar_from_disc",
    "polar_from_raw",
    "ppo_policy_loss",
    "priorities_from_errors",
    "project_distribution",
    "q_lambda_returns",
    "q_targets",
    "quantile_huber_loss",
    "random_disc_actions",
    "sample_categorical",
    "shift_values",
    "sigma_ladder",
    "value_loss",
    "vtrace",
]
