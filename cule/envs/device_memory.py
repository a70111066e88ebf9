"""Where results lie and how actions are read, for consoles on a GPU (see `cule.envs.memory`).

Memory comes from torch's caching allocator, which makes no call to the device once it is warm, and
which a CUDA graph under capture redirects into its own pool. Nothing here reads a value back from
the device, except what `output` is "numpy" for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cule import _core
from cule.envs import actions as action_checks
from cule.envs.compat_errors import ActionShapeError, ArgumentTypeError
from cule.envs.plan import BatchPlan
from cule.envs.results import FINAL_INFO_ROWS, Tables
from cule.errors import InvalidArgumentError


class _DevicePool:
    """Lends blocks; torch's allocator takes them back."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self._shape = shape
        self._device = device

    def take(self) -> torch.Tensor:
        return torch.empty(self._shape, dtype=torch.uint8, device=self._device)


class DeviceMemory:
    """Tensors of one GPU."""

    def __init__(self, plan: BatchPlan, device: torch.device, output: str) -> None:
        """Serve a batch."""
        self._plan = plan
        self._device = device
        self._is_numpy = output == "numpy"
        self._action_table = None
        if plan.action_table is not None:
            rows = plan.action_table[plan.game_index]
            self._action_table = torch.from_numpy(np.ascontiguousarray(rows)).to(device)

    def wrap(self, tensor: Any) -> Any:
        """What the user gets."""
        return tensor.cpu().numpy() if self._is_numpy else tensor

    def wrap_all(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """`wrap` for every value of a dict."""
        return {key: self.wrap(tensor) for key, tensor in tensors.items()}

    def wrap_read_only(self, tensor: Any) -> Any:
        """`wrap` for memory that is not to be written to."""
        return self.wrap(tensor)

    def pool(self, shape: tuple[int, ...]) -> _DevicePool:
        """Lends blocks of uint8 memory of this shape."""
        return _DevicePool(shape, self._device)

    def tables(self, rows: int) -> Tables:
        """Result tables, not yet filled."""
        return Tables(
            torch.empty((_core.INT_ROWS, rows), dtype=torch.int32, device=self._device),
            torch.empty((_core.FLAG_ROWS, rows), dtype=torch.bool, device=self._device),
        )

    def final_ints(self, tables: Tables) -> Any:
        """A table for the numbers of ended episodes, not yet filled."""
        return torch.empty_like(tables.ints)

    def as_float(self, row: Any) -> Any:
        """Numbers as float32."""
        return row.float()

    def may_have_ended(self, terminated: Any, truncated: Any) -> bool:
        """Whether ``info`` needs the entries of ended episodes: always, for looking would wait."""
        return True

    def final_info(self, ints: Any, ended: Any) -> dict[str, Any]:
        """``final_info`` of the consoles that ended."""
        info: dict[str, Any] = {}
        for key, row in FINAL_INFO_ROWS.items():
            info[key] = torch.where(ended, ints[row], 0)
            info[f"_{key}"] = ended
        return info

    def env_ids(self, tables: Tables) -> NDArray[np.int32]:
        """Which consoles these results are of: all, in order."""
        return np.arange(tables.ints.shape[1], dtype=np.int32)

    def indices(self, actions: Any, rows: int, ids: NDArray[np.int32]) -> torch.Tensor:
        """Indices into the native action sets, int32 ``[rows]``.

        Those of a tensor on the device are checked by the kernel that uses them.
        """
        size = len(self._plan.action_set)
        if self._is_here(actions):
            kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
            if actions.dtype not in kinds or actions.shape != (rows,):
                raise ActionShapeError(
                    f"actions is a tensor of {actions.dtype}, shape {tuple(actions.shape)}; it "
                    f"must be of integers, shape ({rows},)"
                )
            native = actions.detach()
        else:
            native = torch.from_numpy(action_checks.discrete_actions(actions, rows, size))
            native = native.to(self._device)
        if self._action_table is not None:
            inside = native.clamp(0, size - 1).long()
            native = self._action_table.gather(1, inside[:, None])[:, 0]
        indices: torch.Tensor = native.to(torch.int32).contiguous()
        return indices

    def fill(self, target: torch.Tensor, source: torch.Tensor, rows: torch.Tensor) -> None:
        """Copy some rows, bool ``[N]``, of one block of frames into another."""
        mask = rows.view(-1, *(1,) * (source.dim() - 1))
        torch.where(mask, source, target, out=target)

    def joysticks(self, actions: Any, rows: int) -> torch.Tensor:
        """Joystick rows, float32 ``[rows, 4]``."""
        if not self._is_here(actions):
            checked = action_checks.continuous_actions(actions, rows)
            return torch.from_numpy(np.ascontiguousarray(checked)).to(self._device)
        if actions.dtype != torch.float32 or actions.shape != (rows, action_checks.CONTINUOUS_SIZE):
            raise ActionShapeError(
                f"actions is a tensor of {actions.dtype}, shape {tuple(actions.shape)}; it must be "
                f"of float32, shape ({rows}, {action_checks.CONTINUOUS_SIZE})"
            )
        radius, angle, fire = actions.detach().nan_to_num().unbind(1)
        x, y = radius * torch.cos(angle), radius * torch.sin(angle)
        return torch.stack([x, y, fire, radius], dim=1).contiguous()

    def target(self, out: Any, shape: tuple[int, ...]) -> torch.Tensor:
        """Checked memory of the user's to write frames to."""
        if not self._is_here(out) or out.dtype != torch.uint8 or out.requires_grad:
            raise ArgumentTypeError(
                f"out is a {type(out).__name__} of {getattr(out, 'dtype', 'no dtype')} on "
                f"{getattr(out, 'device', 'no device')}; it must be a uint8 tensor on "
                f"{self._device}, without grad"
            )
        if tuple(out.shape) != shape:
            raise InvalidArgumentError(f"out has shape {tuple(out.shape)}; it must be {shape}")
        if len(out) > 1 and out.stride(0) < out[0].numel():
            raise InvalidArgumentError(f"out has strides {out.stride()}; its rows overlap")
        if not out[0].is_contiguous():
            raise InvalidArgumentError(
                f"out has strides {out.stride()}; each of its rows must be contiguous"
            )
        checked: torch.Tensor = out
        return checked

    def _is_here(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device == self._device
