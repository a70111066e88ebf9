"""Optimizers, their steps and learning rates, and epochs that end early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from cule.agents.parts.distributed import mean_over_ranks
from cule.errors import InvalidArgumentError

#: Factor of a step of an adaptive learning rate, and its limits, as in rl_games.
ADAPTIVE_FACTOR = 1.5
LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2


def check_minibatches(count: int, samples: int) -> None:
    """Require that minibatches divide the samples of a rollout."""
    if samples % count:
        raise InvalidArgumentError(
            f"num_minibatches is {count}, which does not divide the {samples} of a rollout "
            "(num_steps x num_envs)"
        )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: Tensor | float) -> None:
    """Set the learning rate; in place where it is on a device, so that graphs read it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = float(rate)


def adapt_learning_rate(optimizer: torch.optim.Optimizer, kl: Tensor, wanted: float) -> None:
    """Decrease the learning rate above twice the wanted divergence, increase it below half.

    The divergence is the mean over all processes. Does not wait for a device that the rate is on.
    """
    kl = mean_over_ranks(kl)
    rate = torch.as_tensor(learning_rate_of(optimizer), dtype=torch.float32)
    rate = torch.where(kl > 2.0 * wanted, rate / ADAPTIVE_FACTOR, rate)
    rate = torch.where(kl < 0.5 * wanted, rate * ADAPTIVE_FACTOR, rate)
    set_learning_rate(optimizer, rate.clamp(LOWEST_RATE, HIGHEST_RATE))


def learning_rate_of(optimizer: torch.optim.Optimizer) -> Tensor | float:
    """The current learning rate."""
    rate: Tensor | float = optimizer.param_groups[0]["lr"]
    return rate


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


@torch.no_grad()
def step_unless(skip: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Step an optimizer, and undo the step on the device where `skip`, a bool scalar, is true.

    It is false at the first step, which initializes the state of the optimizer.
    """
    before = [tensor.clone() for tensor in _tensors_of(optimizer)]
    optimizer.step()
    for now, old in zip(_tensors_of(optimizer), before, strict=False):
        now.copy_(torch.where(skip, old, now))


def _tensors_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    states = [value for p in weights for value in optimizer.state.get(p, {}).values()]
    return [*weights, *(value for value in states if isinstance(value, Tensor))]


def make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep the state of an optimizer, including its learning rate, on the device.

    On a GPU, Adam becomes one kernel for all weights. Others step lists of tensors, because steps
    of single tensors may read the learning rate on the host.
    """
    is_gpu_adam = isinstance(optimizer, torch.optim.Adam) and device.type == "cuda"
    for state in optimizer.state.values():
        if "step" in state:  # of a run on a CPU
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=device)
    for group in optimizer.param_groups:
        group["capturable"] = True
        group["foreach"] = not (is_gpu_adam or group.get("fused"))
        if is_gpu_adam:
            group["fused"] = True
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)
