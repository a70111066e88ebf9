"""Training in several processes: one per GPU, started by ``torchrun``; gloo on CPUs.

Each process has its own environments, buffer and random streams. All have the same weights and
average their gradients with one all-reduce per update. With one process these functions do nothing.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cule.errors import CheckpointError
from cule.nets import PixelStatistics

Value = TypeVar("Value")


def world_size() -> int:
    """Number of processes R."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def num_launched() -> int:
    """Processes that torchrun started; known before they join."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Rank of this process."""
    return dist.get_rank() if world_size() > 1 else 0


def join_world(device: torch.device) -> torch.device:
    """Join the process group that torchrun started, if any, and return the device to use.

    With several processes a CUDA device becomes that of ``LOCAL_RANK``.
    """
    if num_launched() > 1:
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            # Its functions bind the group at import time as a default argument, and every
            # optimizer imports it: a group bound this way would outlive `leave_world`, and its
            # threads abort the process when they free a tensor while Python exits.
            importlib.import_module("torch.distributed.nn.functional")
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def leave_world() -> None:
    """Leave the process group, if any."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def collectives_can_be_captured() -> bool:
    """Whether a CUDA graph can hold what processes send each other; they have joined."""
    return dist.get_backend() == "nccl"


def broadcast_module(module: nn.Module) -> None:
    """Copy parameters and buffers from rank 0 to all ranks."""
    if world_size() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def barrier() -> None:
    """Wait for all processes."""
    if world_size() > 1:
        dist.barrier()


def gather_values(value: Value) -> list[Value]:
    """Picklable values of all processes, ordered by rank."""
    values = [value] * world_size()
    if world_size() > 1:
        dist.all_gather_object(values, value)
    return values


def check_same_on_all_ranks(name: str, value: object) -> None:
    """Require the same value in all processes."""
    values = gather_values(value)
    if any(other != values[0] for other in values):
        raise CheckpointError(f"{name} are {values}; they must be the same in all processes")


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over all processes."""
    size = world_size()
    if size == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= size
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def sum_over_ranks(values: Tensor) -> Tensor:
    """Sum over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def mean_over_ranks(value: Tensor) -> Tensor:
    """Mean over all processes, as a new tensor."""
    return sum_over_ranks(value.clone()) / world_size()


@torch.no_grad()
def update_statistics(statistics: PixelStatistics, frames: Tensor) -> None:
    """Update pixel statistics with the frames of all processes."""
    if world_size() == 1:
        statistics.update(frames)
        return
    x = frames.float().reshape(-1, *statistics.mean.shape)
    mean, square = sum_over_ranks(torch.stack([x.mean(0), x.square().mean(0)])) / world_size()
    count = torch.full_like(statistics.count, len(x) * world_size())
    statistics.merge(mean, square - mean.square(), count)


def local_moments(values: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and sample standard deviation over the (valid) values of this process."""
    chosen = values if valid is None else values[valid]
    if chosen.numel() < 2:  # as `global_moments`
        return chosen.sum(), chosen.new_zeros(())
    return chosen.mean(), chosen.std()


def max_over_ranks(values: Tensor) -> Tensor:
    """Maximum over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values


def global_moments(values: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and sample standard deviation (n - 1) over the (valid) values of all processes.

    The deviation of one value is 0, and both are where there is none.
    """
    x = values.double() if values.device.type == "cpu" else values.float()
    number = torch.full_like(x.sum(), x.numel())
    if valid is not None:
        x, number = torch.where(valid, x, 0.0), valid.sum().to(x.dtype)
    sums = torch.stack([x.sum(), x.square().sum(), number])
    total, squares, count = sum_over_ranks(sums)
    mean = total / count.clamp(min=1.0)
    variance = (squares - count * mean.square()) / (count - 1).clamp(min=1.0)
    return mean.to(values.dtype), variance.clamp(min=0.0).sqrt().to(values.dtype)
