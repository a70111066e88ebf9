"""What `AtariVectorEnv` needs of a back end: a batch of environments, and memory for its results.

On the CPU these are ``cule._core.Batch`` and `HostMemory`; on a GPU `CudaBatch` and `DeviceMemory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cule.device import cuda_module
from cule.envs.arrays import Array
from cule.envs.host_memory import HostMemory
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, make_batch

if TYPE_CHECKING:
    import torch

OutputsIn = TypeVar("OutputsIn", contravariant=True)
OutputsOut = TypeVar("OutputsOut", covariant=True)


class Backend(Protocol[OutputsIn]):
    """N environments that are stepped together.

    `out` is memory from `Memory.outputs` of the same back end. Every call that returns nothing
    writes there; on a GPU the results are ready in the order of the current stream.
    """

    @property
    def num_threads(self) -> int:
        """CPU threads that step the environments; 0 on a GPU."""

    @property
    def state_size(self) -> int:
        """Bytes of a snapshot."""

    @property
    def is_compiling(self) -> bool:
        """Whether a kernel is being compiled, to take over between two steps."""

    def reset(
        self, mask: NDArray[np.bool_] | None, seeds: NDArray[np.int64], out: OutputsIn
    ) -> None:
        """Start episodes where `mask`, bool ``[N]``, is set (None: everywhere); report all.

        `seeds` is int64 ``[N]``; -1 lets the random streams of an environment continue.
        """

    def step(self, actions: Array, out: OutputsIn) -> None:
        """Advance every environment; `actions` come from `Memory.actions`."""

    def observe(self, out: OutputsIn) -> None:
        """Report every environment as it is."""

    def decorrelate(self, max_steps: int, seed: int, out: OutputsIn) -> None:
        """Play a random number of random steps, up to `max_steps`, in each environment."""

    def send_reset(self, seeds: NDArray[np.int64]) -> None:
        """Start resets of all environments; `_core.KEEP_STATE` for a seed only reports one."""

    def send(self, actions: Array, env_ids: NDArray[np.int32]) -> None:
        """Start a step of some environments."""

    def recv(self, out: OutputsIn) -> None:
        """Wait for as many environments as `out` has rows."""

    def get_state(self, indices: NDArray[np.int64]) -> Array:
        """Snapshots, uint8 ``[n, state_size]``."""

    def set_state(self, states: NDArray[np.uint8], indices: NDArray[np.int64]) -> None:
        """Restore snapshots, or raise and change nothing."""

    def screens(self, kind: str, indices: NDArray[np.int64]) -> Array:
        """Screens, uint8 ``[n, H, 160]``, or ``[n, H, 160, 3]`` for "rgb"."""

    def ram(self) -> Array:
        """Live RAM, uint8 ``[N, 128]``."""

    def lives(self) -> Array:
        """Live lives, int32 ``[N]``."""

    def episode_frames(self) -> Array:
        """Live frames since the last reset, int32 ``[N]``."""

    def close(self) -> None:
        """Free everything."""


class Pool(Protocol):
    """Lends uint8 blocks of one shape."""

    def acquire(self) -> Array:
        """A block that nothing else refers to; its bytes are unspecified."""


class Memory(Protocol[OutputsOut]):
    """Memory of results, and how actions and results pass the border."""

    def pool(self, shape: tuple[int, ...]) -> Pool:
        """Lends blocks of this shape."""

    def outputs(
        self, obs: Array, final_obs: Array | None = None, stacked: bool = True
    ) -> OutputsOut:
        """Where a call writes: observations to blocks, numbers to new tables."""

    def actions(self, actions: object, env_ids: NDArray[np.int32]) -> Array:
        """Checked actions for ``len(env_ids)`` environments, as `Backend.step` takes them."""

    def target(self, out: object, shape: tuple[int, ...]) -> Array:
        """Memory of the user's to write frames to, checked."""

    def env_ids(self, ints: Array) -> NDArray[np.int32]:
        """Which environments a table of numbers is of; a copy."""

    def may_have_ended(self, terminated: Array, truncated: Array) -> bool:
        """Whether ``info`` needs the entries of ended episodes."""

    def as_float(self, row: Array) -> Array:
        """Numbers as float32."""

    def wrap(self, array: Array) -> Array:
        """What the user gets: an array or a tensor, as `output` says."""

    def wrap_read_only(self, array: Array) -> Array:
        """`wrap` for memory that is not to be written to."""


def torch_device(device: str) -> torch.device:
    """The torch.device of a name."""
    import torch

    return torch.device(device)


def make_backend(plan: BatchPlan, options: EnvOptions) -> tuple[Backend[Array], Memory[Array]]:
    """The batch and the memory of its results, for `EnvOptions.device`.

    Raises:
        InvalidArgumentError: An option that the back end refuses, or torch is asked for and absent.
        DeviceError: `EnvOptions.kernel` is "compiled", and there is no compiler.
        OutOfDeviceMemoryError: The batch does not fit on the device.
    """
    if options.device == "cpu":
        return make_batch(plan, options), HostMemory(plan, options)
    from cule.envs.cuda_batch import CudaBatch
    from cule.envs.device_memory import DeviceMemory

    native = cuda_module()
    assert native is not None, "resolve_device has seen it"
    device = torch_device(options.device)
    return CudaBatch(plan, options, device, native), DeviceMemory(plan, options, device)
