"""Observation pieces: palettes, area resize against a numpy model, colour averaging.

The model of the resize states obs/NOTES.md 3 on whole arrays. The core states it byte by byte, and
again in whole numbers; `tests/cpp/resize_versions.cpp` holds those two together.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cule import _core
from roms_tools import make_palettes
from tests.support.cases import long_except

Image = NDArray[np.uint8]

WIDTH = 160
HEIGHTS = (210, 214, 220, 230, 250)
SIZES = (  # height, width
    (84, 84),
    (96, 72),
    (96, 80),
    (64, 64),
    (105, 80),
    (105, 84),
    (210, 84),
    (210, 160),
    (105, 160),
    (210, 80),
    (70, 40),
    (42, 32),
    (84, 160),
    (128, 128),
    (200, 159),
    (7, 1),
    (1, 1),
    (1, 160),
    (2, 80),
)


# --- area resize --------------------------------------------------------------------------------


def axis_scale(source: int, target: int) -> float:
    """Source pixels of a target pixel; below 210 for 210 to 1, whose quotient is rounded."""
    return 1.0 / (target / source)


def axis_taps(source: int, target: int) -> list[list[tuple[int, float]]]:
    """Source indices and weights of every target index, in the order they are added up."""
    scale = axis_scale(source, target)
    taps = []
    for index in range(target):
        begin = index * scale
        end = begin + scale
        cell = min(scale, source - begin)
        last = min(math.floor(end), source - 1)
        first = min(math.ceil(begin), last)
        head = [(first - 1, (first - begin) / cell)] if first - begin > 1e-3 else []
        whole = [(s, 1.0 / cell) for s in range(first, last)]
        tail = [(last, min(end - last, 1.0, cell) / cell)] if end - last > 1e-3 else []
        taps.append(head + whole + tail)
    return taps


def padded_taps(
    source: int, target: int, extra_axes: int
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """The k-th tap of every target index, for each k; weight zero where there is none."""
    taps = axis_taps(source, target)
    columns = []
    for k in range(max(map(len, taps))):
        kth = [t[k] if k < len(t) else (0, 0.0) for t in taps]
        weights = np.array([w for _, w in kth], np.float32)
        columns.append((np.array([s for s, _ in kth]), weights.reshape(-1, *[1] * extra_axes)))
    return columns


def model_resize(image: Image, height: int, width: int) -> Image:
    """The area resize of obs/NOTES.md 3."""
    rows, columns = image.shape[:2]
    if axis_scale(rows, height).is_integer() and axis_scale(columns, width).is_integer():
        blocks = image.reshape(height, rows // height, width, columns // width, -1)
        sums = blocks.astype(np.int64).sum((1, 3)).reshape(height, width, *image.shape[2:])
        area = blocks.shape[1] * blocks.shape[3]
        if blocks.shape[1] == blocks.shape[3] == 2:
            return ((sums + 2) >> 2).astype(np.uint8)
        return np.rint(sums.astype(np.float32) * np.float32(1 / area)).astype(np.uint8)
    levels = image.astype(np.float32)
    across = np.zeros((rows, width, *image.shape[2:]), np.float32)
    for index, weight in padded_taps(columns, width, image.ndim - 2):
        across += levels[:, index] * weight
    value = np.zeros((height, *across.shape[1:]), np.float32)
    for index, weight in padded_taps(rows, height, image.ndim - 1):
        value += across[index] * weight
    return np.clip(np.rint(value), 0, 255).astype(np.uint8)


def count_ties(image: Image, height: int, width: int) -> int:
    """Target bytes of a gray image that lie half way between two levels in exact arithmetic."""

    def whole_weights(source: int, target: int) -> NDArray[np.int64]:
        unit = source // math.gcd(source, target)
        matrix = np.zeros((target, source), np.int64)
        for index, taps in enumerate(axis_taps(source, target)):
            for s, weight in taps:
                matrix[index, s] = round(weight * unit)
        assert (matrix.sum(1) == unit).all()
        return matrix

    rows, columns = image.shape
    sums = whole_weights(rows, height) @ image.astype(np.int64) @ whole_weights(columns, width).T
    unit = rows // math.gcd(rows, height) * (columns // math.gcd(columns, width))
    return int((2 * (sums % unit) == unit).sum())


def make_images(height: int, channels: int) -> list[Image]:
    """Noise, flat areas with hard edges, and pictures of few levels, which are full of ties."""
    rng = np.random.default_rng(height * 4 + channels)
    shape = (height, WIDTH) if channels == 1 else (height, WIDTH, channels)
    coarse = rng.integers(0, 256, (height // 6 + 1, WIDTH // 5, *shape[2:]), np.uint8)
    images = [
        rng.integers(0, 256, shape, np.uint8),
        coarse.repeat(6, 0).repeat(5, 1)[:height],
        np.full(shape, 255, np.uint8),
    ]
    few = ((0, 255), (0, 1), (254, 255), (0, 2, 74, 148), (0, 1, 254, 255))
    images += [rng.choice(np.array(levels, np.uint8), shape) for levels in few]
    return images


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rows", long_except(HEIGHTS, every=2))
def test_resize_equals_model(rows: int, channels: int) -> None:
    images = make_images(rows, channels)
    for height, width in (*SIZES, (rows, WIDTH), (rows // 2, WIDTH // 2)):
        for number, image in enumerate(images):
            ours = _core.area_resize(image, height, width)
            assert ours.dtype == np.uint8
            np.testing.assert_array_equal(
                ours, model_resize(image, height, width), f"image {number} to {height}x{width}"
            )


@pytest.mark.parametrize("rows", long_except(HEIGHTS, every=2))
def test_ties_are_decided_as_float32_does(rows: int) -> None:
    rng = np.random.default_rng(rows)
    ties = 0
    for level in range(0, 255, 5):
        image = rng.choice(np.array([level, level + 1, 255 - level], np.uint8), (rows, WIDTH))
        # Pairs of equal lines, so that ties also fall into target rows that repeat the one before.
        image[1::2] = image[: rows - rows % 2 : 2]
        image[rows // 2 :] = image[rows // 2]
        ties += count_ties(image, 84, 84)
        np.testing.assert_array_equal(
            _core.area_resize(image, 84, 84), model_resize(image, 84, 84), f"level {level}"
        )
    assert ties > 100


def test_half_size_rounds_up_and_larger_blocks_round_to_even() -> None:
    image = np.zeros((210, WIDTH), np.uint8)
    image[0, 0:2] = 1  # 2 of 4
    assert _core.area_resize(image, 105, 80)[0, 0] == 1
    assert _core.area_resize(image, 210, 80)[0, 0] == 1
    assert _core.area_resize(image, 105, 160)[0, 0] == 0  # 1 of 2
    image[0:3, 0:2] = 1  # 6 of 12
    assert _core.area_resize(image, 70, 40)[0, 0] == 0
    image[0:3, 0:4] = 1
    image[0:3, 0:2] = 2  # 18 of 12
    assert _core.area_resize(image, 70, 40)[0, 0] == 2


def test_resize_does_not_look_beyond_its_rows() -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (210, WIDTH), np.uint8)
    before = _core.area_resize(image, 84, 84)
    image[5:] ^= 0xFF  # target rows 0 and 1 are made of source rows 0 to 4
    after = _core.area_resize(image, 84, 84)
    np.testing.assert_array_equal(after[:2], before[:2])
    assert (after[2:] != before[2:]).any(axis=1).all()


@pytest.mark.parametrize(("height", "width"), [(211, 84), (84, 161), (0, 84), (84, 0), (-1, 84)])
def test_resize_rejects_impossible_sizes(height: int, width: int) -> None:
    with pytest.raises(ValueError, match=r"(?i)height|width|size"):
        _core.area_resize(np.zeros((210, WIDTH), np.uint8), height, width)


# --- palettes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make_palettes.FORMATS)
def test_palette_is_the_data(name: str) -> None:
    expected = np.array(make_palettes.read_palettes()[name], np.uint8)
    ours = _core.palette(name)
    assert ours.dtype == np.uint8
    np.testing.assert_array_equal(ours, expected)


# --- colour averaging ---------------------------------------------------------------------------


def model_average(palette: Image, current: Image, previous: Image) -> Image:
    """The colour averaging of obs/NOTES.md 2, pair by pair."""
    colours = palette[:, :3].astype(np.int64)
    out = np.zeros_like(current)
    pairs = np.unique(np.stack([current.ravel(), previous.ravel()], 1), axis=0)
    for a, b in pairs:
        high, low = np.maximum(colours[a], colours[b]), np.minimum(colours[a], colours[b])
        mixed = (77 * (high - low) // 100 + low) & ~3
        distance = np.abs(colours[::2] - mixed).sum(1)
        out[(current == a) & (previous == b)] = 2 * distance.argmin()
    return out


@pytest.mark.ale
@pytest.mark.parametrize(
    ("game", "name"),
    long_except([("pong", "NTSC"), ("ms_pacman", "NTSC"), ("klax", "PAL")], ("klax", "PAL")),
)
def test_averaging_mixes_with_the_frame_before(game: str, name: str) -> None:
    from ale_py import roms

    import cule

    consoles = []
    for is_averaging in (False, True):
        ale = cule.ALEInterface()
        ale.setInt("random_seed", 3)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.setBool("color_averaging", is_averaging)
        ale.loadROM(roms.get_rom_path(game))
        consoles.append(ale)
    plain, averaging = consoles
    actions = plain.getMinimalActionSet()
    rng = np.random.default_rng(0)
    palette = _core.palette(name)
    previous = plain.getScreen().copy()
    mixed_pixels = 0
    for frame in range(40):
        action = actions[rng.integers(len(actions))]
        for ale in consoles:
            ale.act(action)
        current = plain.getScreen().copy()
        np.testing.assert_array_equal(
            averaging.getScreen(), model_average(palette, current, previous), f"frame {frame}"
        )
        mixed_pixels += int((current != previous).sum())
        previous = current
    assert mixed_pixels > 0
