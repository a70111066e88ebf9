"""Priorities, importance weights, and exploration that differs between environments."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


def priorities_from_errors(errors: Tensor, floor: float = 1e-6) -> Tensor:
    """``|error| + floor``; any shape."""
    return errors.abs() + floor


def sample_by_size(
    sizes: Tensor, count: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Sample in proportion to sizes, once from each of `count` equal strata of the total.

    The weights make means over the samples unbiased (LaBER, Lahire et al. 2022). Sizes are rounded
    to multiples of 2**-40 of the largest, so that sums are exact on every device and a size of 0 is
    never sampled.

    Args:
        sizes: Non-negative; ``[C]``. Values that are not finite count as the largest float32.
        count: Number of samples, with replacement.
        generator: On the device of `sizes`.

    Returns:
        Indices, int64 ``[count]``, and weights, the mean of all sizes over the size of the sample,
        float32 ``[count]``. If all sizes are 0, sampling is uniform and all weights are 1.
    """
    limit = torch.finfo(torch.float32).max
    known = sizes.double().nan_to_num(nan=limit, posinf=limit)
    largest = known.amax()
    shares = torch.where(largest > 0, known / largest.clamp(min=1e-300), 1.0)
    units = (shares * 2.0**40).round().to(torch.int64)
    prefix = units.cumsum(0)
    total = prefix[-1]
    strata = torch.arange(count, device=sizes.device)
    uniform = torch.rand(count, generator=generator, dtype=torch.float64, device=sizes.device)
    target = ((strata + uniform) / count * total).to(torch.int64)
    index = torch.searchsorted(prefix, torch.minimum(target, total - 1), right=True)
    return index, (total / (len(sizes) * units[index])).float()


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
