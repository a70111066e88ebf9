"""Memory of results on a GPU (`cule.envs.backend.Memory` of `CudaBatch`).

Memory comes from torch's caching allocator, which makes no call to the device once it is warm, and
which a CUDA graph under capture redirects into its own pool. Nothing here reads a value back from
the device, except what `output` is "numpy" for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

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
from cule.envs.arrays import Array
from cule.envs.device_errors import device_errors
from cule.envs.errors import ActionShapeError, ArgumentTypeError
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, int_rows
from cule.envs.requests import check_rows


class DeviceOutputs(NamedTuple):
    """The tensors that a call writes to."""

    obs: torch.Tensor  # uint8 [N, ...], each row contiguous
    final_obs: torch.Tensor | None  # as obs
    ints: torch.Tensor  # int32 [int_rows(num_players), N]
    final_ints: torch.Tensor | None  # as ints
    flags: torch.Tensor  # bool [FLAG_ROWS, N]
    stacked: bool = True


class DeviceMemory:
    """Tensors of one GPU."""

    def __init__(self, plan: BatchPlan, options: EnvOptions, device: torch.device) -> None:
        """Serve a batch."""
        self._num_actions = len(plan.action_set)
        self._num_players = plan.num_players
        self._int_rows = int_rows(plan.num_players)
        self._device = device
        self._is_numpy = options.output == "numpy"
        self._is_continuous = options.continuous
        self._action_table: torch.Tensor | None = None
        if plan.action_table is not None:
            rows = plan.action_table[plan.game_index]
            self._action_table = torch.from_numpy(np.ascontiguousarray(rows)).to(device)

    def pool(self, shape: tuple[int, ...]) -> Callable[[], torch.Tensor]:
        """Allocator of uint8 blocks of this shape; torch's allocator takes them back."""

        def make() -> torch.Tensor:
            with device_errors(self._device):
                return torch.empty(shape, dtype=torch.uint8, device=self._device)

        return make

    def outputs(
        self, obs: torch.Tensor, final_obs: torch.Tensor | None = None, stacked: bool = True
    ) -> DeviceOutputs:
        """Where a call writes: observations to blocks, numbers to new tables."""
        with device_errors(self._device):
            ints = torch.empty((self._int_rows, len(obs)), dtype=torch.int32, device=self._device)
            flags = torch.empty((_core.FLAG_ROWS, len(obs)), dtype=torch.bool, device=self._device)
            final_ints = None if final_obs is None else torch.empty_like(ints)
        return DeviceOutputs(obs, final_obs, ints, final_ints, flags, stacked)

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

    def target(self, out: object, shape: tuple[int, ...]) -> torch.Tensor:
        """Memory of the user's to write frames to, checked."""
        if not self._is_here(out) or out.dtype != torch.uint8 or out.requires_grad:
            raise ArgumentTypeError(
                f"out is a {type(out).__name__} of {getattr(out, 'dtype', 'no dtype')} on "
                f"{getattr(out, 'device', 'no device')}; it must be a uint8 tensor on "
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
