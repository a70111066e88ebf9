"""The TIA rule by rule: small frames, and the pixels they must show.

Where ale-py is installed, every picture is compared with its picture as well.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cule import _core
from tests.programs import Frame, ale_console, core_console, image_of

FIRST_LINE = 34
WIDTH = 160
HBLANK = 68
P0, P1, PF, BK = 0x10, 0x20, 0x40, 0x80  # colours
COLOURS = {"COLUP0": P0, "COLUP1": P1, "COLUPF": PF, "COLUBK": BK}
LINE = 60  # where most tests draw
HMOVE_TABLE = Path(__file__).parents[1] / "data" / "hmove_motion.csv"

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
    """A frame with the usual colours and some more registers set before line 20."""
    return Frame(lines).before(20, **COLOURS).before(25, **values)


def pixels(*ranges: tuple[int, int]) -> set[int]:
    """Pixels of ranges (first, count), wrapped at the right edge."""
    return {(first + i) % WIDTH for first, count in ranges for i in range(count)}


def x_of(cycle: int, delay: int = 0) -> int:
    """First pixel drawn after a store at a cycle that takes effect `delay` clocks later."""
    return 3 * cycle + delay - HBLANK


# --- write delays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", [*range(23, 76, 4), 75])
def test_colours_change_at_once(cycle: int) -> None:
    screen = picture(coloured().at(LINE, cycle, "COLUBK", 0x37))
    expected = [BK if x < x_of(cycle) else 0x36 for x in range(WIDTH)]  # bit 0 is dropped
    assert row(screen, LINE) == expected
    assert row(screen, LINE + 1) == [0x36] * WIDTH


@pytest.mark.parametrize("cycle", range(28, 38))
def test_playfield_changes_on_a_cell_border(cycle: int) -> None:
    screen = picture(coloured().at(LINE, cycle, "PF1", 0xFF).at(LINE + 1, 10, "PF1", 0))
    border = x_of(cycle, (4, 5, 2, 3)[cycle % 4])
    assert border % 4 == 0
    assert lit(screen, LINE) == pixels((border, 48 - border), (96, 32))


@pytest.mark.parametrize(
    ("register", "value", "delay"),
    [("GRP0", 0x00, 1), ("VBLANK", 0x02, 1), ("NUSIZ0", 0x05, 8), ("REFP0", 0x08, 1),
     ("VDELP0", 0x01, 0), ("COLUP0", BK, 0)],
)  # fmt: skip
@pytest.mark.parametrize("cycle", [40, 41])
def test_write_delays(register: str, value: int, delay: int, cycle: int) -> None:
    # Player 0, fourfold, shows 1110_0111 from x = 40 + 1 on.
    frame = coloured(NUSIZ0=7, GRP0=0xE7, COLUBK=0).at(50, 34, "RESP0", 0)
    screen = picture(frame.at(LINE, cycle, register, value).at(LINE + 1, 10, "VBLANK", 0))
    before = pixels((40, 12), (60, 12))
    border = x_of(cycle, delay)
    after = {
        "NUSIZ0": pixels((40, 6), (50, 6)), "REFP0": before,
    }.get(register, set())  # fmt: skip
    expected = {x for x in before if x < border} | {x for x in after if x >= border}
    assert lit(screen, LINE, 0) == expected


@pytest.mark.parametrize(("register", "value"), [("ENAM0", 2), ("ENABL", 2)])
def test_enables_act_at_once(register: str, value: int) -> None:
    frame = coloured(NUSIZ0=0x30, CTRLPF=0x30).at(50, 40, "RESM0").at(51, 40, "RESBL")
    position = x_of(40, 4)
    screen = picture(frame.at(LINE, 43, register, value))
    assert lit(screen, LINE) == pixels((x_of(43), position + 8 - x_of(43)))
    assert lit(screen, LINE + 1) == pixels((position, 8))


# --- positions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", [6, 14, 22, 23, 24, 39, 60, 73, 74, 75])
def test_positions_after_a_reset(cycle: int) -> None:
    frame = coloured(GRP0=0x80, GRP1=0x80, ENAM0=2, ENAM1=2, ENABL=2, COLUPF=PF)
    objects = {"RESP0": (P0, 3, 5), "RESP1": (P1, 3, 5), "RESM0": (P0, 2, 4), "RESM1": (P1, 2, 4),
               "RESBL": (PF, 2, 4)}  # fmt: skip
    for i, (register, (colour, in_hblank, after)) in enumerate(objects.items()):
        line = 40 + 4 * i
        own = Frame().before(20, **COLOURS)
        enable = {"RESP0": "GRP0", "RESP1": "GRP1", "RESM0": "ENAM0", "RESM1": "ENAM1",
                  "RESBL": "ENABL"}[register]  # fmt: skip
        own.at(30, 20, enable, 0x82).at(line, cycle, register)
        x = in_hblank if 3 * cycle < HBLANK else (x_of(cycle) + after) % WIDTH
        # A player is not shown at the new place in the line of the reset; look two lines below.
        width = 1
        shown = [at for at, value in enumerate(row(picture(own), line + 2)) if value == colour]
        assert shown[:1] == [x] or 0 in shown, register
        assert {x, (x + 6) % WIDTH} >= set(shown) if enable.startswith("GRP") else shown == [x]
        assert width
    assert frame


SPECIAL_RESETS = [  # register, clocks after HMOVE, clock in the line, position
    ("RESM0", 60, 69, 8), ("RESM1", 9, 18, 3), ("RESBL", 54, 60, 10), ("RESBL", 54, 69, 10),
    ("RESBL", 9, 18, 3), ("RESBL", 21, 30, 6), ("RESBL", 18, 27, 5),
]  # fmt: skip


@pytest.mark.parametrize(("register", "gap", "clock", "position"), SPECIAL_RESETS)
def test_resets_soon_after_hmove(register: str, gap: int, clock: int, position: int) -> None:
    enable = {"RESM0": "ENAM0", "RESM1": "ENAM1", "RESBL": "ENABL"}[register]
    for is_special in (True, False):
        frame = coloured(**{enable: 2})
        cycle = clock // 3
        if gap == 9:  # too close for a store of its own: both from registers
            frame.begin = "LDX #0"
        hmove = cycle - gap // 3 - (0 if is_special else 1)
        screen = picture_with_pair(frame, hmove, cycle, register)
        usual = 2 if clock < HBLANK else clock - HBLANK + 4
        assert lit(screen, LINE + 2) == {position if is_special else usual}


def picture_with_pair(frame: Frame, hmove: int, cycle: int, register: str) -> Picture:
    """HMOVE and a reset in one line, 3 cycles or more apart."""
    gap = cycle - hmove
    extra = gap - 3
    between = f".wait {extra}\n" if extra != 1 else ""
    store = f"STA {register}"
    if extra == 1:  # an absolute store takes the odd cycle
        store = f"STA ${0x100 | {'RESM0': 0x12, 'RESM1': 0x13, 'RESBL': 0x14}[register]:04X}"
    lead = hmove - 3
    code = (f".wait {lead}\n" if lead not in (1, -1) else "")
    waits = "STA WSYNC\n" if lead >= 0 and lead != 1 else ""
    if not waits:  # HMOVE in the first cycles: count from the line before
        waits, code = "STA WSYNC\n", f".wait {76 + lead}\n"
        line_count = LINE - 1
    else:
        line_count = LINE
    frame.stores = [s for s in frame.stores if s[0] < 30]
    source = frame.source()
    head, _, _ = source.rpartition("JMP main")
    lines = head.rstrip().split("\n")
    while lines and lines[-1] in ("STA WSYNC", ""):
        lines.pop()
    done = sum(1 for text in lines if text == "STA WSYNC") - 2
    lines += ["STA WSYNC"] * (line_count - done - 1)
    body = waits + code + "STA HMOVE\n" + between + store
    rest = "\nSTA WSYNC" * 150
    return play(image_of("\n".join(lines) + "\n" + body + rest + "\nJMP main"))[0]
