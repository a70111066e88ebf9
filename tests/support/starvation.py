"""Limits of a process: threads and memory, file descriptors, the disk.

For scripts of processes of their own. The system counts no threads of root, so that "memory" limits
them too.
"""

from __future__ import annotations

import resource
import signal
from pathlib import Path

#: What is limited, and how the system calls it.
LIMITS = {
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "disk": resource.RLIMIT_FSIZE,  # of a file, which then cannot grow
}


def starve(what: str, left: int) -> None:
    """Leave so many bytes of memory, file descriptors, or bytes of a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail instead
    used = 0
    if what == "memory":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * resource.getpagesize()
    elif what == "files":
        used = 1 + max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(LIMITS[what], (used + left, resource.getrlimit(LIMITS[what])[1]))


def feed(what: str) -> None:
    """Take the limit back."""
    hard = resource.getrlimit(LIMITS[what])[1]
    resource.setrlimit(LIMITS[what], (hard, hard))
