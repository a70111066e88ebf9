"""Quantiles of returns (Dabney et al. 2018)."""

from __future__ import annotations

from torch import Tensor

from cule.algos.losses import huber


def quantile_huber_loss(
    quantiles: Tensor, fractions: Tensor, targets: Tensor, kappa: float = 1.0
) -> Tensor:
    """Quantile regression with Huber's loss, summed over fractions, averaged over targets; ``[B]``.

    With ``u = target - quantile``, each pair adds ``|fraction - (u < 0)| huber(u, kappa) / kappa``.

    Args:
        quantiles: Estimates at the fractions; ``[B, M]``.
        fractions: In 0..1; ``[B, M]``.
        targets: Samples of the distribution, without gradients; ``[B, K]``.
        kappa: Errors up to this count quadratically; above 0.
    """
    errors = targets.unsqueeze(1) - quantiles.unsqueeze(2)  # [B, M, K]
    weights = (fractions.unsqueeze(2) - (errors.detach() < 0).to(fractions.dtype)).abs()
    return (weights * huber(errors, kappa) / kappa).mean(2).sum(1)
