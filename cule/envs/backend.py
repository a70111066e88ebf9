"""Interface of `AtariVectorEnv` to a back end: a batch of environments, and memory for its results.

On the CPU these are ``cule._core.Batch`` and `HostMemory`; on a GPU `CudaBatch` and `DeviceMemory`.

Observations are large, and users keep them for as long as they like. So on the CPU each result gets
a block of its own, from a small pool; the pool lends a block again only when nothing refers to it
any more, not even through a view or a tensor.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.device import cuda_module
from cule.envs.actions import continuous_actions, discrete_actions
from cule.envs.checks import Array, NativeArray, to_numpy
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, make_batch, obs_dtype
from cule.envs.requests import frame_target
from cule.envs.results import RunningKernel
from cule.errors import InvalidArgumentError

if TYPE_CHECKING:
    import torch

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


def _references(blocks: list[NDArray[Any]], index: int) -> int:
    return sys.getrefcount(blocks[index])


#: What `_references` counts for a block that only the pool holds. Measured, because how many
#: references the call itself adds differs between versions of Python.
_IDLE = _references([np.empty(0, np.uint8)], 0)


class BlockPool:
    """Blocks of observation memory that return to the pool by themselves."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], keep: int = 8) -> None:
        """Make an empty pool, which holds on to `keep` blocks; users may hold any number more."""
        self._shape, self._dtype = shape, dtype
        self._keep = keep
        self._blocks: list[NDArray[Any]] = []
        self._replaced = 0

    def __call__(self) -> NDArray[Any]:
        """A view of a block that nothing else refers to."""
        blocks = self._blocks
        for index in range(len(blocks)):
            if _references(blocks, index) == _IDLE:
                return blocks[index][:]
        block = np.zeros(self._shape, self._dtype)
        if len(blocks) < self._keep:
            blocks.append(block)
        else:
            # Every block is in use for longer: let go of one, and hold the new one instead.
            blocks[self._replaced] = block
            self._replaced = (self._replaced + 1) % self._keep
        return block[:]


class HostMemory:
    """`cule.envs.backend.Memory` of ``cule._core.Batch``."""

    pool = BlockPool
    target = staticmethod(frame_target)

    def __init__(self, plan: BatchPlan, options: EnvOptions) -> None:
        """Serve a batch."""
        self._plan = plan
        self._is_continuous = options.continuous
        self._num_players = plan.num_players
        self._obs_dtype = obs_dtype(options)
        self._torch: ModuleType | None = None
        if options.output == "torch":
            try:
                import torch
            except ImportError as error:
                raise InvalidArgumentError(
                    f"output is 'torch', but torch cannot be imported: {error}"
                ) from None
            self._torch = torch

    def outputs(
        self,
        obs: NDArray[np.generic],
        final_obs: NDArray[np.generic] | None = None,
        stacked: bool = True,
    ) -> _core.Outputs:
        """Where a call writes: observations to blocks, numbers to new tables."""
        final_bytes = None if final_obs is None else final_obs.view(np.uint8)
        return _core.Outputs(
            obs.view(np.uint8), final_bytes, stacked=stacked, num_players=self._num_players
        )

    def wrap_obs(self, obs: NDArray[np.generic]) -> Array:
        """`wrap` for the observations of `outputs`."""
        return self.wrap(obs.view(self._obs_dtype))

    def actions(self, actions: object, env_ids: NDArray[np.int32]) -> NDArray[np.generic]:
        """Indices into the native action sets, int32, or joysticks, float32 ``[n, 4]``.

        Indices are ``[n]``, or with several players ``[n * players]``, those of each in a row.
        """
        if self._is_continuous:
            return continuous_actions(actions, len(env_ids))
        size = len(self._plan.action_set)
        native = discrete_actions(actions, len(env_ids), size, self._num_players)
        table = self._plan.action_table
        return native.ravel() if table is None else table[self._plan.game_index[env_ids], native]

    def may_have_ended(self, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> bool:
        """Whether ``info`` needs the entries of ended episodes."""
        return bool(np.count_nonzero(terminated) or np.count_nonzero(truncated))

    def as_float(self, row: NDArray[np.int32]) -> NDArray[np.float32]:
        """Numbers as float32."""
        return row.astype(np.float32)

    def wrap(self, array: NDArray[np.generic]) -> Array:
        """The array, or a tensor on the same memory."""
        return array if self._torch is None else self._torch.from_numpy(array)

    def wrap_read_only(self, array: NDArray[np.generic]) -> Array:
        """`wrap` for memory that is not to be written to, a notion torch does not have."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
            return self.wrap(array)


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


def torch_device(device: str | torch.device) -> torch.device:
    """The torch.device of a name."""
    import torch

    return torch.device(device)


def make_backend(plan: BatchPlan, options: EnvOptions) -> tuple[Backend, Memory]:
    """The batch and the memory of its results, for `EnvOptions.device`."""
    # Each back end takes the arrays and outputs of its own memory, which the protocols do not say.
    if options.device == "cpu":
        from cule.envs.cpu_memory import check_memory

        check_memory(plan, options)
        return cast("Backend", make_batch(plan, options)), cast("Memory", HostMemory(plan, options))
    from cule.envs.cuda_batch import CudaBatch
    from cule.envs.device_memory import DeviceMemory

    native = cuda_module()
    assert native is not None, "resolve_device has seen it"
    device = torch_device(options.device)
    batch = CudaBatch(plan, options, device, native)
    return cast("Backend", batch), cast("Memory", DeviceMemory(plan, options, device))
