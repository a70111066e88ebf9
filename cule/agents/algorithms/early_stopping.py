"""Stopping the epochs of a PPO round early, when the policy has moved too far."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cule.agents.training.distributed import mean_over_ranks


class EarlyStop:
    """Mean metrics of the applied epochs of a round; with `target_kl` epochs may be skipped.

    After an epoch whose mean KL divergence over all processes exceeds `target_kl`, further updates
    must not change anything. Where the host may read the device they are left out; elsewhere they
    are computed and undone on the device.

    Attributes:
        has_stopped: Whether updates are to be undone; bool scalar on the device.
    """

    def __init__(
        self, target_kl: float | None, num_minibatches: int, device: torch.device, *, can_sync: bool
    ) -> None:
        """Begin a round; with `can_sync` the host may read the device."""
        self._target_kl, self._num_minibatches = target_kl, num_minibatches
        self._can_sync = can_sync
        self._sums: dict[str, Tensor] = {}
        self._num_updates = torch.zeros((), device=device)
        self.has_stopped = torch.zeros((), dtype=torch.bool, device=device)

    def end_epoch(self, sums: Mapping[str, Tensor]) -> bool:
        """Add an epoch by the sums of its metrics; return whether to skip the remaining epochs."""
        applied = {k: torch.where(self.has_stopped, 0.0, value) for k, value in sums.items()}
        add_to(self._sums, applied)
        self._num_updates = self._num_updates + self._num_minibatches * (~self.has_stopped).float()
        if self._target_kl is None:
            return False
        kl = mean_over_ranks(sums["approx_kl"] / self._num_minibatches)
        self.has_stopped = self.has_stopped | (kl > self._target_kl)
        return self._can_sync and bool(self.has_stopped)

    def mean_metrics(self) -> dict[str, Tensor]:
        """Means over the updates of the applied epochs; with a target also their number."""
        means = {name: value / self._num_updates for name, value in self._sums.items()}
        if self._target_kl is not None:
            means["epochs"] = self._num_updates / self._num_minibatches
        return means


def add_to(sums: dict[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Add values to the sums of the same names."""
    for name, value in values.items():
        sums[name] = sums[name] + value if name in sums else value
