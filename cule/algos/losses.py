"""Losses of policies and values, and their metrics: means over all samples, or over the valid ones.

`valid`, bool ``[B]``, leaves samples out: steps whose action was ignored, with NextStep autoreset.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


class PolicyLoss(NamedTuple):
    """Result of `ppo_policy_loss`; scalars."""

    loss: Tensor
    """The negative clipped surrogate."""

    approx_kl: Tensor
    """Estimate ``mean((ratio - 1) - log ratio)`` of the divergence; no gradient."""

    clip_fraction: Tensor
    """Fraction of samples whose ratio left the clip range; no gradient."""


def mean_of(values: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean of values ``[B]`` or ``[B, K]``, or of the valid samples; 0 if none is."""
    if valid is None:
        return values.mean()
    if values.dim() > valid.dim():
        values = values.mean(-1)
    return torch.where(valid, values, 0.0).sum() / valid.sum().clamp(min=1)


def log_prob(logits: Tensor, actions: Tensor) -> Tensor:
    """Log-probabilities of integer actions ``[...]`` under logits ``[..., A]``."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    chosen = logits.log_softmax(-1).gather(-1, actions.long().unsqueeze(-1))
    return chosen.squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropies of categorical policies in nats: ``[..., A]`` to ``[...]``."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    log_probs = logits.log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)


def normalize(values: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``(values - mean) / (std + 1e-8)``."""
    return (values - mean) / (std + 1e-8)


def ppo_policy_loss(
    log_probs: Tensor,
    behaviour_log_probs: Tensor,
    advantages: Tensor,
    clip_range: Tensor | float,
    valid: Tensor | None = None,
) -> PolicyLoss:
    """Clipped surrogate loss of PPO (Schulman et al. 2017); tensors are ``[B]``.

    Ratios of the current policy to the one that acted are clipped to ``1 - clip_range`` and
    ``1 + clip_range``; `clip_range` is a number, or a scalar on the device.
    """
    log_ratios = log_probs - behaviour_log_probs
    ratios = log_ratios.exp()
    clipped = _clamp(ratios, 1.0 - clip_range, 1.0 + clip_range)
    loss = -mean_of(torch.minimum(ratios * advantages, clipped * advantages), valid)
    with torch.no_grad():
        approx_kl = mean_of((ratios - 1.0) - log_ratios, valid)
        clip_fraction = mean_of(((ratios - 1.0).abs() > clip_range).to(ratios.dtype), valid)
    return PolicyLoss(loss, approx_kl, clip_fraction)


def value_loss(
    values: Tensor,
    returns: Tensor,
    old_values: Tensor | None = None,
    clip_range: Tensor | float | None = None,
    valid: Tensor | None = None,
) -> Tensor:
    """Mean squared error ``(V - R)^2``, or the maximum of it and the clipped error of PPO.

    `clip_range` limits the change of a value since the data were collected with `old_values`.

    Raises:
        InvalidArgumentError: `clip_range` without `old_values`.
    """
    errors = (values - returns).square()
    if clip_range is not None:
        if old_values is None:
            raise InvalidArgumentError("old_values is None; with clip_range it must be a tensor")
        moved = old_values + _clamp(values - old_values, -clip_range, clip_range)
        errors = torch.maximum(errors, (moved - returns).square())
    return mean_of(errors, valid)


def _clamp(values: Tensor, lowest: Tensor | float, highest: Tensor | float) -> Tensor:
    """`torch.clamp`, with limits that are both numbers or both tensors."""
    if isinstance(lowest, Tensor) and isinstance(highest, Tensor):
        return torch.clamp(values, lowest, highest)
    return torch.clamp(values, float(lowest), float(highest))


def huber(errors: Tensor, kappa: float = 1.0) -> Tensor:
    """Huber loss: quadratic (``e^2 / 2``) up to kappa and linear beyond; elementwise."""
    size = errors.abs()
    quadratic = size.clamp(max=kappa)
    return 0.5 * quadratic.square() + kappa * (size - quadratic)


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """``1 - Var(R - V) / Var(R)``: 1 for a perfect critic, 0 for a constant one."""
    variance = returns.var(correction=0)
    return 1.0 - (returns - values).var(correction=0) / variance.clamp(min=1e-12)
