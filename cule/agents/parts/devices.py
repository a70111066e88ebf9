"""Devices and precision: parsing, comparison, and global settings of torch."""

from __future__ import annotations

import os
import warnings

import torch

from cule.agents.parts.config import AgentConfig
from cule.errors import InvalidArgumentError


def parse_device(name: str, value: str) -> torch.device:
    """The device that an option names."""
    try:
        return torch.device(value)
    except RuntimeError:
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be 'cpu', 'cuda' or 'cuda:<number>'"
        ) from None


def is_same_device(first: torch.device, second: torch.device) -> bool:
    """Whether two devices are the same, where "cuda" is the current device of torch."""
    return _with_index(first) == _with_index(second)


def _with_index(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def idle_cores() -> int:
    """Cores that this process may use and that were idle over the last minute; at least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not on Windows
        load = 0.0
    return max(cores - round(load), 1)


def configure_torch(config: AgentConfig) -> None:
    """Set threads, TF32, determinism and the choice of convolutions for this process.

    Without a number, a network on a CPU gets the idle cores: threads of torch that share cores with
    other work wait for each other, and are several times slower than one. ``OMP_NUM_THREADS``
    takes precedence.
    """
    if config.torch_threads:
        torch.set_num_threads(config.torch_threads)
    elif config.device == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), idle_cores()))
    allows_tf32 = config.precision != "fp32"
    with warnings.catch_warnings():
        # Some versions of torch advise `fp32_precision` instead. After that, `allow_tf32` and
        # `torch.get_float32_matmul_precision`, which torch.compile reads, raise errors.
        warnings.filterwarnings("ignore", "(?s).*new API settings to control TF32", UserWarning)
        torch.backends.cuda.matmul.allow_tf32 = allows_tf32
        torch.backends.cudnn.allow_tf32 = allows_tf32  # on by default in torch
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    elif config.device != "cpu":  # sizes of batches stay the same
        torch.backends.cudnn.benchmark = True
