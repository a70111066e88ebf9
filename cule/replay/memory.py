"""Free memory of a device, and the size of a buffer for a capacity in transitions or bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import torch

from cule.device import free_device_bytes
from cule.errors import CapacityError, InvalidArgumentError, shown
from cule.files import format_bytes
from cule.replay.options import StorageOptions, check_int

UNITS_BYTES = {f"{prefix}B": 10 ** (3 * k) for k, prefix in enumerate(("", "K", "M", "G", "T"))} | {
    f"{prefix}IB": 2 ** (10 * k) for k, prefix in enumerate("KMGT", 1)
}

ALLOWED = (
    "it must be a number of transitions (an int of at least 1), bytes such as '40GB' or "
    "'512MiB', or a fraction of the free memory above 0 and up to 1.0 (a float)"
)

#: Transitions of a batch, above which its size is compared with the free memory.
_LARGE_BATCH = 2**16

#: Bytes of a sampled transition besides its observations, at least.
_TRANSITION_BYTES = 64

#: Bytes of a buffer by part, as an increasing function of its size.
BytesOf = Callable[[int], dict[str, int]]


def capacity_bytes(capacity: object, free_bytes: int) -> int | None:
    """Parse a capacity in bytes or a fraction of `free_bytes`; None for a number of transitions."""
    if isinstance(capacity, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?[iI]?[bB])\s*", capacity)
        if match is not None and match[2].upper() in UNITS_BYTES:
            return int(Fraction(match[1]) * UNITS_BYTES[match[2].upper()])
    elif isinstance(capacity, float):
        if 0.0 < capacity <= 1.0:
            return int(capacity * free_bytes)
    elif isinstance(capacity, int) and not isinstance(capacity, bool) and capacity >= 1:
        return None
    raise InvalidArgumentError(f"capacity is {shown(capacity)}; {ALLOWED}")


def plan_size(
    capacity: int | float | str,
    device: torch.device,
    bytes_of: BytesOf,
    *,
    transitions_each: int,
    overhead: int,
) -> int:
    """Size of a buffer for a capacity: timesteps of a ring, or blocks of shared memory.

    Each unit of the size adds `transitions_each`, except `overhead` units that cannot be sampled.
    """
    free = free_device_bytes(device)
    budget = capacity_bytes(capacity, free)
    if budget is None:
        assert isinstance(capacity, int)
        size = -(-capacity // transitions_each) + overhead
    else:
        size = largest_size(budget, bytes_of)
        if size <= overhead:
            least = format_bytes(sum(bytes_of(overhead + 1).values()))
            raise CapacityError(
                f"capacity is {shown(capacity)}, {format_bytes(budget)}; at least {least} are "
                "needed"
            )
    wanted = sum(bytes_of(size).values())
    if wanted > free:
        fitting = max(largest_size(free, bytes_of) - overhead, 0) * transitions_each
        raise CapacityError(
            f"capacity is {shown(capacity)}, which needs {format_bytes(wanted)}; {device} has "
            f"{format_bytes(free)} free, which would hold {fitting:,} transitions"
        )
    return size


def check_batch_size(batch_size: object, options: StorageOptions) -> None:
    """Raise InvalidArgumentError unless a batch is of at least 1 transition and fits into memory.

    Raises:
        InvalidArgumentError: batch_size is not a positive int.
        CapacityError: It needs more memory than is free.
    """
    check_int("batch_size", batch_size, 1)
    assert isinstance(batch_size, int)
    if batch_size <= _LARGE_BATCH:
        return
    frame_bytes = torch.Size(options.obs_shape).numel() * options.obs_dtype.itemsize
    wanted = batch_size * (2 * options.stack * frame_bytes + _TRANSITION_BYTES)
    free = free_device_bytes(options.device)
    if wanted > free:
        raise CapacityError(
            f"batch_size is {batch_size:,}, which needs {format_bytes(wanted)}; {options.device} "
            f"has {format_bytes(free)} free"
        )


def largest_size(budget_bytes: int, bytes_of: BytesOf) -> int:
    """The largest size that fits into a number of bytes; 0 if none does."""
    low, high = 0, 1
    while sum(bytes_of(high).values()) <= budget_bytes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if sum(bytes_of(middle).values()) <= budget_bytes:
            low = middle
        else:
            high = middle
    return low


def report(parts: dict[str, int], facts: dict[str, str] | None = None) -> str:
    """A table of bytes by part, their total, and further facts."""
    lines = {name: format_bytes(count) for name, count in parts.items()}
    lines |= {"total": format_bytes(sum(parts.values())), **(facts or {})}
    return "\n".join(f"{name:<20}{text:>12}" for name, text in lines.items())
