"""Rows of objects computed from RAM for a batch, and boxes drawn on its screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.checks import Array, NativeArray, to_numpy
from cule.envs.plan import BatchPlan
from cule.games.language import OBJECT_COLUMNS
from cule.games.objects import load_objects


class CurrentObjects:
    """Computes the rows of ``obs_type="objects"`` from RAM."""

    def __init__(self, plan: BatchPlan, ram: Callable[[], NativeArray]) -> None:
        """Load the tables of the games of `plan`.

        Args:
            plan: Games of the environments.
            ram: Returns their RAM, uint8 ``[N, 128]``.

        Raises:
            InvalidArgumentError: A game has no table.
        """
        self._ram = ram
        tables = [load_objects(rules.game_id) for rules in plan.rules]
        self._words = [tables[game].words for game in plan.game_index]
        self._num_rows = max(len(table.slots) for table in tables)

    def rows(self, envs: Array) -> Array:
        """Objects of some environments, integers ``[n]``: int16 ``[n, K, 6]``, as observations."""
        ram, numbers = to_numpy(self._ram()), to_numpy(envs)
        rows = np.zeros((len(numbers), self._num_rows, len(OBJECT_COLUMNS)), np.int16)
        for row, env in zip(rows, numbers, strict=True):
            found = _core.objects_of(self._words[env], ram[env].tobytes())
            row[: len(found)] = found
        return rows

    def draw(self, screens: Iterable[NDArray[np.uint8]], level: int) -> None:
        """Draw the boxes of all environments on their screens; `level` as for `draw_boxes`."""
        for screen, rows in zip(screens, self.rows(np.arange(len(self._words))), strict=True):
            draw_boxes(screen, rows, level)


def draw_boxes(screen: NDArray[np.uint8], rows: NDArray[np.int16], level: int) -> None:
    """Draw the outlines of the boxes of visible objects on a screen.

    Args:
        screen: uint8 ``[H, W]`` or ``[H, W, 3]``, written to; outlines are within the boxes.
        rows: Objects, int16 ``[K, 6]``.
        level: What the pixels become.
    """
    for x, y, w, h, visible, _ in rows.tolist():
        if not visible or w < 1 or h < 1:
            continue
        across, down = slice(max(x, 0), max(x + w, 0)), slice(max(y, 0), max(y + h, 0))
        for row in (y, y + h - 1):
            if 0 <= row < screen.shape[0]:
                screen[row, across] = level
        for column in (x, x + w - 1):
            if 0 <= column < screen.shape[1]:
                screen[down, column] = level
