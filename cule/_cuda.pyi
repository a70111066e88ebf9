"""Types of the native module for a GPU: batches of environments in device memory.

Device memory belongs to the caller, who passes addresses (``data_ptr()`` of torch tensors; 0 for
none) and the stream to launch on. Methods of `Batch` launch and return.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from cule._core import BatchOptions, Game

ARCHITECTURES: str  # as CMake writes them, separated by spaces
TOOLKIT: str  # version of the CUDA toolkit
BLOCK_SIDE: int  # pixels of a side of the blocks of `gather_blocks`
FAULT_ACTION: int  # bit of the word at `faults`: an action outside the set; taken as its first

class LaunchError(RuntimeError): ...  # the runtime refused a call

class _KernelResources(TypedDict):
    name: str
    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int

class HostMemory:
    """Pinned memory that kernels of the current device read and write. Freed with the object."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def address(self) -> int: ...  # in kernels

class Outputs:
    """Where a call writes its results; shapes as in `cule._core.Outputs`."""

    def __init__(
        self,
        *,
        obs: int,
        obs_stride: int,  # bytes between environments
        ints: int,
        flags: int,
        width: int,  # columns of the tables
        final_obs: int = 0,
        final_obs_stride: int = 0,
        final_ints: int = 0,
        stacked: bool = True,
    ) -> None: ...

class Batch:
    """N environments on the current device."""

    def __init__(
        self,
        games: Sequence[Game],
        game_index: NDArray[np.int32],  # [N], which of games
        modes: NDArray[np.int32],  # [N]
        difficulties: NDArray[np.int32],  # [N]
        action_delays: NDArray[np.int32],  # [N], in frames
        num_modifications: NDArray[np.int32],  # [N]; each episode draws one
        options: BatchOptions,
        reset_set: NDArray[np.int32],  # [N], which of reset_snapshots; of the first modification
        reset_snapshots: Sequence[NDArray[np.uint8]],  # each [num_reset_states, state_size]
        log_capacity: int,  # entries of each write log
        lanes_per_warp: int,
        warps_per_block: int,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...  # of device memory
    @property
    def slot_bytes(self) -> int: ...  # of a slot of the pool
    @property
    def pool_bytes(self) -> int: ...  # of device memory, zeros at first
    @property
    def reserve_bytes(self) -> int: ...  # of host memory; 0: no reserve
    @property
    def console_bytes(self) -> int: ...  # of `bytes` for each environment
    @property
    def state_size(self) -> int: ...  # bytes of a snapshot
    # stride in bytes between environments; offsets of RAM, lives, episode frames
    @property
    def live(self) -> list[int]: ...
    @property
    def has_program(self) -> bool: ...  # a kernel compiled for the game runs the steps
    # on the device, for pictures that cannot stay logs, 1 to N; before `place_at`
    def set_pool_slots(self, slots: int) -> None: ...
    # what the beginning of the memory at `address` must hold, uint8
    def place_at(
        self, address: int, pool_address: int, reserve_address: int
    ) -> NDArray[np.uint8]: ...
    # indices: int32 [N], or joysticks: float32 [N, 4]
    def step(
        self, indices: int, joysticks: int, out: Outputs, faults: int, stream: int
    ) -> None: ...
    def decorrelate(self, max_steps: int, seed: int, faults: int, stream: int) -> None: ...
    # mask: bool [N], or 0 for all; seeds: int64 [N]
    def reset(self, mask: int, seeds: int, out: Outputs, stream: int) -> None: ...
    def observe(self, out: Outputs, stream: int) -> None: ...
    def load_program(self, code: builtins.bytes) -> None: ...
    @property
    def has_reset(self) -> bool: ...  # the environments have episodes
    def close(self) -> None: ...  # no launch after this; no kernel of this batch may be running
    # indices: int64 [n]; states: uint8 [n, state_size]; errors: uint8 [n]
    def gather_snapshots(self, indices: int, n: int, states: int, stream: int) -> None: ...
    def check_snapshots(
        self, indices: int, n: int, states: int, errors: int, stream: int
    ) -> None: ...
    def scatter_snapshots(self, indices: int, n: int, states: int, stream: int) -> None: ...
    # screens: colour register values, uint8; `stride` bytes between environments
    def draw_screens(
        self, indices: int, n: int, screens: int, stride: int, stream: int
    ) -> None: ...
    # rows: int16 [N, num_rows, 6]
    def write_objects(self, num_rows: int, rows: int, stream: int) -> None: ...

class XlaTarget:
    """Lets calls of XLA name a batch by a number, and keeps the batch; see `xla_handlers`."""

    # faults: address of the word that `step` gets; device: number of the GPU
    def __init__(self, batch: Batch, faults: int, num_actions: int, device: int) -> None: ...
    @property
    def id(self) -> int: ...

# capsules for jax.ffi.register_ffi_target, by name; bind_cuda_xla.cpp has their arguments
def xla_handlers() -> dict[str, object]: ...

# what the word at `faults` says
def fault_text(faults: int, num_actions: int) -> str: ...

# frames: uint8 [any, height, width]; index: int64 [stacks, stack]
# out: bfloat16 [stacks, height / 4, width / 4, 16 stack]
def gather_blocks(
    frames: int,
    index: int,
    stacks: int,
    stack: int,
    height: int,
    width: int,
    out: int,
    stream: int,
) -> None: ...

# float32 [steps, columns] each
def linear_recurrence(
    added: int, factors: int, steps: int, columns: int, out: int, stream: int
) -> None: ...
def kernel_resources() -> list[_KernelResources]: ...

# makes room for kernels that need `bytes` of local memory a thread; the bytes of all of it
def reserve_local_memory(bytes: int) -> int: ...

# why this module finds no device; None where it does
def unavailable_reason() -> str | None: ...

# the newest CUDA that the driver supports, as 1000 major + 10 minor; 0 without a driver
def driver_version() -> int: ...

# why a snapshot cannot be restored; `error` is what check_snapshots wrote
def snapshot_error_text(error: int, index: int, game_id: str) -> str: ...
