"""Interface of `AtariVectorEnv` to a back end: a batch of environments, and memory for its results.

On the CPU these are ``cule._core.Batch`` and `HostMemory`; on a GPU `CudaBatch` and `DeviceMemory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.device import cuda_module, torch_device
from cule.envs.checks import Array, NativeArray, to_numpy
from cule.envs.host_memory import HostMemory, check_memory
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, make_batch
from cule.envs.results import RowsOf, RunningKernel

if TYPE_CHECKING:
    from cule.envs.boxes import CurrentObjects
    from cule.envs.cuda_batch import CudaBatch


class Outputs(Protocol):
    """Memory that a call writes to."""

    @property
    def obs(self) -> NativeArray:
        """Bytes of observations, uint8 ``[n, ...]``."""

    @property
    def final_obs(self) -> NativeArray | None:
        """Observations of episodes that ended, likewise."""

    @property
    def ints(self) -> NativeArray:
        """Numbers, int32 ``[rows, n]``."""

    @property
    def final_ints(self) -> NativeArray | None:
        """Numbers of episodes that ended, likewise."""

    @property
    def flags(self) -> NativeArray:
        """Flags, bool ``[flag_rows, n]``."""


class Backend(Protocol):
    """N environments that are stepped together.

    Calls write to `Memory.outputs`; on a GPU the results are ready in the order of the current
    stream.
    """

    @property
    def num_threads(self) -> int:
        """CPU threads that step the environments; 0 on a GPU."""

    @property
    def state_size(self) -> int:
        """Bytes of a snapshot."""

    @property
    def is_compiling(self) -> bool:
        """Whether a compiled kernel may take over later."""

    @property
    def has_reset(self) -> bool:
        """Whether every environment has an episode, which a call of XLA may have begun."""

    def reset(self, mask: NDArray[np.bool_] | None, seeds: NDArray[np.int64], out: Outputs) -> None:
        """Start episodes where `mask` is set, and report every environment."""

    def step(self, actions: NativeArray, out: Outputs) -> None:
        """Advance every environment by the actions of `Memory.actions`."""

    def decorrelate(self, max_steps: int, seed: int, out: Outputs) -> None:
        """Play a random number of random steps in each environment."""

    def observe(self, out: Outputs) -> None:
        """Report every environment as it is."""

    def get_state(self, indices: NDArray[np.int64]) -> NativeArray:
        """Snapshots of some environments, uint8 ``[n, state_size]``."""

    def set_state(self, states: NDArray[np.uint8], indices: NDArray[np.int64]) -> None:
        """Restore snapshots."""

    def screens(self, kind: str, indices: NDArray[np.int64]) -> NativeArray:
        """Full-size screens, uint8 ``[n, H, 160]`` or ``[n, H, 160, 3]``."""

    def ram(self) -> NativeArray:
        """Live RAM, uint8 ``[N, 128]``."""

    def lives(self) -> NativeArray:
        """Live number of lives, int32 ``[N]``; with several players ``[N, players]``."""

    def episode_frames(self) -> NativeArray:
        """Live frame count of the episode, int32 ``[N]``."""

    def close(self) -> None:
        """Free everything."""


class Memory(Protocol):
    """Memory of results, and how actions and results pass the border."""

    def pool(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], NativeArray]:
        """Allocator of blocks of this shape that nothing else refers to, not initialized."""

    def outputs(
        self, obs: NativeArray, final_obs: NativeArray | None = None, stacked: bool = True
    ) -> Outputs:
        """Where a call writes: observations to blocks, numbers to new tables."""

    def actions(self, actions: object, env_ids: NDArray[np.int32]) -> NativeArray:
        """Checked actions for ``len(env_ids)`` environments, as `Backend.step` takes them."""

    def target(self, out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NativeArray:
        """Memory of the user's to write frames to, checked."""

    def may_have_ended(self, terminated: NativeArray, truncated: NativeArray) -> bool:
        """Whether ``info`` needs the entries of ended episodes."""

    def as_float(self, row: NativeArray) -> NativeArray:
        """Numbers as float32."""

    def wrap(self, array: NativeArray) -> Array:
        """Result for the user: an array or a tensor, as `output` says."""

    def wrap_obs(self, obs: NativeArray) -> Array:
        """`wrap` for the observations of `Outputs`."""

    def wrap_read_only(self, array: NativeArray) -> Array:
        """`wrap` for memory that is not to be written to."""


def running_kernel(batch: Backend, plan: BatchPlan) -> RunningKernel:
    """Return what executes the programs of a batch; "compiled" only if all its games are."""
    if isinstance(batch, _core.Batch):
        is_compiled = all(game.is_translated for game in plan.games)
        return RunningKernel("compiled" if is_compiled else "interpreter")
    return cast("CudaBatch", batch).running_kernel


def rgb_screens(batch: Backend, heights: NDArray[np.int32]) -> tuple[NDArray[np.uint8], ...]:
    """The screens of all environments, uint8 ``[heights[i], 160, 3]`` each."""
    screens: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(heights)
    for height in np.unique(heights):
        indices = np.flatnonzero(heights == height)
        for index, screen in zip(indices, to_numpy(batch.screens("rgb", indices)), strict=True):
            screens[index] = screen
    return tuple(screens)


def objects_beside(
    options: EnvOptions, plan: BatchPlan, batch: Backend
) -> tuple[CurrentObjects | None, RowsOf | None]:
    """The objects that `render` draws, and what gives those in ``info``; None: no such option."""
    if not (options.render_boxes or options.objects_info):
        return None, None
    from cule.envs.boxes import CurrentObjects

    objects = CurrentObjects(plan, batch.ram)
    boxes = objects if options.render_boxes else None
    if not options.objects_info:
        return boxes, None
    if options.device == "cpu":
        return boxes, objects.rows
    # On a GPU results are those of all environments.
    return boxes, lambda _envs: cast("NativeArray", cast("CudaBatch", batch).objects())


def make_backend(plan: BatchPlan, options: EnvOptions) -> tuple[Backend, Memory]:
    """The batch and the memory of its results, for `EnvOptions.device`."""
    # Each back end takes the arrays and outputs of its own memory, which the protocols do not say.
    if options.device == "cpu":
        check_memory(plan, options)
        return cast("Backend", make_batch(plan, options)), cast("Memory", HostMemory(plan, options))
    from cule.envs.cuda_batch import CudaBatch
    from cule.envs.device_memory import DeviceMemory

    native = cuda_module()
    assert native is not None, "resolve_device has seen it"
    device = torch_device(options.device)
    batch = CudaBatch(plan, options, device, native)
    return cast("Backend", batch), cast("Memory", DeviceMemory(plan, options, device))
