"""The TIA rule by rule: write delays, positions, shapes, the playfield, the choice of colours."""

from __future__ import annotations

import pytest

from tests.support.cases import long_except
from tests.support.pictures import (
    BK,
    ENABLES,
    FIRST_LINE,
    HBLANK,
    LINE,
    OBJECTS,
    P0,
    P1,
    PF,
    WIDTH,
    coloured,
    lit,
    one_object,
    picture,
    pixels,
    row,
    x_of,
)
from tests.support.programs import Frame

# --- write delays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", long_except([*range(23, 76, 4), 75], 75, every=4))
def test_colours_change_at_once(cycle: int) -> None:
    screen = picture(coloured().at(LINE, cycle, "COLUBK", 0x37))
    expected = [BK if x < x_of(cycle) else 0x36 for x in range(WIDTH)]  # bit 0 is dropped
    assert row(screen, LINE) == expected
    assert row(screen, LINE + 1) == [0x36] * WIDTH


@pytest.mark.parametrize("cycle", long_except(range(28, 38), 28, 29, 30, 31))
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
@pytest.mark.parametrize("cycle", long_except([38, 40], 38))
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


@pytest.mark.parametrize("reset", ENABLES)
@pytest.mark.parametrize("cycle", long_except([6, 14, 22, 23, 24, 39, 60, 73, 74, 75], 22, 75))
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


@pytest.mark.parametrize("mode", long_except(range(8), 0, 3, 5))
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("cycle", long_except([40, 70], 70))
def test_player_copies(mode: int, n: int, cycle: int) -> None:
    graphics = 0xB1
    frame = coloured(**{f"NUSIZ{n}": mode, f"GRP{n}": graphics}).at(40, cycle, f"RESP{n}")
    frame.at(LINE + 10, 20, f"REFP{n}", 8).at(LINE + 20, 20, f"REFP{n}", 0)
    position = x_of(cycle, 5)
    screen = picture(frame)
    assert lit(screen, LINE) == player_pixels(position, mode, graphics, COPIES[mode])
    assert lit(screen, LINE + 15) == player_pixels(position, mode, 0x8D, COPIES[mode])
    assert {row(screen, LINE)[x] for x in lit(screen, LINE)} == {(P0, P1)[n]}


@pytest.mark.parametrize("mode", long_except(range(8), 0, 6))
@pytest.mark.parametrize("size", long_except(range(4), 0, 3))
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


@pytest.mark.parametrize("mode", long_except(range(8), 3))
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
@pytest.mark.parametrize("reflects", long_except([0, 1], 1))
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
    # A store at cycle 76 is drawn up to first; the reflection that waits since cycle 60 is latched
    # from the register as it is then.
    frame = coloured(PF0=0x10).at(LINE, 60, "CTRLPF", 1).at(LINE, 76, "CTRLPF", 0)
    assert lit(picture(frame), LINE + 1) == pixels((0, 4), (80, 4))


# --- colour choice --------------------------------------------------------------------------------


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


@pytest.mark.parametrize("shift", long_except([0, 27], 27))
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
