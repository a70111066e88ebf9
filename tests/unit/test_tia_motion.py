"""The TIA rule by rule: collisions, horizontal motion, the star field."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.cases import long_except
from tests.support.pictures import (
    BK,
    ENABLES,
    FIRST_LINE,
    LINE,
    WIDTH,
    coloured,
    lit,
    one_object,
    picture,
    pixels,
    play,
    row,
    x_of,
)
from tests.support.programs import Frame, image_of

HMOVE_TABLE = Path(__file__).parents[1] / "data" / "hmove_motion.csv"

# --- collisions -----------------------------------------------------------------------------------

READS = ("CXM0P", "CXM1P", "CXP0FB", "CXP1FB", "CXM0FB", "CXM1FB", "CXBLPF", "CXPPMM")
PAIRS = {
    ("M0", "P1"): (0, 7), ("M0", "P0"): (0, 6), ("M1", "P0"): (1, 7), ("M1", "P1"): (1, 6),
    ("P0", "PF"): (2, 7), ("P0", "BL"): (2, 6), ("P1", "PF"): (3, 7), ("P1", "BL"): (3, 6),
    ("M0", "PF"): (4, 7), ("M0", "BL"): (4, 6), ("M1", "PF"): (5, 7), ("M1", "BL"): (5, 6),
    ("BL", "PF"): (6, 7), ("P0", "P1"): (7, 7), ("M0", "M1"): (7, 6),
}  # fmt: skip
ON = {"P0": ("GRP0", 0xFF), "P1": ("GRP1", 0xFF), "M0": ("ENAM0", 2), "M1": ("ENAM1", 2),
      "BL": ("ENABL", 2), "PF": ("PF1", 0x01)}  # fmt: skip


def together(*objects: str, line: int = 50) -> Frame:
    """Some objects, all of them eight pixels wide around x = 44, shown in one line."""
    frame = coloured(NUSIZ0=0x30, NUSIZ1=0x30, CTRLPF=0x30)
    for i, reset in enumerate(ENABLES):
        frame.at(24 + i, 36, reset)
    for i, name in enumerate(objects):
        register, value = ON[name]
        frame.at(line, 5 * (i + 1), register, value).at(line + 1, 5 * (i + 1), register, 0)
    return frame


def latches(frame: Frame, clear: bool = True) -> set[tuple[int, int]]:
    """The collision latches (register, bit) at the end of a frame."""
    frame.end = "\n".join(f"LDA {name}\nSTA {0x90 + i}" for i, name in enumerate(READS))
    if clear:
        frame.at(20, 5, "CXCLR")
    ram = play(frame.image())[1]
    return {(i, bit) for i in range(8) for bit in (7, 6) if ram[0x10 + i] >> bit & 1}


@pytest.mark.parametrize("pair", long_except(["-".join(p) for p in PAIRS], every=3))
def test_each_collision(pair: str) -> None:
    first, second = pair.split("-")
    assert latches(together(first, second)) == {PAIRS[first, second]}


@pytest.mark.parametrize("name", ON)
def test_one_object_collides_with_nothing(name: str) -> None:
    assert latches(together(name)) == set()


def test_all_collide_at_once_and_stay_until_cleared() -> None:
    assert latches(together(*ON)) == set(PAIRS.values())
    cleared = together(*ON).at(100, 40, "CXCLR")
    assert latches(cleared, clear=False) == set()


def test_nothing_collides_outside_the_window_or_blanked() -> None:
    assert latches(together(*ON, line=FIRST_LINE - 2)) == set()
    assert latches(together(*ON, line=FIRST_LINE + 210)) == set()
    assert latches(together(*ON).at(40, 10, "VBLANK", 2).at(70, 10, "VBLANK", 0)) == set()


def test_collisions_under_the_hmove_blank_count() -> None:
    frame = coloured(PF0=0xF0, ENABL=0).at(30, 10, "RESBL")  # ball at x = 2
    frame.at(49, 79, "HMOVE").at(50, 10, "ENABL", 2).at(51, 10, "ENABL", 0)
    assert latches(frame) == {(6, 7)}


@pytest.mark.parametrize(("cycle", "value"), [(37, 0), (38, 0x80)])
def test_a_latch_is_seen_from_the_clock_after_its_pixel(cycle: int, value: int) -> None:
    # Both players begin at x = 45: clock 113, drawn before cycle 38. The read is where the frame
    # has a store of the same length.
    frame = together("P0", "P1").at(20, 5, "CXCLR").at(50, cycle, "AUDV0")
    ram = play(image_of(frame.source().replace("STA AUDV0", "LDA CXPPMM\nSTA $80")))[1]
    assert ram[0] & 0xC0 == value


# --- HMOVE ----------------------------------------------------------------------------------------


def motion_table() -> dict[int, list[int]]:
    with HMOVE_TABLE.open(newline="") as file:
        return {int(r["cycle"]): [int(r[f"n{n}"]) for n in range(16)] for r in csv.DictReader(file)}


@pytest.mark.parametrize("nibble", long_except(range(16), 7, 8))
def test_hmove_motion(nibble: int) -> None:
    """Every cycle of the line, with the ball reset to x = 56 before each HMOVE."""
    table = motion_table()
    assert sorted(table) == list(range(76))
    for first in range(0, 76, 19):
        frame = coloured(ENABL=2, HMBL=nibble << 4)
        for i, cycle in enumerate(range(first, first + 19)):
            frame.at(50 + 5 * i, 40, "RESBL").at(51 + 5 * i, cycle + 76, "HMOVE")
        screen = picture(frame)
        for i, cycle in enumerate(range(first, first + 19)):
            assert lit(screen, 51 + 5 * i) == {56}
            assert lit(screen, 54 + 5 * i) == {56 + table[cycle][nibble]}, cycle


@pytest.mark.parametrize("reset", long_except(ENABLES, "RESP1", "RESBL"))
def test_hmove_moves_each_object_by_its_own_register(reset: str) -> None:
    own = dict(zip(ENABLES, ("HMP0", "HMP1", "HMM0", "HMM1", "HMBL"), strict=True))[reset]
    for register in ("HMP0", "HMP1", "HMM0", "HMM1", "HMBL"):
        frame = one_object(reset, **{register: 0x70}).at(40, 50, reset).at(50, 79, "HMOVE")
        frame.at(70, 20, "HMCLR").at(72, 79, "HMOVE")
        x = x_of(50, 5 if reset.startswith("RESP") else 4) - (7 if register == own else 0)
        screen = picture(frame)
        assert lit(screen, LINE) == {x}
        assert lit(screen, 80) == {x}


def test_hmove_wraps_around() -> None:
    frame = one_object("RESBL", HMBL=0x70).at(40, 10, "RESBL").at(50, 79, "HMOVE")
    assert lit(picture(frame), LINE) == {(2 - 7) % WIDTH}


@pytest.mark.parametrize("cycle", long_except([3, 8, 19, 20, 21, 30, 54, 74, 75], 20, 21, 74))
def test_hmove_blanks_eight_pixels(cycle: int) -> None:
    screen = picture(coloured().at(LINE, cycle, "HMOVE"))
    blanked = LINE if cycle <= 20 else LINE + 1 if cycle == 75 else None
    for line in (LINE - 1, LINE, LINE + 1, LINE + 2):
        assert row(screen, line) == ([0] * 8 if line == blanked else [BK] * 8) + [BK] * 152, line


def test_hmove_outside_the_window_blanks_the_next_line_drawn() -> None:
    screen = picture(coloured().at(20, 10, "HMOVE"))
    assert row(screen, FIRST_LINE)[:9] == [0] * 8 + [BK]
    assert row(screen, FIRST_LINE + 1)[:9] == [BK] * 9
    screen = picture(coloured().at(255, 10, "HMOVE"))  # below the picture: in the next frame
    assert row(screen, FIRST_LINE)[:9] == [0] * 8 + [BK]


def test_cartridges_without_hmove_blanks() -> None:
    screen = picture(coloured().at(LINE, 3, "HMOVE"), hmove_blanks=False)
    assert row(screen, LINE) == [BK] * WIDTH


# --- star field -----------------------------------------------------------------------------------


def star_frame(gap: int = 21, second: int = 0x60) -> Frame:
    frame = coloured(ENAM0=2, HMM0=0x70)
    frame.at(28, 40, "HMOVE").at(30, 60, "RESM0")  # ends the star field of the frame before
    return frame.at(40, 20, "HMOVE").at(40, 20 + gap, "HMM0", second)


def test_star_field() -> None:
    screen = picture(star_frame())
    # The HMOVE in cycle 20 moves by 6, not by 7. Then come the steps at the line ends.
    position = x_of(60, 4) + 6
    assert max(lit(screen, 40)) == position
    for line in range(41, 100):
        count = (line - 40) % 4
        position = (position - (18, 33, 0, 17)[count]) % WIDTH
        width = {1: 2, 2: 0}.get(count, 1)  # wide, hidden, as usual
        assert lit(screen, line) == pixels((position, width)), line


@pytest.mark.parametrize(("gap", "second"), [(20, 0x60), (22, 0x60), (21, 0x50), (21, 0x70)])
def test_star_field_needs_the_exact_cycle_and_values(gap: int, second: int) -> None:
    screen = picture(star_frame(gap, second))
    assert len({min(lit(screen, line)) for line in range(42, 100)}) == 1


def test_hmove_ends_the_star_field() -> None:
    screen = picture(star_frame().at(60, 10, "HMOVE").at(60, 40, "HMM0", 0))
    assert len({min(lit(screen, line)) for line in range(62, 100)}) == 1
