"""Free memory of this process: what the machine, its container and its limits leave."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

#: Limit, usage and statistics of a container, for both versions of control groups.
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)

#: Files that were read or written: the system gives up their memory.
_CACHED = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)


def free_host_bytes() -> int:
    """Bytes that the machine and its container have left."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = int(re.search(r"MemAvailable:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]
    except (OSError, TypeError):
        free = _physical_bytes()
    for limit_file, usage_file, statistics_file in CGROUP_FILES:
        try:
            limit = int(Path(limit_file).read_text(encoding="ascii"))
            used = int(Path(usage_file).read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
        free = min(free, limit - used + _cached_bytes(Path(statistics_file)))
    return max(free, 0)


def free_address_bytes() -> int:
    """Bytes that this process may still map, by ``ulimit -v``, whether it touches them or not."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        mapped_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return sys.maxsize
    return max(limit - mapped_pages * resource.getpagesize(), 0)


def _physical_bytes() -> int:
    if sys.platform == "win32":
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cached_bytes(statistics: Path) -> int:
    try:
        return sum(map(int, _CACHED.findall(statistics.read_text(encoding="ascii"))))
    except OSError:
        return 0
