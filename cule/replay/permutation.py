"""A keyed random permutation of 0 ... V-1 with random access, where V is on the device.

The numbers form a grid with rows of ``a = ceil(sqrt(V))``; the last row may be short. Each round
rotates every row by an amount that depends on the row and the key, then every column likewise. A
rotation is a bijection of the ragged grid, so the whole is one for every V, in a fixed number of
operations: no list of V numbers, no retries, no value read by the host.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 6

# Odd constants of a multiplicative hash, as signed 64-bit numbers.
_MULTIPLY_A = -7046029254386353131
_MULTIPLY_B = -4658895280553007687


def _hashed(value: Tensor, key: Tensor, turn: int) -> Tensor:
    """Pseudorandom non-negative int64 of a value, key and turn."""
    mixed = (value + key + turn * 0x51ED270B) * _MULTIPLY_A
    mixed = (mixed ^ ((mixed >> 32) & 0xFFFFFFFF)) * _MULTIPLY_B
    return (mixed >> 29) & 0x7FFFFFFF


def permuted(position: Tensor, size: Tensor, key: Tensor) -> Tensor:
    """The numbers at positions of the order of 0 ... size-1 that a key selects; all int64.

    `position` has any shape; `size` is from 1 to below 2**52.
    """
    width = torch.ceil(torch.sqrt(size.to(torch.float64))).to(torch.int64)
    full_rows = size // width
    last_width = size - full_rows * width  # 0 if the last row is full
    value = position
    for turn in range(ROUNDS):
        row, column = value // width, value % width
        row_width = torch.where(row < full_rows, width, last_width.clamp(min=1))
        column = (column + _hashed(row, key, 2 * turn)) % row_width
        height = full_rows + (column < last_width).to(torch.int64)
        row = (row + _hashed(column, key, 2 * turn + 1)) % height
        value = row * width + column
    return value
