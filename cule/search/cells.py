"""Cells: what makes two states the same to an archive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cule.envs.checks import Array, as_array, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidArgumentError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of the console's RAM.
RAM_BYTES = 128


def frame_cells(obs: Array, levels: int = 8) -> NDArray[np.uint8]:
    """Cells from grayscale observations with few pixels, as in Go-Explore: 11 x 8 of 8 shades.

    Args:
        obs: uint8 ``[N, stack, H, W]``, numpy or torch; the newest picture of a stack is taken.
            The environment scales it: ``img_height=11, img_width=8, stack_num=1``.
        levels: Shades, in 2..256.

    Returns:
        uint8 ``[N, H * W]``.

    Raises:
        InvalidArgumentError: Another dtype, shape or number of shades.
    """
    frames = to_numpy(obs)
    if getattr(frames, "ndim", 0) != 4 or frames.dtype != np.uint8 or not frames.shape[1]:
        shape, dtype = getattr(frames, "shape", ()), getattr(frames, "dtype", type(frames))
        raise InvalidArgumentError(
            f"obs has shape {tuple(shape)} and dtype {dtype}; it must be uint8 [N, stack, H, W], "
            "grayscale"
        )
    shades = frames[:, -1].astype(np.uint16) * as_int("levels", levels, 2, 256) // 256
    size = math.prod(frames.shape[2:])
    cells: NDArray[np.uint8] = shades.astype(np.uint8).reshape(len(frames), size)
    return cells


def ram_cells(
    ram: Array, addresses: Sequence[int], divisors: Sequence[int] | None = None
) -> NDArray[np.uint8]:
    """Cells from bytes of the console's RAM, such as the room and the position of a player.

    Args:
        ram: uint8 ``[N, 128]``, numpy or torch: `AtariVectorEnv.ram`.
        addresses: Which bytes, in 0..127, as in the observations of ``obs_type="ram"``.
        divisors: Of each byte, in 1..255, for coarser cells; by default all are 1.

    Returns:
        uint8 ``[N, len(addresses)]``.

    Raises:
        InvalidArgumentError: Another dtype, shape, address or divisor.
    """
    values = to_numpy(ram)
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        raise InvalidArgumentError(
            f"ram has shape {getattr(values, 'shape', ())}; it must be uint8 [N, {RAM_BYTES}]"
        )
    values = as_array("ram", values, "uint8", (len(values), RAM_BYTES))
    for name, numbers in (
        ("addresses", addresses),
        ("divisors", () if divisors is None else divisors),
    ):
        if not isinstance(numbers, Sequence):
            raise ArgumentTypeError(f"{name} is {shown(numbers)}; it must be a list of integers")
    chosen = [as_int("an address", address, 0, RAM_BYTES - 1) for address in addresses]
    by = [1] * len(chosen) if divisors is None else list(divisors)
    if not chosen or len(by) != len(chosen):
        raise InvalidArgumentError(
            f"there are {len(chosen)} addresses and {len(by)} divisors; each address has one"
        )
    steps = np.array([as_int("a divisor", step, 1, 255) for step in by], np.uint8)
    cells: NDArray[np.uint8] = values[:, chosen] // steps
    return cells


def as_cells(cells: object, num_envs: int) -> NDArray[np.uint8]:
    """Contiguous uint8 ``[N, K]``, or an error."""
    array = to_numpy(cells)
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
        raise ArgumentTypeError(
            f"cells is {type(cells).__name__} of {getattr(array, 'dtype', 'no dtype')}; it must be "
            "uint8 [N, K]"
        )
    if array.ndim != 2 or len(array) != num_envs or not array.shape[1]:
        raise InvalidArgumentError(
            f"cells has shape {array.shape}; it must be [{num_envs}, K], with K of at least 1"
        )
    return np.ascontiguousarray(array)
