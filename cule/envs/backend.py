"""Interface of `AtariVectorEnv` to a back end: a batch of environments, and memory for its results.

On the CPU these are ``cule._core.Batch`` and `HostMemory`; on a GPU `CudaBatch` and `DeviceMemory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.device import cuda_module
from cule.envs.arrays import Array, to_numpy
from cule.envs.host_memory import HostMemory
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, make_batch
from cule.envs.results import RunningKernel

if TYPE_CHECKING:
    import torch

    from cule.envs.cuda_batch import CudaBatch

#: N environments that are stepped together. Calls write to memory of `Memory.outputs`; on a GPU the
#: results are ready in the order of the current stream.
Backend: TypeAlias = "_core.Batch | CudaBatch"


class Memory(Protocol):
    """Memory of results, and how actions and results pass the border."""

    def pool(self, shape: tuple[int, ...]) -> Callable[[], Array]:
        """Allocator of uint8 blocks of this shape that nothing else refers to, not initialized."""

    def outputs(self, obs: Array, final_obs: Array | None = None, stacked: bool = True) -> Array:
        """Where a call writes: observations to blocks, numbers to new tables."""

    def actions(self, actions: object, env_ids: NDArray[np.int32]) -> Array:
        """Checked actions for ``len(env_ids)`` environments, as `Backend.step` takes them."""

    def target(self, out: object, shape: tuple[int, ...]) -> Array:
        """Memory of the user's to write frames to, checked."""

    def may_have_ended(self, terminated: Array, truncated: Array) -> bool:
        """Whether ``info`` needs the entries of ended episodes."""

    def as_float(self, row: Array) -> Array:
        """Numbers as float32."""

    def wrap(self, array: Array) -> Array:
        """Result for the user: an array or a tensor, as `output` says."""

    def wrap_read_only(self, array: Array) -> Array:
        """`wrap` for memory that is not to be written to."""


def running_kernel(batch: Backend, plan: BatchPlan) -> RunningKernel:
    """Return what executes the programs of a batch; "compiled" only if all its games are."""
    if isinstance(batch, _core.Batch):
        is_compiled = all(game.is_translated for game in plan.games)
        return RunningKernel("compiled" if is_compiled else "interpreter")
    return batch.running_kernel


def rgb_screens(batch: Backend, heights: NDArray[np.int32]) -> tuple[NDArray[np.uint8], ...]:
    """The screens of all environments, uint8 ``[heights[i], 160, 3]`` each."""
    screens: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(heights)
    for height in np.unique(heights):
        indices = np.flatnonzero(heights == height)
        for index, screen in zip(indices, batch.screens("rgb", indices), strict=True):
            screens[index] = to_numpy(screen)
    return tuple(screens)


def torch_device(device: str | torch.device) -> torch.device:
    """The torch.device of a name."""
    import torch

    return torch.device(device)


def make_backend(plan: BatchPlan, options: EnvOptions) -> tuple[Backend, Memory]:
    """The batch and the memory of its results, for `EnvOptions.device`."""
    if options.device == "cpu":
        return make_batch(plan, options), HostMemory(plan, options)
    from cule.envs.cuda_batch import CudaBatch
    from cule.envs.device_memory import DeviceMemory

    native = cuda_module()
    assert native is not None, "resolve_device has seen it"
    device = torch_device(options.device)
    return CudaBatch(plan, options, device, native), DeviceMemory(plan, options, device)
