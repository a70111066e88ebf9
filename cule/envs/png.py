"""A writer of PNG files (PNG specification, 3rd edition: 8 bits, no filter, one data chunk)."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BIT_DEPTH = 8
_COLOUR_TYPE_RGB = 2
_COLOUR_TYPE_INDEXED = 3


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a PNG file of pixels, uint8 ``[H, W, 3]``."""
    height, width, _ = pixels.shape
    header = _header(width, height, _COLOUR_TYPE_RGB)
    return _file((b"IHDR", header), (b"IDAT", _data(pixels, level=9)))


def encode_indexed_png(
    pixels: NDArray[np.uint8], palette: NDArray[np.uint8], level: int = 9
) -> bytes:
    """The bytes of a PNG file of colour numbers.

    Args:
        pixels: Rows of the palette, uint8 ``[H, W]``.
        palette: uint8 ``[n, 3]``, n at most 256 and above every pixel.
        level: How hard zlib tries, 0 to 9.
    """
    height, width = pixels.shape
    header = _header(width, height, _COLOUR_TYPE_INDEXED)
    data = _data(pixels, level)
    return _file((b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", data))


def encode_animation(
    frames: NDArray[np.uint8], palette: NDArray[np.uint8], milliseconds: int
) -> bytes:
    """The bytes of a PNG file that plays in an endless loop; some programs show its first frame.

    A frame has what differs from the one before it and is transparent elsewhere (PNG
    specification, 3rd edition, section 4.9: blended over the frame before).

    Args:
        frames: Rows of the palette, uint8 ``[T, H, W]``, below 255.
        palette: uint8 ``[n, 3]``, n at most 255 and above every pixel.
        milliseconds: Time of a frame.

    Raises:
        ValueError: A pixel has no colour.
    """
    clear = len(palette)
    if frames.max() >= clear:
        raise ValueError(
            f"a pixel is {frames.max()}; of {clear} colours the numbers are from 0 to {clear - 1}"
        )
    colours = np.vstack([palette, np.zeros((1, 3), np.uint8)])
    _, height, width = frames.shape
    chunks = [
        (b"IHDR", _header(width, height, _COLOUR_TYPE_INDEXED)),
        (b"acTL", struct.pack(">II", len(frames), 0)),
        (b"PLTE", colours.tobytes()),
        (b"tRNS", b"\xff" * clear + b"\0"),
    ]
    place = (width, height, 0, 0, milliseconds, 1000, 0, 1)
    for number, frame in enumerate(frames):
        control = struct.pack(">IIIIIHHBB", max(2 * number - 1, 0), *place)
        chunks.append((b"fcTL", control))
        if number == 0:
            chunks.append((b"IDAT", _data(frame, level=9)))
        else:
            changes = np.where(frame == frames[number - 1], np.uint8(clear), frame)
            chunks.append((b"fdAT", struct.pack(">I", 2 * number) + _data(changes, level=9)))
    return _file(*chunks)


def _header(width: int, height: int, colour_type: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, _BIT_DEPTH, colour_type, 0, 0, 0)


def _data(pixels: NDArray[np.uint8], level: int) -> bytes:
    """Lines of pixels, each behind the byte that says how it is filtered."""
    no_filter = np.zeros((len(pixels), 1), np.uint8)
    lines = np.hstack([no_filter, np.ascontiguousarray(pixels).reshape(len(pixels), -1)])
    return zlib.compress(lines.tobytes(), level)


def _file(*chunks: tuple[bytes, bytes]) -> bytes:
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in (*chunks, (b"IEND", b"")))


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
