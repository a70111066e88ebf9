"""Quantiles of returns (Dabney et al. 2018), and their targets (Vieillard et al. 2020)."""

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


def munchausen_targets(
    returns: Tensor,
    discounts: Tensor,
    values: Tensor,
    actions: Tensor,
    next_quantiles: Tensor,
    *,
    alpha: float,
    temperature: float,
    lowest: float,
) -> Tensor:
    """Targets of Munchausen IQN: the policy is the softmax of ``values / temperature``.

    ``alpha`` of the scaled log-probability of the taken action is added to the return, and the
    entropy of the policy to what follows it.

    Args:
        returns: Discounted rewards of n steps; ``[B]``.
        discounts: Factors of what follows them, 0 after an episode; ``[B]``.
        values: Values of the target network before the n steps; ``[B, A]``.
        actions: The actions taken then; ``[B]``.
        next_quantiles: Quantiles of the target network after the n steps; ``[B, K, A]``.
        alpha: Share of the log-probability in 0..1.
        temperature: Above 0.
        lowest: The scaled log-probability is not lower than this; at most 0.

    Returns:
        ``[B, K]``.
    """
    taken = (values / temperature).log_softmax(-1).gather(1, actions.long().unsqueeze(1))
    rewards = returns.unsqueeze(1) + alpha * (temperature * taken).clamp(lowest, 0.0)
    log_policy = (next_quantiles.mean(1, keepdim=True) / temperature).log_softmax(-1)
    soft = (log_policy.exp() * (next_quantiles - temperature * log_policy)).sum(-1)
    return rewards + discounts.unsqueeze(1) * soft
