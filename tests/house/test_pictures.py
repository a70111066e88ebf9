"""The pictures of README.md: small, and those that the script makes."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import readme_pictures, terminal_picture
from benchmarks.terminal_picture import Row
from cule.envs.png import encode_animation
from cule.games import list_games

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def points_of(path: ElementTree.Element) -> list[tuple[float, float]]:
    """The points of a path of lines."""
    numbers = [float(word) for word in re.findall(r"-?[\d.]+", path.get("d", ""))]
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def test_the_plot_is_that_of_the_results() -> None:
    results = json.loads(readme_pictures.RESULTS.read_text())
    text = readme_pictures.speed_plot(results)
    assert (readme_pictures.IMAGES / "speed.svg").read_text() == text
    root = ElementTree.fromstring(text)
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    assert len(list(circles)) == len(readme_pictures.PEERS) * len(results["records"])


def test_the_plot_holds_its_text_in_wide_fonts() -> None:
    """At 0.6 of the size for a character, which is more than in DejaVu Sans."""
    root = ElementTree.fromstring((readme_pictures.IMAGES / "speed.svg").read_text())
    width = float(root.attrib["viewBox"].split()[2])
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        size = 0.6 * float(text.get("font-size", root.attrib["font-size"]))
        length, x = len(text.text or "") * size, float(text.attrib["x"])
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
        assert x - share * length >= 0
        assert x + (1 - share) * length <= width, text.text


def test_curves_use_their_panels() -> None:
    """The lines of each panel span most of its height and width."""
    for name in ("search.svg", "self_play.svg"):
        root = ElementTree.parse(readme_pictures.IMAGES / name).getroot()
        for number in ("axes_1", "axes_2"):
            (axes,) = (group for group in root.iter(f"{SVG}g") if group.get("id") == number)
            panel, *rest = (points_of(path) for path in axes.iter(f"{SVG}path"))
            lines = [points for points in rest if len(points) > 6]
            for axis, least in ((0, 0.8), (1, 0.35)):
                found = [point[axis] for points in lines for point in points]
                whole = [point[axis] for point in panel]
                assert max(found) - min(found) > least * (max(whole) - min(whole)), (name, number)


def test_the_readme_has_the_medians_of_the_plot() -> None:
    medians = re.findall(r">([\d.]+x)</text>", (readme_pictures.IMAGES / "speed.svg").read_text())
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if "57 games" in line)
    assert [value for value in medians if "." in value][::2] == re.findall(r"\| ([\d.]+x)", row)


def test_the_animation_is_small_and_shows_every_game_moving() -> None:
    data = (readme_pictures.IMAGES / "environments.png").read_bytes()
    assert len(data) <= 2_000_000
    frames = decode_animation(data)
    assert len(frames) == readme_pictures.FRAMES
    columns, rows = readme_pictures.COLUMNS, len(list_games()) // readme_pictures.COLUMNS
    tiles = frames.reshape(len(frames), rows, 105, columns, 80).swapaxes(2, 3)
    is_moving = (tiles != tiles[:1]).any(axis=(0, 3, 4))
    assert is_moving.mean() > 0.9  # board games and title screens stand still
    assert all(len(np.unique(tile)) > 1 for tile in tiles[0].reshape(-1, 105, 80))


def test_the_animation_of_agents_shows_each_at_play() -> None:
    data = (readme_pictures.IMAGES / "agents.png").read_bytes()
    assert len(data) <= 1_000_000
    frames = decode_animation(data)
    assert frames.shape == (readme_pictures.FRAMES, 420, 480)
    tiles = frames.reshape(len(frames), 2, 210, 3, 160).swapaxes(2, 3)
    assert (tiles != tiles[:1]).any(axis=(0, 3, 4)).all()


def test_a_terminal_shows_what_was_printed_when_it_was() -> None:
    events = [(0.0, "$ "), (1.0, "a"), (2.0, "\r\n50 %"), (3.0, "\r100 %\r\n"), (3.0, "<end>")]
    rows = terminal_picture.rows_of(events)
    assert rows == [
        Row(0, "$", 0.0, 1.0),
        Row(1, "50 %", 2.0, 3.0),
        Row(0, "$ a", 1.0, None),
        Row(1, "100 %", 3.0, None),
        Row(2, "<end>", 3.0, None),
    ]
    texts = list(ElementTree.fromstring(terminal_picture.svg_of(rows)).iter(f"{SVG}text"))
    at_end = [text.text for text in texts if text.get("display") is None]
    assert at_end == ["$\u00a0a", "100\u00a0%", "<end>"]
    times = [(change.get("begin"), change.get("end")) for change in texts[1]]
    assert times == [("2.00s", "3.00s")]


def test_the_terminal_runs_its_commands() -> None:
    data = (readme_pictures.IMAGES / "terminal.svg").read_text()
    assert len(data) <= 200_000
    texts = [
        (text.text or "").replace("\u00a0", " ")
        for text in ElementTree.fromstring(data).iter(f"{SVG}text")
    ]
    for command in terminal_picture.COMMANDS:
        assert terminal_picture.PROMPT + command in texts
    assert max(map(len, texts)) <= terminal_picture.COLUMNS


def test_an_animation_holds_its_frames() -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(3, size=(5, 4, 6)).astype(np.uint8)
    frames[3] = frames[2]
    palette = rng.integers(256, size=(3, 3)).astype(np.uint8)
    data = encode_animation(frames, palette, milliseconds=50)
    np.testing.assert_array_equal(decode_animation(data), frames)
    with pytest.raises(ValueError, match=r"3 colours.*from 0 to 2"):
        encode_animation(frames + np.uint8(1), palette, milliseconds=50)


def decode_animation(data: bytes) -> NDArray[np.uint8]:
    """Pixels of an animated PNG file as the specification says, uint8 ``[T, H, W]``."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, sequence, frames, clear = 8, 0, [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(name + body) == struct.unpack_from(">I", data, at + 8 + length)[0]
        at += 12 + length
        if name == b"IHDR":
            width, height = struct.unpack_from(">II", body)
        elif name == b"tRNS":
            clear = body.index(0)
        elif name in (b"fcTL", b"fdAT"):
            assert struct.unpack_from(">I", body) == (sequence,)
            sequence += 1
        if name in (b"IDAT", b"fdAT"):
            lines = zlib.decompress(body[4:] if name == b"fdAT" else body)
            pixels = np.frombuffer(lines, np.uint8).reshape(height, width + 1)[:, 1:]
            frames.append(np.where(pixels == clear, frames[-1], pixels) if frames else pixels)
    return np.stack(frames)
