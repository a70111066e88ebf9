"""The pictures of README.md: small, and those that the script makes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import readme_pictures

ROOT = Path(__file__).parents[2]
MAX_BYTES = 150_000
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


def test_the_mosaic_is_small() -> None:
    data = (readme_pictures.IMAGES / "environments.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert len(data) <= MAX_BYTES
