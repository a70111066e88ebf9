"""The palette header is what its generator writes; its data keeps the rules of obs/NOTES.md 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from roms_tools import make_palettes

PALETTES = make_palettes.read_palettes()


def test_header_is_current() -> None:
    text = make_palettes.TARGET.read_text(encoding="utf-8")
    assert text == make_palettes.render(PALETTES), f"run {make_palettes.COMMAND}"
    assert make_palettes.COMMAND in text.splitlines()[0]


@pytest.mark.parametrize("name", make_palettes.FORMATS)
def test_even_values_show_their_luma(name: str) -> None:
    for index in range(0, make_palettes.COLOURS, 2):
        r, g, b, gray = PALETTES[name][index]
        assert gray == (2989 * r + 5870 * g + 1140 * b + 5000) // 10000, index


@pytest.mark.parametrize("name", make_palettes.FORMATS)
def test_odd_values_follow_their_neighbours(name: str) -> None:
    palette = PALETTES[name]
    for index in range(1, make_palettes.COLOURS, 2):
        gray_before = palette[index - 1][3]
        blue_after = palette[index + 1][2] if index + 1 < make_palettes.COLOURS else 0
        assert palette[index] == (gray_before, gray_before, gray_before, blue_after), index


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("NTSC,7,256,0,0,0", "levels"),
        ("NTSC,6,0,0,0,0", "twice"),
        ("PAL,0,0,0,0,0", "needs the values"),
    ],
)
def test_bad_data_is_refused(tmp_path: Path, line: str, message: str) -> None:
    lines = make_palettes.DATA.read_text(encoding="utf-8").splitlines()
    ntsc = [text for text in lines if not text.startswith(("NTSC,7,", "PAL,"))]
    path = tmp_path / "palettes.csv"
    path.write_text("\n".join([*ntsc, "NTSC,7,0,0,0,0", line] if line[0] == "P" else [*ntsc, line]))
    with pytest.raises(ValueError, match=message):
        make_palettes.read_palettes(path)
