"""Learning rates that change during training, on the host or on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.agents.training.distributed import mean_over_ranks

#: Factor of a step of an adaptive learning rate, and its limits, as in rl_games.
ADAPTIVE_FACTOR = 1.5
LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; in place where it is on a device, so that graphs read it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def adapt_learning_rate(optimizer: torch.optim.Optimizer, kl: Tensor, wanted: float) -> None:
    """Decrease the learning rate above twice the wanted divergence, increase it below half.

    The divergence is the mean over all processes. Does not wait for a device that the rate is on.
    """
    kl = mean_over_ranks(kl)
    for group in optimizer.param_groups:
        rate = torch.as_tensor(group["lr"], dtype=torch.float32)
        rate = torch.where(kl > 2.0 * wanted, rate / ADAPTIVE_FACTOR, rate)
        rate = torch.where(kl < 0.5 * wanted, rate * ADAPTIVE_FACTOR, rate)
        rate = rate.clamp(LOWEST_RATE, HIGHEST_RATE)
        if isinstance(group["lr"], Tensor):
            group["lr"].copy_(rate)
        else:
            group["lr"] = float(rate)


def learning_rate_of(optimizer: torch.optim.Optimizer) -> Tensor | float:
    """The current learning rate."""
    rate: Tensor | float = optimizer.param_groups[0]["lr"]
    return rate
