"""Where consoles live: what the keyword ``device`` may say, and what it means on this machine."""

from __future__ import annotations

import re
import sys

from cule.errors import DeviceError, InvalidArgumentError


def resolve_device(device: object) -> str:
    """The device that a request means.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"auto"``, or a ``torch.device``.

    Returns:
        ``"cpu"``; "auto" is the CPU while there is no other backend.

    Raises:
        InvalidArgumentError: This is no device.
        DeviceError: There is no backend for this device.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(device, torch.device):
        device = str(device)
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu(:0)?|cuda(:\d+)?", device):
        raise InvalidArgumentError(
            f"device is {device!r}; it must be 'cpu', 'cuda', 'cuda:<number>', 'auto' or a "
            "torch.device"
        )
    if device.startswith("cuda"):
        raise DeviceError(
            f"device is {device!r}, but the CUDA backend is not built in; use device='cpu'"
        )
    return "cpu"
