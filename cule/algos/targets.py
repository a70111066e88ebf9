"""One-value targets of Q-learning from n-step sums."""

from __future__ import annotations

from torch import Tensor


def q_targets(n_step_rewards: Tensor, n_step_discounts: Tensor, next_q: Tensor) -> Tensor:
    """``G + P max_a Q(s', a)`` with the target network's values.

    Args:
        n_step_rewards: G; ``[B]``.
        n_step_discounts: P; ``[B]``.
        next_q: Of the target network; ``[B, A]``.

    Returns:
        ``[B]``.
    """
    return n_step_rewards + n_step_discounts * next_q.amax(-1)


def double_q_targets(
    n_step_rewards: Tensor, n_step_discounts: Tensor, next_q: Tensor, next_q_online: Tensor
) -> Tensor:
    """``G + P Q(s', argmax_a Q_online(s', a))`` (van Hasselt et al. 2016).

    Args:
        n_step_rewards: G; ``[B]``.
        n_step_discounts: P; ``[B]``.
        next_q: Of the target network; ``[B, A]``.
        next_q_online: Of the network that learns; it chooses the action; ``[B, A]``.

    Returns:
        ``[B]``.
    """
    chosen = next_q_online.argmax(-1, keepdim=True)
    return n_step_rewards + n_step_discounts * next_q.gather(-1, chosen).squeeze(-1)
