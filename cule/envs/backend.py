"""Chooses the back end: who steps the consoles, and whose memory results lie in."""

from __future__ import annotations

from typing import Any

from cule.device import cuda_module
from cule.envs.memory import HostMemory
from cule.envs.options import EnvOptions
from cule.envs.output import Output
from cule.envs.plan import BatchPlan, make_batch


def torch_device(device: str) -> Any:
    """The torch.device of a name."""
    import torch

    return torch.device(device)


def make_backend(plan: BatchPlan, options: EnvOptions) -> tuple[Any, Any]:
    """The native batch and the memory of its results, for `EnvOptions.device`.

    Raises:
        InvalidArgumentError: An option that the back end refuses, or torch is asked for and absent.
        OutOfDeviceMemoryError: The batch does not fit on the device.
    """
    if options.device == "cpu":
        return make_batch(plan, options), HostMemory(plan, Output(options.output or "numpy"))
    from cule.envs.cuda_batch import CudaBatch
    from cule.envs.device_memory import DeviceMemory

    native = cuda_module()
    assert native is not None, "resolve_device has seen it"
    device = torch_device(options.device)
    batch = CudaBatch(plan, options, device, native)
    return batch, DeviceMemory(plan, device, options.output or "torch")
