"""What `reset` and `step` return: the memory it lies in, and its form.

Observations are large, and users keep them for as long as they like. So each result gets a block of
its own, taken from a small pool; a block is used again only when nobody refers to it any more, not
even through a view or a tensor. The other results are rows of small tables, made anew for each
step.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cule import _core

#: Keys of ``info``, as in ale-py, and the rows of the result table that they are.
INFO_ROWS = {
    "env_id": _core.INT_ENV_ID,
    "lives": _core.INT_LIVES,
    "frame_number": _core.INT_FRAME_NUMBER,
    "episode_frame_number": _core.INT_EPISODE_FRAME_NUMBER,
}

#: Rows of the table of an ended episode that only ``final_info`` has.
FINAL_INFO_ROWS = {
    **INFO_ROWS,
    "episode_return": _core.INT_EPISODE_RETURN,
    "episode_length": _core.INT_EPISODE_LENGTH,
}


class FrameStep(NamedTuple):
    """Result of `AtariVectorEnv.step_frames`: one step, without stacking.

    N consoles, H x W pixels; arrays, or tensors with ``output="torch"``.
    """

    frame: Any
    """Newest frame, the one to choose the next action on; uint8 ``[N, H, W]``, RGB ``[N, H, W,
    3]``, RAM ``[N, 128]``. This is `out` where it was given."""

    reward: Any
    """Sum over the skipped frames, never clipped; float32 ``[N]``."""

    terminated: Any
    """The game is over, or a lost life counts as its end; bool ``[N]``."""

    truncated: Any
    """The episode was cut off; bool ``[N]``."""

    life_lost: Any
    """A life was lost in this step, and the game goes on; bool ``[N]``."""

    first: Any
    """`frame` is the first of an episode; bool ``[N]``."""

    final_frame: Any
    """Frame on which the old episode ended, as `frame`; meaningful where an episode ended."""

    episode_return: Any
    """Unclipped return of the episode that ended, or so far; float32 ``[N]``."""

    episode_length: Any
    """Steps of the episode that ended, or so far; int32 ``[N]``."""


class Tables(NamedTuple):
    """The small results of one call; arrays, or tensors of a GPU."""

    ints: Any  # int32 [INT_ROWS, n]
    flags: Any  # bool [FLAG_ROWS, n]


def new_tables(rows: int) -> Tables:
    """Tables for `rows` consoles, not yet filled."""
    return Tables(
        np.empty((_core.INT_ROWS, rows), np.int32), np.empty((_core.FLAG_ROWS, rows), np.bool_)
    )


def make_info(ints: NDArray[np.int32]) -> dict[str, Any]:
    """``info`` of a reset or step."""
    return {key: ints[row] for key, row in INFO_ROWS.items()}


def make_final_info(ints: NDArray[np.int32], ended: NDArray[np.bool_]) -> dict[str, Any]:
    """``final_info``: numbers of the episodes that ended, zero elsewhere, and Gymnasium's masks."""
    info: dict[str, Any] = {}
    for key, row in FINAL_INFO_ROWS.items():
        info[key] = np.where(ended, ints[row], 0)
        info[f"_{key}"] = ended
    return info


def _references(blocks: list[NDArray[np.uint8]], index: int) -> int:
    return sys.getrefcount(blocks[index])


#: What `_references` counts for a block that only the pool holds. Measured, because how many
#: references the call itself adds differs between versions of Python.
_IDLE = _references([np.empty(0, np.uint8)], 0)


class BlockPool:
    """Blocks of observation memory that are lent out and come back by themselves."""

    def __init__(self, shape: tuple[int, ...], keep: int = 8) -> None:
        """Make an empty pool.

        Args:
            shape: Shape of every block; uint8.
            keep: Most blocks that the pool holds on to. Users may hold any number beside them.
        """
        self._shape = shape
        self._keep = keep
        self._blocks: list[NDArray[np.uint8]] = []
        self._replaced = 0

    def take(self) -> NDArray[np.uint8]:
        """A view of a block that nobody else refers to; its bytes are unspecified."""
        blocks = self._blocks
        for index in range(len(blocks)):
            if _references(blocks, index) == _IDLE:
                block = blocks[index]
                return block[:]
        block = np.zeros(self._shape, np.uint8)
        if len(blocks) < self._keep:
            blocks.append(block)
        else:
            # Everything is in use for longer: let go of one, and hold the new block instead.
            blocks[self._replaced] = block
            self._replaced = (self._replaced + 1) % self._keep
        return block[:]
