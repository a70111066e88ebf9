"""Where results lie and how actions are read, for consoles on the CPU.

`cule.envs.device_memory` has the same methods for a GPU; `AtariVectorEnv` uses one or the other and
is otherwise the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs import actions as action_checks
from cule.envs.output import Output
from cule.envs.plan import BatchPlan
from cule.envs.requests import frame_target
from cule.envs.results import BlockPool, Tables, make_final_info, new_tables


class HostMemory:
    """Arrays of the CPU, given out as what `output` asks for."""

    def __init__(self, plan: BatchPlan, output: Output) -> None:
        """Serve a batch."""
        self._plan = plan
        self._output = output
        self.wrap = output.wrap
        self.wrap_all = output.wrap_all
        self.wrap_read_only = output.wrap_read_only

    def pool(self, shape: tuple[int, ...]) -> BlockPool:
        """Lends blocks of uint8 memory of this shape."""
        return BlockPool(shape)

    def tables(self, rows: int) -> Tables:
        """Result tables, not yet filled."""
        return new_tables(rows)

    def final_ints(self, tables: Tables) -> NDArray[np.int32]:
        """A table for the numbers of ended episodes, not yet filled."""
        table: NDArray[np.int32] = np.empty_like(tables.ints)
        return table

    def as_float(self, row: NDArray[np.int32]) -> NDArray[np.float32]:
        """Numbers as float32."""
        return row.astype(np.float32)

    def may_have_ended(self, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> bool:
        """Whether ``info`` needs the entries of ended episodes."""
        return bool(np.count_nonzero(terminated) or np.count_nonzero(truncated))

    def final_info(self, ints: NDArray[np.int32], ended: NDArray[np.bool_]) -> dict[str, Any]:
        """``final_info`` of the consoles that ended."""
        return make_final_info(ints, ended)

    def env_ids(self, tables: Tables) -> NDArray[np.int32]:
        """Which consoles these results are of; a copy."""
        return np.array(tables.ints[_core.INT_ENV_ID])

    def indices(self, actions: Any, rows: int, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Checked indices into the native action sets, int32 ``[rows]``."""
        size = len(self._plan.action_set)
        native = action_checks.discrete_actions(actions, rows, size)
        table = self._plan.action_table
        return native if table is None else table[self._plan.game_index[ids], native]

    def fill(
        self, target: NDArray[np.uint8], source: NDArray[np.uint8], rows: NDArray[np.bool_]
    ) -> None:
        """Copy some rows, bool ``[N]``, of one block of frames into another."""
        target[rows] = source[rows]

    def joysticks(self, actions: Any, rows: int) -> NDArray[np.float32]:
        """Checked joystick rows, float32 ``[rows, 4]``."""
        return action_checks.continuous_actions(actions, rows)

    def target(self, out: Any, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Checked memory of the user's to write frames to."""
        return frame_target(out, shape)
