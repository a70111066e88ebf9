"""Errors of CUDA and torch as a `DeviceError` that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cule.errors import CuleError, DeviceError, OutOfDeviceMemoryError


@contextmanager
def device_errors(device: torch.device) -> Iterator[None]:
    """Make `device` current for the block; what fails there is a `DeviceError`."""
    try:
        with torch.cuda.device(device if device.type == "cuda" else -1):
            yield
    except CuleError:
        raise
    except torch.OutOfMemoryError as error:
        raise OutOfDeviceMemoryError(f"device is {device}: {error}") from error
    except RuntimeError as error:  # of a launch, or of torch
        # Torch adds lines about debugging. The kernel that failed may be one of an earlier call.
        reason = str(error).partition("\n")[0]
        raise DeviceError(
            f"device is {device}: {reason}; if a kernel has failed, this process cannot use the "
            "device any more: close the environments and start a new process"
        ) from error
