"""The table and the picture of docs/machines.md, from the records of machines.

Records are ``benchmarks/machines/*.json`` and those of the project in ``benchmarks/results``: of
``cule check``, of ``cule bench`` (settings and records) and of the GPU suite (``fps-57.json``).
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1] / "benchmarks"
OURS = ("bench-57-games.json", "gpu-h200/fps-57.json", "gpu-h200-2/fps-57.json")
MARK = "<!-- machines -->"


@dataclass(frozen=True)
class Row:
    """The rates of a machine with one number of environments."""

    machine: str
    version: str
    date: str
    kernel: str
    num_envs: int
    rates: tuple[float, ...]  # frames per second, one for each game


def rows(root: Path = ROOT) -> list[Row]:
    """Every row of the page: machine by machine, in the order of environments.

    Args:
        root: Folder with ``machines`` and ``results``.

    Raises:
        ValueError: A file is no record, or one whose comparison of results failed.
    """
    paths = [root / "results" / name for name in OURS]
    paths += sorted((root / "machines").glob("*.json"))
    return [row for path in paths for row in rows_of(path)]


def rows_of(path: Path) -> list[Row]:
    """The rows of a record."""
    record = json.loads(path.read_text())
    settings = record.get("settings", record)
    rates: dict[tuple[str, int], list[float]] = {}
    on_gpu = True
    if "cells" in record:
        for cell in record["cells"]:
            if "frames_per_s" in cell:
                key = (cell["kernel"]["name"], cell["num_envs"])
                rates.setdefault(key, []).append(cell["frames_per_s"])
    elif "records" in record:
        on_gpu = "cule-cpu" not in settings["options"]["engines"]
        for cell in record["records"]:
            ours = cell["runs"].get("cule-cuda" if on_gpu else "cule-cpu")
            if ours is not None:
                key = ("auto", cell["cell"]["num_envs"])
                rates.setdefault(key, []).append(ours["frames_per_s"]["median"])
    elif "speed" in record:
        wrong = [step["name"] for step in record["steps"] if not step["is_right"]]
        if wrong:
            raise ValueError(f"{path}: {', '.join(wrong)} failed, so its rates are not shown")
        on_gpu = any(speed["lanes_per_warp"] for speed in record["speed"])
        fastest: dict[tuple[str, int], float] = {}
        for speed in record["speed"]:
            key = (speed["kernel"], speed["num_envs"])
            fastest[key] = max(speed["frames_per_s"], fastest.get(key, 0.0))
        rates = {key: [rate] for key, rate in fastest.items()}
    else:
        raise ValueError(f"{path}: no record of cule check, cule bench or the GPU suite")
    date = record.get("when") or record.get("date") or record["records"][0]["date"]
    name = _name(settings, on_gpu)
    return [
        Row(name, settings["machine"]["build"]["version"], date[:10], *key, tuple(found))
        for key, found in sorted(rates.items(), key=lambda item: item[0][::-1])
    ]


def _name(settings: Any, on_gpu: bool) -> str:
    machine = settings["machine"]
    if on_gpu:
        return str(machine["gpu"]["name"])
    threads = settings["options"].get("threads") or machine["cpus"]
    return f"{machine['processor']}, {threads} threads"


def markdown(page: str, root: Path = ROOT) -> str:
    """The page with its picture and table."""
    found = rows(root)
    head = "| machine | cule, date | kernel | environments | games | worst | median | best |"
    lines = [head, "|---|---|---|--:|--:|--:|--:|--:|"]
    for row in found:
        low, middle, high = min(row.rates), statistics.median(row.rates), max(row.rates)
        cells = (row.machine, f"{row.version}, {row.date}", row.kernel, f"{row.num_envs:,}")
        counts = (len(row.rates), f"{low:,.0f}", f"{middle:,.0f}", f"{high:,.0f}")
        lines.append("| " + " | ".join(map(str, cells + counts)) + " |")
    return page.replace(MARK, f"{svg(found)}\n\n" + "\n".join(lines))


def svg(found: list[Row]) -> str:
    """Bars on a logarithmic axis, one for each row."""
    decades = range(
        math.floor(math.log10(min(min(row.rates) for row in found))),
        math.ceil(math.log10(max(max(row.rates) for row in found))) + 1,
    )
    left, width, height = 330, 400, 24 * len(found)

    def x(rate: float) -> float:
        share = (math.log10(rate) - decades[0]) / (decades[-1] - decades[0])
        return round(left + width * share, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {height + 30}" '
        'font-size="12" fill="currentColor" role="img" aria-label="Frames per second by machine">'
    ]
    for decade in decades:
        at = x(10**decade)
        parts.append(f'<path d="M{at} 0V{height}" stroke="currentColor" opacity="0.3"/>')
        parts.append(f'<text x="{at}" y="{height + 16}" text-anchor="middle">{10**decade:,}</text>')
    for i, row in enumerate(found):
        y = 24 * i + 4
        low, middle, high = x(min(row.rates)), x(statistics.median(row.rates)), x(max(row.rates))
        parts.append(
            f'<text x="{left - 10}" y="{y + 12}" text-anchor="end">'
            f"{row.machine}, {row.num_envs:,} environments</text>"
            f'<rect x="{low}" y="{y}" width="{high - low:.1f}" height="16" fill="#4878a8" '
            f'opacity="0.5"/><path d="M{middle} {y}v16" stroke="#c03020" stroke-width="3"/>'
        )
    return "".join([*parts, "</svg>"])
