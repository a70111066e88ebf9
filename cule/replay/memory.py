"""How much memory a device has left, and what a capacity in bytes means."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from cule.errors import InvalidArgumentError

UNITS_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}

ALLOWED = (
    "it must be a number of transitions (an int of at least 1), bytes such as '40GB' or "
    "'512MiB', or a fraction of the free memory above 0 and up to 1.0 (a float)"
)

#: Where the memory limit and use of a container are, for both versions of control groups.
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def free_memory_bytes(device: torch.device) -> int:
    """Bytes that a buffer on a device could take now.

    Args:
        device: A CPU or CUDA device. Of a CPU, what the system calls available, and within a
            container no more than its limit leaves.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch has reserved and not given out is not free to the driver, but is to us.
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free) + idle
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = int(re.search(r"MemAvailable:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]
    except (OSError, TypeError):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit_file, usage_file in CGROUP_FILES:
        try:
            limit = int(Path(limit_file).read_text(encoding="ascii"))
            free = min(free, limit - int(Path(usage_file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
    return max(free, 0)


def capacity_bytes(capacity: object, free_bytes: int) -> int | None:
    """Bytes that a capacity means; None where it is a number of transitions.

    Args:
        capacity: As in `ReplayOptions.capacity`.
        free_bytes: Free memory of the device.

    Raises:
        InvalidArgumentError: This is no capacity.
    """
    if isinstance(capacity, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?[iI]?[bB])\s*", capacity)
        if match is not None and match[2].upper() in UNITS_BYTES:
            return int(float(match[1]) * UNITS_BYTES[match[2].upper()])
    elif isinstance(capacity, float):
        if 0.0 < capacity <= 1.0:
            return int(capacity * free_bytes)
    elif isinstance(capacity, int) and not isinstance(capacity, bool) and capacity >= 1:
        return None
    raise InvalidArgumentError(f"capacity is {capacity!r}; {ALLOWED}")


def format_bytes(count: int) -> str:
    """A number of bytes for people."""
    for unit in ("TB", "GB", "MB", "kB"):
        size = UNITS_BYTES[unit.upper()]
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
