"""Returns, advantages and traces over rollouts ``[T, N]``: n-step, GAE, V-trace, Q(lambda)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cule.errors import InvalidArgumentError


class VTraceResult(NamedTuple):
    """What `vtrace` returns; constants for the gradient."""

    targets: Tensor
    """Value targets v; ``[T, N]``."""

    advantages: Tensor
    """Advantages of the policy gradient; ``[T, N]``."""


def clip_rewards(rewards: Tensor, rule: str) -> Tensor:
    """Rewards as they are learned from.

    Args:
        rewards: Unclipped; any shape.
        rule: "clip" to [-1, 1], "sign", or "none".

    Raises:
        InvalidArgumentError: Another rule.
    """
    if rule == "clip":
        return rewards.clamp(-1.0, 1.0)
    if rule == "sign":
        return rewards.sign()
    if rule == "none":
        return rewards
    raise InvalidArgumentError(f"reward_rule is {rule!r}; allowed: 'clip', 'sign', 'none'")


def shift_values(values: Tensor, last_values: Tensor, final_values: Tensor, cut: Tensor) -> Tensor:
    """Values of what followed each step.

    Args:
        values: Of the states that were acted on; ``[T, N]``.
        last_values: Of the state after the last step; ``[N]``.
        final_values: Of the final observation of each episode that a time limit ended; ``[T, N]``,
            read where `cut` is true. Where the episode really ended the discount is zero, and any
            finite number will do.
        cut: An episode ended with this step; bool ``[T, N]``.

    Returns:
        ``[T, N]``.
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

    Args:
        rewards: ``[T, N]``.
        discounts: ``[T, N]``.
        values: ``[T, N]``.
        next_values: As `shift_values` gives them; ``[T, N]``.
        cut: bool ``[T, N]``.
        gae_lambda: 0 is one-step advantages, 1 is plain returns minus values.

    Returns:
        Advantages and returns (advantages + values), both ``[T, N]``.
    """
    deltas = rewards + discounts * next_values - values
    decays = discounts * gae_lambda * (~cut)
    advantages = torch.empty_like(deltas)
    following = torch.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + decays[t] * following
        advantages[t] = following
    return advantages, advantages + values


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

    Args:
        log_ratios: Log-probability of the taken action under the current policy minus that under
            the policy that acted; ``[T, N]``.
        rewards: ``[T, N]``.
        discounts: ``[T, N]``.
        values: Under the current parameters; ``[T, N]``.
        next_values: As `shift_values` gives them; ``[T, N]``.
        cut: bool ``[T, N]``.
        rho_bar: Upper clip of the ratio in the temporal differences and advantages.
        c_bar: Upper clip of the ratio in the traces.
        trace_lambda: Factor of the traces.
    """
    ratios = log_ratios.exp()
    rhos = ratios.clamp(max=rho_bar)
    traces = discounts * trace_lambda * ratios.clamp(max=c_bar) * (~cut)
    deltas = rhos * (rewards + discounts * next_values - values)
    corrections = torch.empty_like(deltas)  # v_t - V(x_t)
    following = torch.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + traces[t] * following
        corrections[t] = following
    targets = values + corrections
    # v_{t+1}: that of the next row, of the bootstrap row (no correction), or V(x_final) at a cut.
    shifted = torch.cat([corrections[1:], torch.zeros_like(corrections[:1])])
    next_targets = next_values + torch.where(cut, torch.zeros_like(shifted), shifted)
    advantages = rhos * (rewards + discounts * next_targets - values)
    return VTraceResult(targets, advantages)


def n_step_returns(
    rewards: Tensor, discounts: Tensor, n_step: int, cut: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of up to n rewards, and the discount of what follows.

    Args:
        rewards: ``[T, N]``.
        discounts: ``[T, N]``.
        n_step: n.
        cut: A time limit ended the episode with this step; bool ``[T, N]``. The sum stops there.

    Returns:
        ``G`` and ``P`` ``[T - n + 1, N]``, with ``target = G + P * bootstrap``, and the number of
        steps that each spans, int64 of the same shape.

    Raises:
        InvalidArgumentError: `n_step` is below 1 or above T.
    """
    rows = len(rewards)
    if not 1 <= n_step <= rows:
        raise InvalidArgumentError(f"n_step is {n_step}; allowed: 1 to the {rows} rows given")
    count = rows - n_step + 1
    sums = torch.zeros_like(rewards[:count])
    products = torch.ones_like(sums)
    going = torch.ones_like(sums, dtype=torch.bool)
    steps = torch.zeros_like(sums, dtype=torch.int64)
    for k in range(n_step):
        sums = torch.where(going, sums + products * rewards[k : k + count], sums)
        products = torch.where(going, products * discounts[k : k + count], products)
        steps = steps + going.long()
        if cut is not None:
            going = going & ~cut[k : k + count]
    return sums, products, steps


def q_lambda_returns(
    rewards: Tensor, discounts: Tensor, next_max_q: Tensor, cut: Tensor, q_lambda: float
) -> Tensor:
    """Lambda-returns of greedy action values (Gallici et al. 2024).

    ``G_t = r_t + d_t (lambda G_{t+1} + (1 - lambda) max_a Q(x_{t+1}, a))``; at the last row and at
    a cut the bracket is the maximum alone.

    Args:
        rewards: ``[T, N]``.
        discounts: ``[T, N]``.
        next_max_q: Largest action value of what followed, as `shift_values` gives it; ``[T, N]``.
        cut: bool ``[T, N]``.
        q_lambda: lambda.

    Returns:
        ``[T, N]``.
    """
    returns = torch.empty_like(rewards)
    following = next_max_q[-1]
    for t in range(len(rewards) - 1, -1, -1):
        mixed = q_lambda * following + (1.0 - q_lambda) * next_max_q[t]
        following = rewards[t] + discounts[t] * torch.where(cut[t], next_max_q[t], mixed)
        returns[t] = following
    return returns
