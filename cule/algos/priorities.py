"""Priorities, importance weights, and exploration that differs from console to console."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


def priorities_from_errors(errors: Tensor, floor: float = 1e-6) -> Tensor:
    """``|error| + floor``; any shape."""
    return errors.abs() + floor


def importance_weights(
    probabilities: Tensor, num_valid: int | Tensor, beta: float | Tensor
) -> Tensor:
    """Weights of samples drawn with these probabilities (Schaul et al. 2016).

    Args:
        probabilities: With which each sample was drawn; ``[B]``, above zero.
        num_valid: Number of transitions that could have been drawn.
        beta: 0 no correction, 1 full correction.

    Returns:
        ``(V P)^-beta`` over the largest of the batch; ``[B]``.
    """
    weights = (probabilities * num_valid).pow(-beta)
    return weights / weights.amax()


def epsilon_ladder(
    num_total: int, base: float = 0.4, exponent: float = 7.0, *, first: int = 0, count: int = -1
) -> Tensor:
    """Exploration of each console, constant during training (Horgan et al. 2018).

    ``epsilon_i = base ^ (1 + exponent * i / (num_total - 1))``.

    Args:
        num_total: Consoles over all processes.
        base: epsilon of console 0.
        exponent: alpha of the paper.
        first: Global index of the first console asked for.
        count: How many consoles; -1: the rest.

    Returns:
        float32 ``[count]``.

    Raises:
        InvalidArgumentError: Fewer than two consoles, which have no ladder.
    """
    if num_total < 2:
        raise InvalidArgumentError(
            f"num_envs is {num_total}; a ladder of epsilons needs at least 2 (use a schedule)"
        )
    last = num_total if count < 0 else first + count
    index = torch.arange(first, last, dtype=torch.float64)
    return (base ** (1.0 + exponent * index / (num_total - 1))).float()


def sigma_ladder(
    num_total: int, low: float, high: float, *, first: int = 0, count: int = -1
) -> Tensor:
    """Standard deviations from `low` to `high`, evenly spaced in their logarithm; ``[count]``."""
    last = num_total if count < 0 else first + count
    index = torch.arange(first, last, dtype=torch.float64)
    return (low * (high / low) ** (index / max(num_total - 1, 1))).float()


def linear_schedule(start: float, end: float, position: float) -> float:
    """From `start` at position 0 to `end` at position 1; constant outside."""
    return start + (end - start) * min(max(position, 0.0), 1.0)
