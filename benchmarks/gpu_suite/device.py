"""Facts in the records of the GPU suite about the machine and the sources."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FIELDS = ("name", "driver_version", "memory.total", "compute_cap")


class DeviceMissingError(RuntimeError):
    """There is no NVIDIA GPU."""


@dataclass(frozen=True)
class Device:
    """The first GPU, as its driver describes it."""

    name: str
    driver: str
    memory: str
    """With its unit."""

    architecture: str
    """Compute capability without the point, such as 90."""


def describe_device() -> Device:
    """Ask ``nvidia-smi``.

    Raises:
        DeviceMissingError: It is missing or fails.
    """
    command = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DeviceMissingError(f"no NVIDIA GPU: {error}") from None
    name, driver, memory, capability = done.stdout.splitlines()[0].split(", ")
    return Device(name, driver, memory, capability.replace(".", ""))


def commit() -> str | None:
    """The commit of the sources: COMMIT, or what git says; None without both."""
    if os.environ.get("COMMIT"):
        return os.environ["COMMIT"]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def torch_version() -> str | None:
    """Version of torch; None if it is not installed."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
