"""Distributions of returns over fixed atoms: C51 (Bellemare et al. 2017). K atoms."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


def atoms(v_min: float, v_max: float, count: int, device: torch.device | None = None) -> Tensor:
    """`count` evenly spaced returns from `v_min` to `v_max`; float32 ``[K]``.

    Raises:
        InvalidArgumentError: Fewer than two atoms, or an empty range.
    """
    if count < 2:
        raise InvalidArgumentError(f"num_atoms is {count}; it must be at least 2")
    if not v_min < v_max:
        raise InvalidArgumentError(f"v_min is {v_min}; it must be below v_max, {v_max}")
    return torch.linspace(v_min, v_max, count, device=device)


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Action values ``[..., A]`` of logits ``[..., A, K]`` and support ``[K]``."""
    return (logits.softmax(-1) * support).sum(-1)


def project_distribution(
    next_probs: Tensor, n_step_rewards: Tensor, n_step_discounts: Tensor, support: Tensor
) -> Tensor:
    """Project the distribution of ``G + P z`` onto the fixed support.

    Each shifted atom gives its mass to its two neighbours in proportion to their distance: a
    triangular kernel, which needs neither rounding nor scatter. `next_probs` are ``[B, K]``, G and
    P ``[B]``; the sum of each row of the result ``[B, K]`` is that of `next_probs`.
    """
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    moved = n_step_rewards.unsqueeze(-1) + n_step_discounts.unsqueeze(-1) * support  # [B, K]
    moved = torch.minimum(torch.maximum(moved, support[0]), support[-1])
    distance = (moved.unsqueeze(-2) - support.unsqueeze(-1)).abs() / spacing  # [B, K to, K from]
    return ((1.0 - distance).clamp(0.0, 1.0) * next_probs.unsqueeze(-2)).sum(-1)


def categorical_loss(logits: Tensor, target_probs: Tensor) -> Tensor:
    """Cross-entropies ``-sum m log p`` ``[B]`` of logits and targets ``[B, K]``."""
    return -(target_probs * logits.log_softmax(-1)).sum(-1)
