"""Where frames begin and end, and what pictures keep of earlier ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.pictures import BK, FIRST_LINE, LINE, WIDTH, coloured, picture, play, row
from tests.support.programs import Frame, core_console, image_of


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
    # In the second frame after loading, the 70th since the reset, the program jams in line 100. The
    # rows from there on show what their buffer held, dimmed, and are not dimmed again.
    frame = coloured(COLUBK=0x5A).at(90, 40, "COLUBK", 0x4E).at(100, 20, "AUDV0")
    frame.begin = "LDA #0\nSTA $90"
    frame.end = "INC $90"
    jam = "LDA $90\nCMP #68\nBNE on\n.byte 2\non:"
    rom = image_of(frame.source().replace("STA AUDV0", jam))
    for frames in (2, 3, 5):
        screen, _ = play(rom, frames)
        column = screen[:, WIDTH - 1].tolist()
        assert column == [0x5A] * (90 - FIRST_LINE) + [0x4E] * 10 + [0x0E >> 1] * (244 - 100)


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
