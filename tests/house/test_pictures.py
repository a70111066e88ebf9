"""The pictures of README.md: small, and those that the script makes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import readme_pictures

ROOT = Path(__file__).parents[2]
MAX_BYTES = 150_000


def test_the_plot_is_that_of_the_results() -> None:
    results = json.loads(readme_pictures.RESULTS.read_text())
    text = readme_pictures.speed_plot(results)
    assert (readme_pictures.IMAGES / "speed.svg").read_text() == text
    root = ElementTree.fromstring(text)
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    assert len(list(circles)) == len(readme_pictures.PEERS) * len(results["records"])


def test_the_readme_has_the_medians_of_the_plot() -> None:
    medians = re.findall(r">([\d.]+x)</text>", (readme_pictures.IMAGES / "speed.svg").read_text())
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if "57 games" in line)
    assert [value for value in medians if "." in value][::2] == re.findall(r"\| ([\d.]+x)", row)


def test_the_mosaic_is_small() -> None:
    data = (readme_pictures.IMAGES / "environments.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert len(data) <= MAX_BYTES
