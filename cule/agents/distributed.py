"""Several processes that learn together: one a GPU, started by ``torchrun``; gloo on CPUs.

Each has its own consoles, its own replay or rollout and its own random streams, the same weights,
and learns from the mean of all gradients: one all-reduce of one flat vector an update. With one
process nothing here does anything.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cule.errors import CheckpointError

if TYPE_CHECKING:
    from cule.replay import Batch

#: Distance of the seeds of two ranks.
RANK_SEED_STRIDE = 1_000_003


def world_size() -> int:
    """Number of processes R."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def num_launched() -> int:
    """Processes that torchrun started, known before they have joined."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def join_world(device: torch.device) -> torch.device:
    """Join the processes that torchrun started, if it did; the device of this one.

    Args:
        device: As configured; with several processes a CUDA device becomes ``LOCAL_RANK``'s.
    """
    if num_launched() > 1:
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            # Its functions have the group of when they are imported as a default argument, and
            # every optimiser imports it: a group kept so would outlive `leave_world`, and its
            # threads end the process with SIGABRT when they free a tensor while Python exits.
            importlib.import_module("torch.distributed.nn.functional")
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def leave_world() -> None:
    """Leave the other processes, if there are any."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def broadcast_module(module: nn.Module) -> None:
    """Give every process the parameters and buffers of process 0."""
    if world_size() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def barrier() -> None:
    """Wait until every process is here."""
    if world_size() > 1:
        dist.barrier()


def gather_values(value: Any) -> list[Any]:
    """The value of every process, a plain one, in the order of their ranks."""
    values = [value] * world_size()
    if world_size() > 1:
        dist.all_gather_object(values, value)
    return values


def check_alike(name: str, value: Any) -> None:
    """Refuse processes that have not read the same.

    Raises:
        CheckpointError: In every process, with the values of all.
    """
    values = gather_values(value)
    if any(other != values[0] for other in values):
        raise CheckpointError(f"{name} must be alike in all processes; they are {values}")


def weigh_over_ranks(batch: Batch, num_valid: int | Tensor, beta: float | Tensor) -> Batch:
    """Importance weights over the largest of all processes instead of this one's.

    Args:
        batch: What `PrioritizedReplay.sample` drew.
        num_valid: Transitions that could have been drawn. Shards are equally large, so that their
            number times the probability is the same for the shard and for the whole.
        beta: Exponent of the weights.
    """
    if world_size() == 1:
        return batch
    raw = (batch.probabilities * num_valid).clamp(min=1e-30).pow(-beta)
    raw = torch.where(batch.weights > 0, raw, 0.0)
    return batch._replace(weights=raw / max_over_ranks(raw.amax().clone()))


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over all processes."""
    size = world_size()
    if size == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= size
    position = 0
    for gradient in gradients:
        count = gradient.numel()
        gradient.copy_(flat[position : position + count].view_as(gradient))
        position += count


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum over all processes; `values` itself changes."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean over all processes of a value that each has."""
    return sum_over_ranks(value.clone()) / world_size()


def max_over_ranks(values: Tensor) -> Tensor:
    """The largest over all processes; `values` itself changes."""
    if world_size() > 1:
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values


def global_moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (of the sample, n - 1) over all processes' values; scalars."""
    x = values.double() if values.device.type == "cpu" else values.float()
    sums = torch.stack([x.sum(), x.square().sum(), torch.full_like(x.sum(), x.numel())])
    total, squares, count = sum_over_ranks(sums)
    mean = total / count
    variance = (squares - count * mean.square()) / (count - 1).clamp(min=1.0)
    return mean.to(values.dtype), variance.clamp(min=0.0).sqrt().to(values.dtype)
