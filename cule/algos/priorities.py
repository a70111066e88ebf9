"""Priorities, importance weights, and exploration that differs between environments."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


def priorities_from_errors(errors: Tensor, floor: float = 1e-6) -> Tensor:
    """``|error| + floor``; any shape."""
    return errors.abs() + floor


def epsilon_ladder(num_envs: int, base: float = 0.4, exponent: float = 7.0) -> Tensor:
    """Constant epsilon of each environment; float32 ``[N]`` (Horgan et al. 2018).

    ``epsilon_i = base ^ (1 + exponent * i / (N - 1))``.

    Raises:
        InvalidArgumentError: Fewer than two environments.
    """
    if num_envs < 2:
        raise InvalidArgumentError(
            f"num_envs is {num_envs}; with a ladder of epsilons it must be at least 2"
        )
    index = torch.arange(num_envs, dtype=torch.float64)
    return (base ** (1.0 + exponent * index / (num_envs - 1))).float()


def sigma_ladder(num_envs: int, low: float, high: float) -> Tensor:
    """Standard deviations from `low` to `high`, evenly spaced in their logarithm; ``[N]``."""
    index = torch.arange(num_envs, dtype=torch.float64)
    return (low * (high / low) ** (index / max(num_envs - 1, 1))).float()


def linear_schedule(start: float, end: float, position: float) -> float:
    """Interpolate from `start` at position 0 to `end` at position 1; constant outside."""
    return start + (end - start) * min(max(position, 0.0), 1.0)
