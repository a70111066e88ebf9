"""The TIA rule by rule: small frames, and the pixels they must show.

Where ale-py is installed, every picture is compared with its picture as well.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.programs import Frame, ale_console, core_console, image_of

FIRST_LINE = 34
WIDTH = 160
HBLANK = 68
P0, P1, PF, BK = 0x10, 0x20, 0x40, 0x80  # colours
COLOURS = {"COLUP0": P0, "COLUP1": P1, "COLUPF": PF, "COLUBK": BK}
CLEARED = [
    "VBLANK",
    "NUSIZ0",
    "NUSIZ1",
    "CTRLPF",
    "REFP0",
    "REFP1",
    "PF0",
    "PF1",
    "PF2",
    "GRP0",
    "GRP1",
    "ENAM0",
    "ENAM1",
    "ENABL",
    "VDELP0",
    "VDELP1",
    "VDELBL",
    "RESMP0",
    "RESMP1",
    "HMCLR",
]
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
    """A frame that clears the registers, then sets the usual colours and some others."""
    frame = Frame(lines).before(14, **dict.fromkeys(CLEARED, 0)).at(14, 20, "GRP0", 0)
    return frame.before(18, **COLOURS).before(22, **values)


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
@pytest.mark.parametrize("cycle", [38, 40])
def test_write_delays(register: str, value: int, delay: int, cycle: int) -> None:
    # Player 0, fourfold, shows 1110_0001 from x = 39 + 1 on.
    frame = coloured(NUSIZ0=7, GRP0=0xE1, COLUBK=0).at(50, 34, "RESP0")
    screen = picture(frame.at(LINE, cycle, register, value))
    before = pixels((40, 12), (68, 4))
    after = {"NUSIZ0": pixels((40, 6), (54, 2)), "REFP0": pixels((40, 4), (60, 12))}
    border = x_of(cycle, delay)
    shown = {x for x in before if x < border} | {x for x in after.get(register, ()) if x >= border}
    if register == "COLUP0":
        assert row(screen, LINE) == [
            0 if x not in before else P0 if x < border else BK for x in range(WIDTH)
        ]
    else:
        assert lit(screen, LINE, 0) == shown


@pytest.mark.parametrize(("register", "value"), [("ENAM0", 2), ("ENABL", 2)])
def test_enables_act_at_once(register: str, value: int) -> None:
    frame = coloured(NUSIZ0=0x30, CTRLPF=0x30).at(50, 40, "RESM0").at(51, 40, "RESBL")
    position = x_of(40, 4)
    screen = picture(frame.at(LINE, 43, register, value))
    assert lit(screen, LINE) == pixels((x_of(43), position + 8 - x_of(43)))
    assert lit(screen, LINE + 1) == pixels((position, 8))


# --- positions ------------------------------------------------------------------------------------

ENABLES = {"RESP0": "GRP0", "RESP1": "GRP1", "RESM0": "ENAM0", "RESM1": "ENAM1", "RESBL": "ENABL"}
SHOWS = {"GRP0": 0x80, "GRP1": 0x80, "ENAM0": 2, "ENAM1": 2, "ENABL": 2}  # as one pixel
OBJECTS = ("P0", "P1", "M0", "M1", "BL")


def one_object(reset: str, **values: int) -> Frame:
    """A frame that shows a single object, one pixel wide."""
    return coloured(**values, **{ENABLES[reset]: SHOWS[ENABLES[reset]]})


@pytest.mark.parametrize("reset", ENABLES)
@pytest.mark.parametrize("cycle", [6, 14, 22, 23, 24, 39, 60, 73, 74, 75])
def test_positions_after_a_reset(reset: str, cycle: int) -> None:
    is_player = reset.startswith("RESP")
    if 3 * cycle < HBLANK:
        x = 3 if is_player else 2
    else:
        x = (x_of(cycle) + (5 if is_player else 4)) % WIDTH
    # Two lines below: a player need not show at its new place in the line of the reset.
    assert lit(picture(one_object(reset).at(LINE, cycle, reset)), LINE + 2) == {x}


@pytest.mark.parametrize(
    ("reset", "gap", "clock", "position"),
    [("RESM0", 60, 69, 8), ("RESM1", 9, 18, 3), ("RESBL", 54, 60, 10), ("RESBL", 54, 69, 10),
     ("RESBL", 9, 18, 3), ("RESBL", 21, 30, 6), ("RESBL", 18, 27, 5)],
)  # fmt: skip
def test_resets_soon_after_hmove(reset: str, gap: int, clock: int, position: int) -> None:
    cycle, usual = clock // 3, max(2, clock - HBLANK + 4)
    for earlier, expected in ((0, position), (1, usual)):
        frame = (
            one_object(reset).at(LINE, cycle - gap // 3 - earlier, "HMOVE").at(LINE, cycle, reset)
        )
        assert lit(picture(frame), LINE + 2) == {expected}


def test_other_objects_have_no_special_resets() -> None:
    frame = one_object("RESM1").at(LINE, 3, "HMOVE").at(LINE, 23, "RESM1")
    assert lit(picture(frame), LINE + 2) == {69 - HBLANK + 4}


@pytest.mark.parametrize(("mode", "middle"), [(0, 4), (1, 4), (5, 8), (7, 16)])
def test_missile_locked_to_its_player(mode: int, middle: int) -> None:
    for n in (0, 1):
        frame = coloured(**{f"NUSIZ{n}": mode, f"ENAM{n}": 2, f"RESMP{n}": 2})
        frame.at(40, 40, f"RESP{n}").at(41, 30, f"RESM{n}").at(LINE, 30, f"RESMP{n}", 0)
        frame.at(LINE + 20, 30, f"RESMP{n}", 2)
        screen = picture(frame)
        assert lit(screen, LINE - 1) == set()  # hidden while locked
        assert min(lit(screen, LINE + 1)) == x_of(40, 5) + middle
        assert lit(screen, LINE + 21) == set()


# --- copies, sizes, graphics -----------------------------------------------------------------------

COPIES = {
    0: (0,),
    1: (0, 16),
    2: (0, 32),
    3: (0, 16, 32),
    4: (0, 64),
    5: (0,),
    6: (0, 32, 64),
    7: (0,),
}
SCALE = {5: 2, 7: 4}


def player_pixels(position: int, mode: int, graphics: int, copies: tuple[int, ...]) -> set[int]:
    """Pixels of a player; wide players begin one pixel late."""
    scale = SCALE.get(mode, 1)
    shown = [bit for bit in range(8) if graphics >> 7 - bit & 1]
    late = scale > 1
    return pixels(
        *((position + start + late + bit * scale, scale) for start in copies for bit in shown)
    )


@pytest.mark.parametrize("mode", range(8))
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("cycle", [40, 70])
def test_player_copies(mode: int, n: int, cycle: int) -> None:
    graphics = 0xB1
    frame = coloured(**{f"NUSIZ{n}": mode, f"GRP{n}": graphics}).at(40, cycle, f"RESP{n}")
    frame.at(LINE + 10, 20, f"REFP{n}", 8).at(LINE + 20, 20, f"REFP{n}", 0)
    position = x_of(cycle, 5)
    screen = picture(frame)
    assert lit(screen, LINE) == player_pixels(position, mode, graphics, COPIES[mode])
    assert lit(screen, LINE + 15) == player_pixels(position, mode, 0x8D, COPIES[mode])
    assert {row(screen, LINE)[x] for x in lit(screen, LINE)} == {(P0, P1)[n]}


@pytest.mark.parametrize("mode", range(8))
@pytest.mark.parametrize("size", range(4))
def test_missile_copies_and_sizes(mode: int, size: int) -> None:
    for n in (0, 1):
        frame = coloured(**{f"NUSIZ{n}": size << 4 | mode, f"ENAM{n}": 2}).at(40, 64, f"RESM{n}")
        position = x_of(64, 4)
        expected = pixels(*((position + start, 1 << size) for start in COPIES[mode]))
        assert lit(picture(frame), LINE) == expected


@pytest.mark.parametrize("size", range(4))
def test_ball_sizes(size: int) -> None:
    frame = coloured(CTRLPF=size << 4, ENABL=2).at(40, 73, "RESBL")
    screen = picture(frame)
    assert lit(screen, LINE) == pixels((x_of(73, 4), 1 << size))
    assert row(screen, LINE)[x_of(73, 4)] == PF


def test_delayed_graphics() -> None:
    # VDELP0: player 0 shows what GRP0 held at the last GRP1 write; VDELBL likewise for the ball.
    frame = coloured(GRP0=0x80, GRP1=0, ENABL=0, VDELP0=1, VDELBL=1)
    frame.at(40, 40, "RESP0").at(40, 50, "RESBL")
    frame.at(LINE, 10, "GRP0", 0xC0).at(LINE, 20, "ENABL", 2).at(LINE + 2, 10, "GRP1", 0)
    frame.at(LINE + 4, 10, "ENABL", 0).at(LINE + 4, 20, "VDELBL", 0)
    # and player 1 with VDELP1 by a GRP0 write
    frame.at(LINE + 6, 10, "VDELP0", 0).at(LINE + 6, 20, "VDELP1", 1).at(LINE + 6, 30, "GRP0", 0)
    frame.at(LINE + 8, 5, "GRP1", 0x81).at(LINE + 10, 10, "GRP0", 0).at(LINE + 12, 10, "VDELP1", 0)
    frame.at(41, 30, "RESP1")
    screen = picture(frame)
    p0, p1, ball = x_of(40, 5), x_of(30, 5), x_of(50, 4)
    assert lit(screen, LINE + 1) == {p0}
    assert lit(screen, LINE + 3) == {p0, p0 + 1, ball}
    assert lit(screen, LINE + 5) == {p0, p0 + 1}
    assert lit(screen, LINE + 7) == set()
    assert lit(screen, LINE + 9) == set()
    assert lit(screen, LINE + 11) == {p1, p1 + 7}


# --- reset of a player while it is drawn -------------------------------------------------------------


@pytest.mark.parametrize("mode", range(8))
def test_player_resets_by_distance(mode: int) -> None:
    """Where the new position falls on the copies decides what the rest of the line and frame show."""
    copies, scale = COPIES[mode], SCALE.get(mode, 1)
    delay = {start + i for start in copies for i in range(4)}
    display = {start + 4 + i for start in copies for i in range(8 * scale)} - delay
    for second in range(36, 70, 3):
        # Position by the first reset, then another `distance` to the right of it. Outside the
        # window, so the first copy stays hidden until the first line shown has ended.
        frame = coloured(NUSIZ0=mode, GRP0=0x80).at(30, 36, "RESP0").at(31, 36, "RESP0")
        screen = picture(frame.at(32, second, "RESP0"))
        position, distance = x_of(second, 5), 3 * (second - 36)
        all_copies = player_pixels(position, mode, 0x80, copies)
        later_copies = player_pixels(position, mode, 0x80, copies[1:])
        shows_first = distance in delay
        assert lit(screen, FIRST_LINE) == (all_copies if shows_first else later_copies), distance
        assert lit(screen, FIRST_LINE + 1) == all_copies
        if distance in display:
            assert not shows_first


def test_reset_of_a_player_being_displayed_draws_it_to_the_end() -> None:
    # Position 57; at clock 3 * 41 the pixels 55 and on are not drawn yet, and the new position is 60:
    # distance 3, delay. One cycle later distance 6: the next 11 clocks keep the old position.
    for second, expected in ((41, {60}), (42, {57, 63 + 160} - {63 + 160})):
        frame = coloured(GRP0=0x80).at(40, 40, "RESP0").at(LINE, second, "RESP0")
        assert lit(picture(frame), LINE) == expected


@pytest.mark.parametrize("clearing", ["NUSIZ0", "HMOVE", "RESP0"])
def test_what_ends_the_hiding_of_the_first_copy(clearing: str) -> None:
    frame = coloured(GRP0=0x80).at(30, 30, "RESP0").at(31, 50, "RESP0")
    assert lit(picture(frame), FIRST_LINE) == set()
    frame.at(32, 50, clearing, *([0] if clearing == "NUSIZ0" else []))
    assert lit(picture(frame), FIRST_LINE) == {x_of(50, 5)}


# --- playfield ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pf0", "pf1", "pf2"), [(0x1F, 0, 0), (0, 0xA1, 0), (0, 0, 0x93), (0x60, 0x5A, 0x3C)]
)
@pytest.mark.parametrize("reflects", [0, 1])
def test_playfield_bits(pf0: int, pf1: int, pf2: int, reflects: int) -> None:
    cells = [pf0 >> 4 + i & 1 for i in range(4)]
    cells += [pf1 >> 7 - i & 1 for i in range(8)] + [pf2 >> i & 1 for i in range(8)]
    cells += cells[::-1] if reflects else cells
    screen = picture(coloured(CTRLPF=reflects, PF0=pf0, PF1=pf1, PF2=pf2))
    assert row(screen, LINE) == [PF if cells[x // 4] else BK for x in range(WIDTH)]


@pytest.mark.parametrize("cycle", [47, 48, 49, 50])
def test_reflection_is_latched_from_clock_147_on(cycle: int) -> None:
    frame = coloured(PF0=0x10).at(LINE, cycle, "CTRLPF", 1)
    screen = picture(frame.at(LINE + 20, 10, "CTRLPF", 0))
    plain, reflected = pixels((0, 4), (80, 4)), pixels((0, 4), (156, 4))
    drawn = {x for x in plain if x < x_of(cycle)}
    assert lit(screen, LINE - 1) == plain
    assert lit(screen, LINE) == (
        plain if 3 * cycle >= 147 else drawn | {x for x in reflected if x >= x_of(cycle)}
    )
    assert lit(screen, LINE + 1) == reflected


def test_line_end_comes_after_a_write_on_the_border() -> None:
    # A store at cycle 76 is drawn up to first; the reflection that waits since cycle 60 is taken over
    # from the register as it is then.
    frame = coloured(PF0=0x10).at(LINE, 60, "CTRLPF", 1).at(LINE, 76, "CTRLPF", 0)
    assert lit(picture(frame), LINE + 1) == pixels((0, 4), (80, 4))


# --- colour choice --------------------------------------------------------------------------------

LAYOUT = {  # first pixel and width of the objects below; the playfield covers 0-31 and 80-111
    "P0": (20, 32), "P1": (28, 32), "M0": (46, 8), "M1": (50, 8), "BL": (54, 8),
}  # fmt: skip


def everything(shift: int, ctrlpf: int) -> tuple[Frame, dict[str, set[int]]]:
    """All objects overlapping at the left or right half; what each covers."""
    cycle = {"RESP0": 27, "RESP1": 31, "RESM0": 38, "RESM1": 40, "RESBL": 41}
    frame = coloured(NUSIZ0=0x37, NUSIZ1=0x37, GRP0=0xFF, GRP1=0xFF, ENAM0=2, ENAM1=2, ENABL=2)
    frame.before(28, CTRLPF=0x30 | ctrlpf, PF0=0xF0, PF1=0xF0)
    covers = {"PF": pixels((0, 32), (80, 32))}
    for i, (reset, at) in enumerate(cycle.items()):
        frame.at(30 + i, at + shift, reset)
        x = x_of(at + shift, 5 if reset.startswith("RESP") else 4)
        wide = (x + 1, 32) if reset.startswith("RESP") else (x, 8)
        covers[OBJECTS[i]] = pixels(wide)
    return frame, covers


@pytest.mark.parametrize("shift", [0, 27])
@pytest.mark.parametrize("score", [0, 2])
@pytest.mark.parametrize("priority", [0, 4])
def test_colour_choice(shift: int, score: int, priority: int) -> None:
    frame, covers = everything(shift, score | priority)

    def colour(x: int) -> int:
        has = {name for name, covered in covers.items() if x in covered}
        of_half = (P0, P1)[x >= 80]
        if priority and has & {"PF", "BL"}:
            return PF
        if has & {"P0", "M0"}:
            return P0
        if "PF" in has and score and x < 80:
            return of_half
        if has & {"P1", "M1"}:
            return P1
        if "PF" in has and score:
            return of_half
        return PF if has & {"PF", "BL"} else BK

    assert row(picture(frame), LINE) == [colour(x) for x in range(WIDTH)]


@pytest.mark.parametrize("with_ball", [0, 2])
def test_score_over_priority_where_only_the_playfield_is_active(with_ball: int) -> None:
    frame = coloured(CTRLPF=0x06, PF0=0xF0, ENABL=with_ball).at(30, 60, "RESBL")
    screen = picture(frame)
    left, right = row(screen, LINE)[0], row(screen, LINE)[80]
    assert (left, right) == ((PF, PF) if with_ball else (P0, P1))


def test_vblank_is_black() -> None:
    frame = coloured(PF0=0xF0).at(LINE, 40, "VBLANK", 2).at(LINE + 1, 40, "VBLANK", 0)
    screen = picture(frame)
    assert row(screen, LINE)[x_of(40, 1) - 1 :] == [BK] + [0] * (WIDTH - x_of(40, 1))
    assert row(screen, LINE + 1)[: x_of(40, 1) + 1] == [0] * x_of(40, 1) + [BK]


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


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_each_collision(pair: tuple[str, str]) -> None:
    assert latches(together(*pair)) == {PAIRS[pair]}


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
    # Both players begin at x = 45: clock 113, drawn before cycle 38. The read stands where the frame
    # has a store of the same length.
    frame = together("P0", "P1").at(20, 5, "CXCLR").at(50, cycle, "AUDV0")
    ram = play(image_of(frame.source().replace("STA AUDV0", "LDA CXPPMM\nSTA $80")))[1]
    assert ram[0] & 0xC0 == value


# --- HMOVE ----------------------------------------------------------------------------------------


def motion_table() -> dict[int, list[int]]:
    with HMOVE_TABLE.open(newline="") as file:
        return {int(r["cycle"]): [int(r[f"n{n}"]) for n in range(16)] for r in csv.DictReader(file)}


@pytest.mark.parametrize("nibble", range(16))
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


@pytest.mark.parametrize("reset", ENABLES)
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


@pytest.mark.parametrize("cycle", [3, 8, 19, 20, 21, 30, 54, 74, 75])
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


# --- frames and buffers ---------------------------------------------------------------------------


def test_rows_of_a_short_frame_keep_the_picture_of_two_frames_before() -> None:
    # Frames of 262 and 100 lines in turn; each has its own buffer, so the rows that the short frame
    # does not reach stay what they were at first: nothing.
    program = """
