"""Memory of results on a GPU (`cule.envs.backend.Memory` of `CudaBatch`).

Memory comes from torch's caching allocator, which makes no call to the device once it is warm, and
which a CUDA graph under capture redirects into its own pool. Nothing here reads a value back from
the device, except what `output` is "numpy" for.

`MemoryEstimate` counts what a batch needs before it is allocated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray

from cule import _core
from cule.envs.actions import (
    CONTINUOUS_SIZE,
    actions_shape,
    continuous_actions,
    discrete_actions,
)
from cule.envs.checks import Array
from cule.envs.errors import ActionShapeError, ArgumentTypeError
from cule.envs.options import EnvOptions
from cule.envs.plan import STEPS_ALIVE, BatchPlan, obs_dtype
from cule.envs.requests import check_rows
from cule.errors import CuleError, DeviceError, OutOfDeviceMemoryError
from cule.games.schema import LOG_ENTRIES

if TYPE_CHECKING:
    from cule import _cuda

#: Other bytes of an environment: its options, its place in a warp, a seed, an action, and numbers
#: that are converted for the caller.
SMALL_BYTES = 128

#: Torch's allocator rounds a request up to 2 MiB, or takes 20 MiB for several small ones.
ROUNDING_BYTES = 64 << 20

#: Slots of the pool for pictures that cannot stay logs (docs/gpu_memory.md): each environment has
#: one if all of them take at most this part of the free memory, because pinned host memory, where
#: the others are, takes seconds to allocate. Otherwise each has one up to this number, and at least
#: one in `ENVS_PER_SLOT` beyond it.
FREE_PART_FOR_SLOTS = 4
LEAST_SLOTS = 4096
ENVS_PER_SLOT = 16

#: Local memory of a thread of a compiled kernel: the most that was seen of any game, with 13.0, the
#: oldest NVRTC that is tested; 13.5 needs 8 bytes less.
COMPILED_LOCAL_BYTES = 2592


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


class DeviceOutputs(NamedTuple):
    """The tensors that a call writes to."""

    obs: torch.Tensor  # uint8 [N, ...], each row contiguous
    final_obs: torch.Tensor | None  # as obs
    ints: torch.Tensor  # int32 [int_rows(num_players), N]
    final_ints: torch.Tensor | None  # as ints
    flags: torch.Tensor  # bool [flag_rows(num_players), N]
    stacked: bool = True


class DeviceMemory:
    """Tensors of one GPU."""

    def __init__(self, plan: BatchPlan, options: EnvOptions, device: torch.device) -> None:
        """Serve a batch."""
        self._num_actions = len(plan.action_set)
        self._num_players = plan.num_players
        self._device = device
        self._is_numpy = options.output == "numpy"
        self._is_continuous = options.continuous
        self._obs_dtype = getattr(torch, obs_dtype(options).name)
        self._action_table: torch.Tensor | None = None
        if plan.action_table is not None:
            rows = plan.action_table[plan.game_index]
            self._action_table = torch.from_numpy(np.ascontiguousarray(rows)).to(device)

    def pool(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], torch.Tensor]:
        """Allocator of blocks of this shape; torch's allocator takes them back."""
        kind = getattr(torch, dtype.name)

        def make() -> torch.Tensor:
            with device_errors(self._device):
                return torch.empty(shape, dtype=kind, device=self._device)

        return make

    def outputs(
        self, obs: torch.Tensor, final_obs: torch.Tensor | None = None, stacked: bool = True
    ) -> DeviceOutputs:
        """Where a call writes: observations to blocks, numbers to new tables."""
        ints_shape = (_core.int_rows(self._num_players), len(obs))
        flags_shape = (_core.flag_rows(self._num_players), len(obs))
        with device_errors(self._device):
            ints = torch.empty(ints_shape, dtype=torch.int32, device=self._device)
            flags = torch.empty(flags_shape, dtype=torch.bool, device=self._device)
            final_ints = None if final_obs is None else torch.empty_like(ints)
        obs = obs.view(torch.uint8)
        if final_obs is not None:
            final_obs = final_obs.view(torch.uint8)
        return DeviceOutputs(obs, final_obs, ints, final_ints, flags, stacked)

    def wrap_obs(self, obs: torch.Tensor) -> Array:
        """`wrap` for the observations of `outputs`."""
        return self.wrap(obs.view(self._obs_dtype))

    def actions(self, actions: object, env_ids: NDArray[np.int32]) -> torch.Tensor:
        """Indices into the native action sets, int32 ``[N]``, or joysticks, float32 ``[N, 4]``.

        With several players the indices are ``[N, players]``.

        The kernel that uses them checks those of a tensor on the device.
        """
        with device_errors(self._device):
            if self._is_continuous:
                return self._joysticks(actions, len(env_ids))
            return self._indices(actions, len(env_ids))

    def wrap(self, tensor: torch.Tensor) -> Array:
        """The tensor, or a copy in a numpy array."""
        if not self._is_numpy:
            return tensor
        with device_errors(self._device):
            return tensor.cpu().numpy()

    wrap_read_only = wrap

    def as_float(self, row: torch.Tensor) -> torch.Tensor:
        """Numbers as float32."""
        return row.float()

    def may_have_ended(self, terminated: torch.Tensor, truncated: torch.Tensor) -> bool:
        """Whether ``info`` needs the entries of ended episodes: always, since a look would wait."""
        return True

    def _indices(self, actions: object, rows: int) -> torch.Tensor:
        size = self._num_actions
        if self._is_here(actions):
            kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
            shape = actions_shape(rows, self._num_players)
            if actions.dtype not in kinds or actions.shape != shape:
                raise _shape_error(actions, "integers", shape)
            native = actions.detach()
        else:
            checked = discrete_actions(actions, rows, size, self._num_players)
            native = torch.from_numpy(checked).to(self._device)
        if self._action_table is not None:
            inside = native.clamp(0, size - 1).long()
            native = self._action_table.gather(1, inside[:, None])[:, 0]
        return native.to(torch.int32).contiguous()

    def _joysticks(self, actions: object, rows: int) -> torch.Tensor:
        if not self._is_here(actions):
            checked = continuous_actions(actions, rows)
            return torch.from_numpy(np.ascontiguousarray(checked)).to(self._device)
        if actions.dtype != torch.float32 or actions.shape != (rows, CONTINUOUS_SIZE):
            raise _shape_error(actions, "float32", (rows, CONTINUOUS_SIZE))
        radius, angle, fire = actions.detach().nan_to_num().unbind(1)
        x, y = radius * torch.cos(angle), radius * torch.sin(angle)
        return torch.stack([x, y, fire, radius], dim=1).contiguous()

    def target(self, out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> torch.Tensor:
        """Memory of the user's to write frames to, checked."""
        if not self._is_here(out) or out.dtype != getattr(torch, dtype.name) or out.requires_grad:
            raise ArgumentTypeError(
                f"out is a {type(out).__name__} of {getattr(out, 'dtype', 'no dtype')} on "
                f"{getattr(out, 'device', 'no device')}; it must be a {dtype} tensor on "
                f"{self._device}, without grad"
            )
        check_rows(tuple(out.shape), out.stride(), shape)
        return out

    def _is_here(self, value: object) -> TypeGuard[torch.Tensor]:
        return isinstance(value, torch.Tensor) and value.device == self._device


def _shape_error(actions: torch.Tensor, dtype: str, shape: tuple[int, ...]) -> ActionShapeError:
    return ActionShapeError(
        f"actions is a tensor of {actions.dtype}, shape {tuple(actions.shape)}; it must be of "
        f"{dtype}, shape {shape}"
    )


def pool_slots(num_envs: int, short_frame_envs: int, room: int = 0) -> int:
    """Number of slots on the device.

    Args:
        num_envs: Environments.
        short_frame_envs: Environments of games that use a slot all the time.
        room: Slots that fit in one `FREE_PART_FOR_SLOTS` of the free memory.
    """
    if num_envs <= room:
        return num_envs
    return min(num_envs, short_frame_envs + max(LEAST_SLOTS, num_envs // ENVS_PER_SLOT))


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a batch on a GPU."""

    num_envs: int
    short_frame_envs: int
    """As in `pool_slots`."""
    batch_bytes: int
    """Of the batch's own memory, without the pool."""
    console_bytes: int
    """Of each environment in it."""
    slot_bytes: int
    """Of each slot of the pool."""
    room: int
    """As in `pool_slots`."""
    results_bytes: int
    """Of each environment in the results of a step."""

    @property
    def env_bytes(self) -> int:
        """Bytes per environment, without its part of the pool."""
        return self.console_bytes + SMALL_BYTES + STEPS_ALIVE * self.results_bytes

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool."""
        return self._pool_bytes(self.num_envs)

    @property
    def needed_bytes(self) -> int:
        """Everything."""
        return self._needed_bytes(self.num_envs)

    def fit(self, free_bytes: int) -> int:
        """Return the largest number of environments whose `needed_bytes` are free."""
        # What is needed grows up to `room`, drops there, and grows again.
        room = min(self.room, self.num_envs)
        beyond = range(room + 1, self.num_envs + 1)
        fit = bisect_right(beyond, free_bytes, key=self._needed_bytes)
        if fit:
            return room + fit
        return bisect_right(range(1, room + 1), free_bytes, key=self._needed_bytes)

    def _pool_bytes(self, num_envs: int) -> int:
        share = -(-self.short_frame_envs * num_envs // self.num_envs)
        return (self.slot_bytes + 4) * pool_slots(num_envs, share, self.room)

    def _needed_bytes(self, num_envs: int) -> int:
        shared_bytes = self.batch_bytes - self.num_envs * self.console_bytes + ROUNDING_BYTES
        return shared_bytes + num_envs * self.env_bytes + self._pool_bytes(num_envs)


def short_frame_envs(plan: BatchPlan) -> int:
    """Environments of games whose frames often end before their picture does."""
    return sum(plan.rules[game].short_frames for game in plan.game_index)


def log_capacity(plan: BatchPlan, options: EnvOptions) -> int:
    """Entries of each write log: as many as its game has needed, and some more.

    A log that is full is painted early, and the last entries are written by the interpreter. Both
    are exact, but slow. Sprites are those of the last log, so that it has the size of the host's.
    """
    if options.obs_type == "sprites":
        return LOG_ENTRIES
    entries = max(rules.log_entries for rules in plan.rules)
    return min(entries + entries // 32 + _core.LANE_QUIET_ENTRIES, LOG_ENTRIES)


def make_reserve(
    native: ModuleType, size: int, num_envs: int, most_without: int
) -> _cuda.HostMemory | None:
    """Host memory for pictures that find no slot on the device; None: each finds one.

    Args:
        native: The module `cule._cuda`.
        size: Bytes to allocate.
        num_envs: Environments of the batch.
        most_without: Environments that need none.

    Raises:
        OutOfDeviceMemoryError: The driver refuses.
    """
    if size == 0:
        return None
    try:
        memory: _cuda.HostMemory = native.HostMemory(size)
    except native.LaunchError as error:
        raise OutOfDeviceMemoryError(
            f"num_envs is {num_envs}: {size:,} bytes of pinned host memory are needed, which the "
            f"driver refuses ({error}); up to {most_without:,} environments need none"
        ) from None
    return memory
