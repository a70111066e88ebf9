"""Facts that a measurement depends on: processor, device, versions, commit."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cule

#: Folder of the package; a checkout if it contains .git.
ROOT = Path(cule.__file__).parents[1]

#: Files that affect speed; changes elsewhere do not make a record dirty.
SOURCES = ("csrc", "cule", "CMakeLists.txt")

PACKAGES = ("cule", "numpy", "gymnasium", "ale-py", "envpool", "torch")


def git(*words: str) -> str | None:
    """Output of a git command in the checkout; None without one."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def processor() -> str:
    """The name of the processor."""
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.is_file() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def num_cpus() -> int:
    """Number of processors that this process can use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpu() -> dict[str, object] | None:
    """The first CUDA device; None if torch finds none."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    driver = Path("/proc/driver/nvidia/version")
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "count": torch.cuda.device_count(),
        "driver": driver.read_text().splitlines()[0] if driver.is_file() else None,
        "cuda_of_torch": torch.version.cuda,
    }


def versions() -> dict[str, str]:
    """Versions of the installed packages."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def source() -> dict[str, object]:
    """Commit, whether a file has changed since, and a digest of such files.

    Without git the commit is that of COMMIT.
    """
    changed = git("diff", "--name-only", "-z", "HEAD", "--", *SOURCES)
    new = git("ls-files", "--others", "--exclude-standard", "-z", "--", *SOURCES)
    commit = git("rev-parse", "HEAD") or os.environ.get("COMMIT") or None
    if changed is None or new is None:
        return {"commit": commit, "dirty": None}
    names = sorted(filter(None, (changed + new).split("\0")))
    digest = hashlib.sha256()
    for name in names:
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    changes = {"changes": digest.hexdigest()[:16]} if names else {}
    return {"commit": commit, "dirty": bool(names), **changes}


def machine() -> dict[str, object]:
    """Hardware and software; constant during a benchmark."""
    return {
        "processor": processor(),
        "cpus": num_cpus(),
        "platform": platform.platform(),
        "gpu": gpu(),
        "build": cule.build_config(),
        "versions": versions(),
    }


def now() -> str:
    """Current time in UTC, in ISO format."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def load_average() -> list[float]:
    """Mean number of runnable processes in the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def conditions(options: Mapping[str, object]) -> dict[str, Any]:
    """First fields of a script's record: when, where, and its options, paths by name."""
    return {
        "when": now(),
        "source": source(),
        "machine": machine(),
        "load_at_start": load_average(),
        "options": {
            name: value.name if isinstance(value, Path) else value
            for name, value in options.items()
        },
    }


def hardware_line(threads: int) -> str:
    """Summary of the hardware for tables and plots."""
    device = gpu()
    device_name = device["name"] if device else "no GPU"
    return f"{processor()}, {threads} of {num_cpus()} processors; {device_name}"
