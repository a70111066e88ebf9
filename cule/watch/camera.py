"""All screens as one picture: a mosaic of palette indices, as a PNG file."""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.boxes import CurrentObjects
from cule.envs.checks import to_numpy
from cule.envs.plan import plan_batch
from cule.envs.png import encode_indexed_png
from cule.envs.vector_env import BatchEnv

#: zlib's level for screens: 3 is as fast as 1, and its files are a quarter smaller.
_COMPRESSION_LEVEL = 3

#: A palette index of both formats.
_WHITE = 0x0E


class Picture:
    """One mosaic. Any thread may request its bytes, which are encoded once.

    Attributes:
        number: Number of the picture; later ones have larger numbers.
    """

    def __init__(self, number: int, pixels: NDArray[np.uint8], palette: NDArray[np.uint8]) -> None:
        """Store palette indices, uint8 ``[H, W]``, and the palette, uint8 ``[256, 3]``."""
        self.number = number
        self._pixels, self._palette = pixels, palette
        self._lock = threading.Lock()
        self._png: bytes | None = None

    def png(self) -> bytes:
        """The bytes of a PNG file."""
        with self._lock:
            if self._png is None:
                self._png = encode_indexed_png(self._pixels, self._palette, _COMPRESSION_LEVEL)
            return self._png


class Camera:
    """Renders the environments of one game; for one thread.

    Attributes:
        columns: Screens in a row of a picture; environment i is in column i % columns.
    """

    def __init__(self, env: BatchEnv, *, boxes: bool = False) -> None:
        """Prepare to render `env`, with the boxes of its objects if asked for."""
        self._env = env
        self.columns = math.ceil(math.sqrt(env.num_envs))
        plan = plan_batch(env.config)
        (game,) = plan.games
        self._objects = CurrentObjects(plan, lambda: env.ram) if boxes else None
        self._palette = np.ascontiguousarray(_core.palette(game.format)[:, :3])

    def render(self, number: int) -> Picture:
        """The screens after the last frame, as the picture of a number."""
        screens: NDArray[np.uint8] = to_numpy(self._env.screens("index"))
        if self._objects is not None:
            self._objects.draw(screens, _WHITE)
        return Picture(number, tile(screens, self.columns), self._palette)


def tile(screens: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Arrange screens ``[n, H, W]`` in rows ``[rows * H, columns * W]``, filled up with index 0."""
    count, height, width = screens.shape
    rows = -(-count // columns)
    filled = np.zeros((rows * columns, height, width), np.uint8)
    filled[:count] = screens
    grid = filled.reshape(rows, columns, height, width)
    return np.ascontiguousarray(grid.swapaxes(1, 2)).reshape(rows * height, columns * width)