start:  LDA #$36
        STA COLUBK
frame:  LDX #4
        LDY #0
        JSR lines
        LDX #100
        LDY #0
        JSR lines
        JMP frame
lines:  LDA #2
        STA VSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC
line:   STA WSYNC
        DEX
        BNE line
        CPX #0
        RTS
"""
    long_frame = program.replace("LDX #4\n", "LDX #255\n")
    console = core_console(image_of(long_frame), format="NTSC")
    seen = set()
    for _ in range(4):
        console.act(0)
        rows = (console.screen_index() == 0x36).all(axis=1)
        assert rows[: rows.sum()].all()
        seen.add(int(rows.sum()))
    assert seen == {210, 102 - FIRST_LINE}
    play(image_of(long_frame), 5)


@pytest.mark.parametrize(
    ("format_name", "last_line", "height"), [("NTSC", 290, 210), ("PAL", 342, 250)]
)
def test_a_write_after_the_last_line_ends_the_frame(
    format_name: str, last_line: int, height: int
) -> None:
    # Counts lines, never sets VSYNC. The store beyond the last line still waits for the next one.
    source = """
start:  LDX #0
        STX $90
        STX $91
line:   STA WSYNC
        INC $90
        BNE line
        INC $91
        JMP line
"""
    console = core_console(image_of(source), format=format_name)
    counts = []
    for _ in range(4):
        console.act(0)
        ram = console.ram()
        counts.append(int(ram[0x10]) + 256 * int(ram[0x11]))
    assert set(np.diff(counts)) == {last_line + 2}
    assert console.screen_index().shape == (height if format_name == "NTSC" else 210, WIDTH)


def test_format_detection_by_frame_length() -> None:
    for lines, height in ((262, 210), (285, 210), (286, 250), (312, 250)):
        screen = picture(Frame(lines))
        assert screen.shape[0] == height, lines


@pytest.mark.parametrize(("on", "ends"), [(75, False), (76, True), (200, True)])
def test_vsync_must_be_on_for_a_line(on: int, ends: bool) -> None:
    source = f"""
