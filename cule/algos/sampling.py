"""Sampling actions on the device, with a generator."""

from __future__ import annotations

import torch
from torch import Tensor


def sample_categorical(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Sample an action from each policy: int64 ``[N]`` from logits ``[N, A]``.

    The first of exponential clocks to ring has the probabilities of the policy.
    """
    clocks = torch.empty_like(logits, dtype=torch.float32).exponential_(generator=generator)
    return (logits.float() - clocks.clamp(min=1e-30).log()).argmax(-1)


def epsilon_greedy(
    q_values: Tensor, epsilon: Tensor | float, generator: torch.Generator | None = None
) -> Tensor:
    """Choose the best actions, or with probability epsilon uniformly random ones; int64 ``[N]``.

    `q_values` are ``[N, A]``; `epsilon` is a number, or one per environment ``[N]``.
    """
    uniform = torch.rand((2, len(q_values)), generator=generator, device=q_values.device)
    num_actions = q_values.shape[-1]
    random = (uniform[1] * num_actions).long().clamp(max=num_actions - 1)
    return torch.where(uniform[0] < epsilon, random, q_values.argmax(-1))
