"""Optimizers whose options have other meanings in publications than in torch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def make_rmsprop(
    parameters: Iterable[nn.Parameter],
    *,
    learning_rate: float,
    alpha: float,
    eps: float,
    centered: bool = False,
) -> torch.optim.RMSprop:
    """Make RMSProp with `eps` under the root, as in TensorFlow and in publications.

    torch adds its epsilon to the root instead: ``sqrt(eps)`` there is the same where gradients are
    small, and at most 1.42 times larger than ``sqrt(mean square + eps)``.
    """
    return torch.optim.RMSprop(
        parameters, lr=learning_rate, alpha=alpha, eps=eps**0.5, centered=centered
    )
