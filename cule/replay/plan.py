"""How many rows a ring gets: from a capacity, checked against the memory of the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from cule.replay.errors import CapacityError, ShortReplayWarning
from cule.replay.memory import capacity_bytes, format_bytes, free_memory_bytes
from cule.replay.options import ReplayOptions

#: A ring of fewer steps an environment holds little that the current policy has not just done.
SHORT_STEPS = 1_000

#: What a buffer of some rows takes: bytes by what they hold.
BytesOf = Callable[[int], dict[str, int]]


def overhead_rows(options: ReplayOptions) -> int:
    """Rows that cannot be sampled: the rest of the oldest stack and of the newest return."""
    return options.stack - 1 + options.n_step


def plan_rows(options: ReplayOptions, bytes_of: BytesOf) -> int:
    """Rows of a ring for a capacity.

    Args:
        options: The capacity, in transitions or bytes, and what rows are made of.
        bytes_of: What a buffer of some rows takes, increasing with the rows.

    Raises:
        InvalidArgumentError: The capacity is none.
        CapacityError: It does not fit, or does not hold a single transition of each environment.
    """
    overhead, n = overhead_rows(options), options.num_envs
    free = free_memory_bytes(options.device)
    budget = capacity_bytes(options.capacity, free)
    if budget is None:
        assert isinstance(options.capacity, int)
        rows = -(-options.capacity // n) + overhead
    else:
        rows = largest_rows(budget, bytes_of)
        if rows <= overhead:
            least = sum(bytes_of(overhead + 1).values())
            raise CapacityError(
                f"capacity is {options.capacity!r}, {format_bytes(budget)}; {n} environments need "
                f"at least {format_bytes(least)}"
            )
    wanted = sum(bytes_of(rows).values())
    if wanted > free:
        fitting = max(largest_rows(free, bytes_of) - overhead, 0) * n
        raise CapacityError(
            f"capacity is {options.capacity!r}, which takes {format_bytes(wanted)}; "
            f"{options.device} has {format_bytes(free)} free, which would hold {fitting:,} "
            "transitions"
        )
    if rows - overhead < SHORT_STEPS:
        warnings.warn(
            f"capacity is {options.capacity!r}: with {n} environments the ring spans "
            f"{rows - overhead} steps, so what is sampled is nearly on-policy",
            ShortReplayWarning,
            stacklevel=4,
        )
    return rows


def largest_rows(budget_bytes: int, bytes_of: BytesOf) -> int:
    """The most rows that fit into some bytes; 0 if none does."""
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


def report(options: ReplayOptions, rows: int, parts: dict[str, int]) -> str:
    """What a buffer takes, as a table."""
    total, sampled = sum(parts.values()), (rows - overhead_rows(options)) * options.num_envs
    lines = [f"{name:<20}{format_bytes(count):>12}" for name, count in parts.items()]
    lines += [
        f"{'total':<20}{format_bytes(total):>12}",
        f"{'transitions':<20}{sampled:>12,}",
        f"{'bytes a transition':<20}{total / sampled:>12,.1f}",
        f"{'steps spanned':<20}{sampled // options.num_envs:>12,}",
    ]
    return "\n".join(lines)
