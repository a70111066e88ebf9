"""Random programs under both: RAM, picture, reward, lives and game over equal on every frame.

The programs come from `tests.support.random_programs`; a failure names kind and seed, which make the same image
again. Resets come in the middle too, when a frame may be unfinished.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.support.cases import long_except
from tests.support.programs import ale_console, core_console
from tests.support.random_programs import (
    CARTRIDGES,
    random_bytes_image,
    random_image,
    random_start_image,
)

pytestmark = pytest.mark.ale

WRITERS = {"program": random_image, "bytes": random_bytes_image, "start": random_start_image}
FRAMES = 40
RESET_EVERY = 23  # frames, on average
ACTIONS = 18


def check_program(kind: str, writer: str, seed: int, folder: Path, frames: int = FRAMES) -> str:
    """Run one program under both; says whether it turned out NTSC or PAL."""
    what = f"{writer} {kind} {seed}"
    rom = WRITERS[writer](seed, kind)
    ale, console = ale_console(rom, folder), core_console(rom)
    rng = random.Random(what)

    def check(moment: str) -> None:
        ram, expected = console.ram(), ale.getRAM()
        cells = np.nonzero(ram != expected)[0]
        assert cells.size == 0, f"{what}, {moment}: RAM differs at {[hex(0x80 + i) for i in cells]}"
        assert console.lives() == ale.lives(), f"{what}, {moment}: lives"
        assert console.game_over() == ale.game_over(), f"{what}, {moment}: game over"
        screen, expected = console.screen_index(), ale.getScreen()
        assert screen.shape == expected.shape, f"{what}, {moment}: screen height"
        pixels = np.argwhere(screen != expected)
        assert pixels.size == 0, f"{what}, {moment}: {len(pixels)} pixels, first {pixels[0]}"

    check("after loading")
    for frame in range(frames):
        if ale.game_over() or rng.random() < 1 / RESET_EVERY:
            ale.reset_game()
            console.reset_game()
            check(f"reset before frame {frame}")
        action = rng.randrange(ACTIONS)
        assert console.act(action) == ale.act(action), f"{what}, frame {frame}: reward"
        check(f"frame {frame}")
    return "NTSC" if console.screen_index().shape[0] == 210 else "PAL"


@pytest.mark.parametrize("writer", long_except(WRITERS, "program", "start"))
@pytest.mark.parametrize("part", long_except(range(10), 0))
def test_4k_programs(writer: str, part: int, tmp_path: Path) -> None:
    formats = {check_program("4K", writer, seed, tmp_path) for seed in range(part, 100, 10)}
    assert formats == {"NTSC", "PAL"}


@pytest.mark.parametrize("writer", long_except(WRITERS, "program"))
@pytest.mark.parametrize(
    "kind", long_except([kind for kind in CARTRIDGES if kind != "4K"], every=2)
)
@pytest.mark.parametrize("seeds", long_except([range(3), range(3, 8)], range(3)))
def test_banked_programs(kind: str, writer: str, seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        check_program(kind, writer, seed, tmp_path, frames=20)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", CARTRIDGES)
def test_many_programs(kind: str, writer: str, tmp_path: Path) -> None:
    for seed in range(1000, 1300):
        check_program(kind, writer, seed, tmp_path, frames=60)
