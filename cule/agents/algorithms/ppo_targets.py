"""Advantages and returns of a PPO rollout, and minibatches that depend on them."""

from __future__ import annotations

import torch
from torch import Tensor

from cule import algos
from cule.replay import Rollout

#: Exponent of the total advantage of an environment in `sample_envs`.
PRIORITY_EXPONENT = 0.8


class GaeTargets:
    """Generalised advantage estimates of the policy that acted.

    Attributes:
        advantages: ``[T, N]``.
        returns: ``[T, N]``.
    """

    def __init__(self, rollout: Rollout, next_values: Tensor, gae_lambda: float) -> None:
        """Compute advantages and returns."""
        self._rollout, self._next_values, self._lambda = rollout, next_values, gae_lambda
        self.advantages, self.returns = self._compute()

    def _compute(self) -> tuple[Tensor, Tensor]:
        rollout = self._rollout
        return algos.gae(
            rollout.rewards,
            rollout.discounts,
            rollout.extras["values"],
            self._next_values,
            rollout.ended,
            self._lambda,
        )

    def add_ratios(self, index: Tensor, log_ratios: Tensor) -> None:
        """Take the log-ratios ``[B]`` of a minibatch into account; these targets are constant."""


class VTraceTargets(GaeTargets):
    """V-trace advantages, recomputed after each minibatch with its ratios, which are clipped at 1.

    The ratio of a sample is that of the newest policy that was evaluated on it.
    """

    def __init__(self, rollout: Rollout, next_values: Tensor, gae_lambda: float) -> None:
        """Compute advantages and returns for the policy that acted."""
        self._log_ratios = torch.zeros_like(rollout.rewards)
        super().__init__(rollout, next_values, gae_lambda)

    def _compute(self) -> tuple[Tensor, Tensor]:
        rollout, values = self._rollout, self._rollout.extras["values"]
        targets = algos.vtrace(
            self._log_ratios,
            rollout.rewards,
            rollout.discounts,
            values,
            self._next_values,
            rollout.ended,
            trace_lambda=self._lambda,
        ).targets
        return targets - values, targets

    def add_ratios(self, index: Tensor, log_ratios: Tensor) -> None:
        """Recompute the targets with the log-ratios ``[B]`` of a minibatch."""
        self._log_ratios.view(-1)[index] = log_ratios
        self.advantages, self.returns = self._compute()


def sample_envs(advantages: Tensor, num_minibatches: int, generator: torch.Generator) -> Tensor:
    """Sample whole environments in proportion to their total absolute advantages to the power 0.8.

    The total is divided into equal strata, one for each of the ``N / num_minibatches`` samples.
    Returns step times N plus environment, int64 ``[B]``.
    """
    num_steps, n = advantages.shape
    # Advantages that are not finite: any choice will do, since the loss will not be finite either.
    sizes = advantages.abs().sum(0).nan_to_num(0.0, posinf=1e30).clamp(1e-6, 1e30)
    envs, _ = algos.sample_by_size(sizes**PRIORITY_EXPONENT, n // num_minibatches, generator)
    steps = torch.arange(num_steps, device=advantages.device)
    return (steps[:, None] * n + envs).flatten()
