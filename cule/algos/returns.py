"""Returns, advantages and traces over rollouts: n-step, GAE, V-trace, Q(lambda).

All tensors are ``[T, N]`` unless noted; `cut` is bool. `next_values` is the result of
`shift_values`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError, shown
from cule.kernels import linear_recurrence


class VTraceResult(NamedTuple):
    """Result of `vtrace`; constants for the gradient."""

    targets: Tensor
    """Value targets v."""

    advantages: Tensor
    """Advantages of the policy gradient."""


def clip_rewards(rewards: Tensor, rule: str) -> Tensor:
    """Clip rewards of any shape: "clip" to [-1, 1], "sign", or "none".

    Raises:
        InvalidArgumentError: Another rule.
    """
    if rule == "clip":
        return rewards.clamp(-1.0, 1.0)
    if rule == "sign":
        return rewards.sign()
    if rule == "none":
        return rewards
    raise InvalidArgumentError(f"reward_rule is {shown(rule)}; it must be one of clip, sign, none")


def shift_values(values: Tensor, last_values: Tensor, final_values: Tensor, cut: Tensor) -> Tensor:
    """Values of the observations that follow each step.

    Args:
        values: Values of the observations that were acted on.
        last_values: Values of the observations after the last step; ``[N]``.
        final_values: Values of the final observations of truncated episodes, used where `cut` is
            true. Where an episode terminated the discount is 0, and any finite number will do.
        cut: Whether an episode ended with the step.
    """
    following = torch.cat([values[1:], last_values.unsqueeze(0)])
    return torch.where(cut, final_values, following)


def gae(
    rewards: Tensor,
    discounts: Tensor,
    values: Tensor,
    next_values: Tensor,
    cut: Tensor,
    gae_lambda: float,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates (Schulman et al. 2016).

    ``delta_t = r_t + d_t V'_t - V_t`` and ``A_t = delta_t + d_t lambda (1 - cut_t) A_{t+1}``.

    Lambda 0 gives one-step advantages, 1 returns minus values.

    Returns:
        Advantages and returns (advantages + values).
    """
    deltas = rewards + discounts * next_values - values
    advantages = linear_recurrence(deltas, discounts * gae_lambda * (~cut))
    return advantages, advantages + values


@torch.no_grad()
def vtrace(
    log_ratios: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    values: Tensor,
    next_values: Tensor,
    cut: Tensor,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    trace_lambda: float = 1.0,
) -> VTraceResult:
    """V-trace targets and advantages (Espeholt et al. 2018).

    `log_ratios` are log-probabilities of the taken actions under the current policy minus those
    under the policy that acted. Ratios are clipped to `rho_bar` in the temporal differences and
    advantages, and to `c_bar` in the traces.
    """
    ratios = log_ratios.exp()
    rhos = ratios.clamp(max=rho_bar)
    traces = discounts * trace_lambda * ratios.clamp(max=c_bar) * (~cut)
    deltas = rhos * (rewards + discounts * next_values - values)
    corrections = linear_recurrence(deltas, traces)  # v_t - V(x_t)
    targets = values + corrections
    # v_{t+1}: of the next row, of the bootstrap row (no correction), or V(x_final) at a cut.
    shifted = torch.cat([corrections[1:], torch.zeros_like(corrections[:1])])
    next_targets = next_values + torch.where(cut, torch.zeros_like(shifted), shifted)
    advantages = rhos * (rewards + discounts * next_targets - values)
    return VTraceResult(targets, advantages)


def n_step_returns(
    rewards: Tensor, discounts: Tensor, n_step: int, cut: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of up to n rewards, which stop at a `cut`, and the discounts of their bootstrap values.

    Returns:
        ``G`` and ``P`` ``[T - n + 1, N]``, with ``target = G + P * bootstrap``, and the number of
        steps that each spans, int64 of the same shape.

    Raises:
        InvalidArgumentError: `n_step` is below 1 or above T.
    """
    rows = len(rewards)
    if not 1 <= n_step <= rows:
        raise InvalidArgumentError(f"n_step is {n_step}; it must be from 1 to {rows}, the rows")
    count = rows - n_step + 1
    sums = torch.zeros_like(rewards[:count])
    products = torch.ones_like(sums)
    is_open = torch.ones_like(sums, dtype=torch.bool)
    steps = torch.zeros_like(sums, dtype=torch.int64)
    for k in range(n_step):
        sums = torch.where(is_open, sums + products * rewards[k : k + count], sums)
        products = torch.where(is_open, products * discounts[k : k + count], products)
        steps = steps + is_open.long()
        if cut is not None:
            is_open = is_open & ~cut[k : k + count]
    return sums, products, steps


def q_lambda_returns(
    rewards: Tensor, discounts: Tensor, next_max_q: Tensor, cut: Tensor, q_lambda: float
) -> Tensor:
    """Lambda-returns of greedy action values (Gallici et al. 2024).

    ``G_t = r_t + d_t (lambda G_{t+1} + (1 - lambda) max_a Q(x_{t+1}, a))``; in the last row and at
    a cut the bracket is the maximum alone. `next_max_q` holds the largest action values of the next
    observations, from `shift_values`.
    """
    ends = cut.clone()
    ends[-1:] = True
    bootstrap = torch.where(ends, next_max_q, (1.0 - q_lambda) * next_max_q)
    return linear_recurrence(rewards + discounts * bootstrap, discounts * q_lambda * (~ends))


def q_targets(
    n_step_rewards: Tensor,
    n_step_discounts: Tensor,
    next_q: Tensor,
    next_q_online: Tensor | None = None,
) -> Tensor:
    """Targets ``G + P max_a Q(s', a)`` ``[B]`` of Q-learning, from n-step sums and ``[B, A]``.

    The values of the online network, if given, choose the action ``a``: double Q-learning (van
    Hasselt et al. 2016).
    """
    chosen = (next_q if next_q_online is None else next_q_online).argmax(-1, keepdim=True)
    return n_step_rewards + n_step_discounts * next_q.gather(-1, chosen).squeeze(-1)
