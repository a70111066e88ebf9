"""What a figure depends on beside the code: processor, device, versions, commit."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import cule

#: The checkout that the package is run from; without .git it is an installation.
ROOT = Path(cule.__file__).parents[1]

#: What a speed can depend on; changes elsewhere do not make a record dirty.
SOURCES = ("csrc", "cule", "CMakeLists.txt")

PACKAGES = ("cule", "numpy", "gymnasium", "ale-py", "envpool", "torch")


def git(*words: str) -> str | None:
    """What a git command prints in the checkout; None where there is none."""
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
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpu() -> dict[str, Any] | None:
    """Name, memory and driver of the first CUDA device; None where torch sees none."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "count": torch.cuda.device_count(),
        "driver": _driver(),
        "cuda_of_torch": torch.version.cuda,
    }


def _driver() -> str | None:
    path = Path("/proc/driver/nvidia/version")
    return path.read_text().splitlines()[0] if path.is_file() else None


def versions() -> dict[str, str]:
    """Versions of the packages that are there."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def source() -> dict[str, Any]:
    """Commit, and whether something was changed since; None for both outside a checkout."""
    status = git("status", "--porcelain", "--", *SOURCES)
    return {
        "commit": git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def machine() -> dict[str, Any]:
    """Where a run takes place; the same all along it."""
    return {
        "processor": processor(),
        "cpus": num_cpus(),
        "platform": platform.platform(),
        "gpu": gpu(),
        "build": cule.build_config(),
        "versions": versions(),
    }


def now() -> str:
    """The time, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def load_average() -> list[float]:
    """How many processes wanted to run in the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def hardware_line(where: dict[str, Any], threads: int) -> str:
    """One line for tables and plots."""
    text = f"{where['processor']}, {threads} of {where['cpus']} processors"
    device = where["gpu"]
    return f"{text}; {device['name']}" if device else f"{text}; no GPU"
