"""A writer of PNG files (PNG specification, 3rd edition: 8-bit RGB, no filter, one data chunk)."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BIT_DEPTH = 8
_COLOUR_TYPE_RGB = 2


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a PNG file.

    Args:
        pixels: uint8 ``[H, W, 3]``.
    """
    height, width, _ = pixels.shape
    no_filter = np.zeros((height, 1), np.uint8)
    lines = np.hstack([no_filter, np.ascontiguousarray(pixels).reshape(height, -1)])
    header = struct.pack(">IIBBBBB", width, height, _BIT_DEPTH, _COLOUR_TYPE_RGB, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
