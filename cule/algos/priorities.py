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


def draw_by_size(
    sizes: Tensor, count: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Samples in proportion to their sizes, one from each of `count` parts of the total.

    With their weights they stand for all samples alike (LaBER, Lahire et al. 2022). Sizes are
    rounded to whole parts of the largest, 2**-40, so that sums are exact on every device, and a
    draw can never land on a size of 0.

    Args:
        sizes: At least 0; ``[C]``. What is no finite number counts as the largest there can be.
        count: How many to draw, with replacement.
        generator: On the device of `sizes`.

    Returns:
        Index of each, int64 ``[count]``, and its weight, the mean of all sizes over its own,
        float32 ``[count]``. If all sizes are 0 all are as likely, and all weights are 1.
    """
    limit = torch.finfo(torch.float32).max
    known = sizes.double().nan_to_num(nan=limit, posinf=limit)
    largest = known.amax()
    shares = torch.where(largest > 0, known / largest.clamp(min=1e-300), 1.0)
    units = (shares * 2.0**40).round().to(torch.int64)
    prefix = units.cumsum(0)
    total = prefix[-1]
    strata = torch.arange(count, device=sizes.device)
    draws = torch.rand(count, generator=generator, dtype=torch.float64, device=sizes.device)
    target = ((strata + draws) / count * total).to(torch.int64)
    index = torch.searchsorted(prefix, torch.minimum(target, total - 1), right=True)
    return index, (total / (len(sizes) * units[index])).float()


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
