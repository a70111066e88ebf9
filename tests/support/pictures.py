"""Pictures of small frames: how the tests of the TIA make them and say what they show."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.support.programs import Frame, ale_console, core_console

FIRST_LINE = 34
WIDTH = 160
HBLANK = 68
P0, P1, PF, BK = 0x10, 0x20, 0x40, 0x80  # colours
COLOURS = {"COLUP0": P0, "COLUP1": P1, "COLUPF": PF, "COLUBK": BK}
CLEARED = (
    "VBLANK", "NUSIZ0", "NUSIZ1", "CTRLPF", "REFP0", "REFP1", "PF0", "PF1", "PF2", "GRP0", "GRP1",
    "ENAM0", "ENAM1", "ENABL", "VDELP0", "VDELP1", "VDELBL", "RESMP0", "RESMP1", "HMCLR",
)  # fmt: skip
LINE = 60  # where most tests draw

Picture = NDArray[np.uint8]


@functools.cache
def has_ale() -> bool:
    return importlib.util.find_spec("ale_py") is not None


def play(rom: bytes, frames: int = 2, **properties: object) -> tuple[Picture, list[int]]:
    """Picture and RAM after some frames, equal to ale-py's where it can run the same."""
    console = core_console(rom, **properties)
    for _ in range(frames):
        console.act(0)
    if has_ale() and not properties:
        with tempfile.TemporaryDirectory() as folder:
            ale = ale_console(rom, Path(folder))
        for _ in range(frames):
            ale.act(0)
        assert np.array_equal(console.screen_index(), ale.getScreen())
        assert np.array_equal(console.ram(), ale.getRAM())
    return console.screen_index(), console.ram().tolist()


def picture(frame: Frame, frames: int = 2, **properties: object) -> Picture:
    return play(frame.image(), frames, **properties)[0]


def row(screen: Picture, line: int) -> list[int]:
    return screen[line - FIRST_LINE].tolist()


def lit(screen: Picture, line: int, background: int = BK) -> set[int]:
    """The pixels of a line that are not background."""
    return {x for x, value in enumerate(row(screen, line)) if value != background}


def coloured(lines: int = 262, **values: int) -> Frame:
    """A frame that clears the registers, then sets the usual colours and some others."""
    frame = Frame(lines).before(14, **dict.fromkeys(CLEARED, 0)).at(14, 20, "GRP0", 0)
    return frame.before(18, **COLOURS).before(22, **values)


def pixels(*ranges: tuple[int, int]) -> set[int]:
    """Pixels of ranges (first, count), wrapped at the right edge."""
    return {(first + i) % WIDTH for first, count in ranges for i in range(count)}


def x_of(cycle: int, delay: int = 0) -> int:
    """First pixel drawn after a store at a cycle that takes effect `delay` clocks later."""
    return 3 * cycle + delay - HBLANK


ENABLES = {"RESP0": "GRP0", "RESP1": "GRP1", "RESM0": "ENAM0", "RESM1": "ENAM1", "RESBL": "ENABL"}
SHOWS = {"GRP0": 0x80, "GRP1": 0x80, "ENAM0": 2, "ENAM1": 2, "ENABL": 2}  # as one pixel
OBJECTS = ("P0", "P1", "M0", "M1", "BL")


def one_object(reset: str, **values: int) -> Frame:
    """A frame that shows a single object, one pixel wide."""
    return coloured(**values, **{ENABLES[reset]: SHOWS[ENABLES[reset]]})