start:  INC $90
        LDA #2
        STA VSYNC
        LDA #0
        .wait {on - 5}
        STA VSYNC
        .wait 60
        JMP start
"""
    console = core_console(image_of(source), format="NTSC")
    before = int(console.ram()[0x10])
    console.act(0)
    turns = (int(console.ram()[0x10]) - before) % 256
    assert (turns == 1) is ends


def test_unfinished_frames_are_dimmed_once() -> None:
    # Colour from line 34 on, then a loop without TIA accesses: two steps until it ends.
    source = Frame().before(20, COLUBK=0x5A).at(150, 40, "COLUBK", 0x3E)
    text = source.source()
    head = text[: text.rindex("STA COLUBK") + len("STA COLUBK")]
    rom = image_of(head + "\nforever: INC $90\n JMP forever")
    console = core_console(rom, format="NTSC")
    console.act(0)
    rows = console.screen_index()[:, 0]
    first = rows.copy()
    console.act(0)
    assert np.array_equal(console.screen_index()[:, 0], first)  # dimmed once only
    assert 0x5A in first
    play(rom, 3)


def test_reset_of_an_unfinished_frame_draws_from_line_0() -> None:
    source = """
start:  LDA #$40
        STA COLUBK
        STA WSYNC
        LDA #$66
        STA COLUBK
        LDX #40
line:   STA WSYNC
        DEX
        BNE line
        LDA #$88
        STA COLUBK
forever: JMP forever
"""
    rom = image_of(source)
    screen, _ = play(rom, 1)
    assert screen.shape == (250, WIDTH)  # never a VSYNC: taken for PAL
    # Row r holds line r instead of line 34 + r. Drawing begins at line 34, after both first colours.
    assert screen[:41, 0].tolist() == [0x66] * 41
    assert not screen[41:].any()


def test_pal_colour_loss() -> None:
    # 313 lines a frame: odd, so colours get bit 0.
    for lines, bit in ((312, 0), (313, 1)):
        screen = picture(coloured(lines), frames=3)
        assert screen.shape[0] == 250
        assert row(screen, LINE) == [BK | bit] * WIDTH


def test_first_line_and_height() -> None:
    frame = coloured().at(40, 10, "COLUBK", 0x22)
    console = core_console(frame.image(), format="NTSC", ystart=26, height=220)
    console.act(0)
    screen = console.screen_index()
    assert screen.shape == (220, WIDTH)
    assert screen[40 - 26 - 1, 0] == BK
    assert screen[40 - 26, 0] == 0x22
