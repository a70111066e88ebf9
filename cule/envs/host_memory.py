"""Memory of results on the CPU (`cule.envs.backend.Memory` of ``cule._core.Batch``).

Observations are large, and users keep them for as long as they like. So each result gets a block of
its own, from a small pool; the pool lends a block again only when nothing refers to it any more,
not even through a view or a tensor.

`check_memory` counts what a batch needs before it is allocated.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.device import free_address_bytes, free_host_bytes
from cule.envs.actions import continuous_actions, discrete_actions
from cule.envs.checks import Array
from cule.envs.options import EnvOptions
from cule.envs.plan import STEPS_ALIVE, BatchPlan, native_options, obs_dtype, results_bytes
from cule.envs.requests import frame_target
from cule.errors import InvalidArgumentError, OutOfMemoryError


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


def check_memory(plan: BatchPlan, options: EnvOptions) -> None:
    """Refuse a batch that does not fit.

    Raises:
        OutOfMemoryError: The message has the number of environments that fit.
    """
    native = native_options(plan, options)
    sizes = [_core.env_bytes(native, game.screen_height) for game in plan.games]
    num_envs = len(plan.game_index)
    results = STEPS_ALIVE * results_bytes(plan, options)
    counts = np.bincount(plan.game_index, minlength=len(plan.games))
    cached_bytes = 0
    if native.cached_resets:
        kinds = len(plan.reset_sets()[0].game_index)
        cached_bytes = kinds * options.num_reset_states * max(size.snapshot for size in sizes)
    for free, each in (
        (free_host_bytes(), [size.touched for size in sizes]),
        (free_address_bytes(), [size.mapped for size in sizes]),
    ):
        env_bytes = int(counts @ np.array(each, np.int64)) // num_envs + results
        needed = num_envs * env_bytes + cached_bytes
        if needed <= free:
            continue
        fit = max(free - cached_bytes, 0) // env_bytes
        cached = f" and {cached_bytes:,} for cached resets" if cached_bytes else ""
        raise OutOfMemoryError(
            f"num_envs is {num_envs}: {needed:,} bytes are needed, {env_bytes:,} for each "
            f"environment{cached}, and {free:,} are free; about {fit:,} environments fit"
        )
