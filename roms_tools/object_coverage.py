"""Compare the tables of objects with what the hardware draws, and record the result.

    python -m roms_tools.object_coverage

plays each game that has a table, and writes into `cule/games/data/objects`: for each kind
``measured.runs``, the share of visible boxes that a run of a player, missile or ball reaches into:
0 for what is drawn with the playfield, about a half for what is drawn in every second frame. In
docs/objects.md it writes ``sprites``, the share of the pixels of such runs whose run meets a box,
and ``pixels``, the share of pixels in boxes among those that differ from the most frequent colour
of their scanline.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cule
from cule.games.objects import games_with_objects

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "cule" / "games" / "data" / "objects"
PAGE = ROOT / "docs" / "objects.md"

STEPS = 250
NUM_ENVS = 2
_BOX = 4  # x, y, w, h are the first columns


class Coverage(NamedTuple):
    """How a table agrees with the picture."""

    runs: dict[str, float]  # by kind, of those that were visible
    sprites: float
    pixels: float


def measure(game: str) -> Coverage:
    """Play `game` with random actions."""
    # An odd number of frames: many games draw an object in every second frame only.
    options: dict[str, Any] = {"stack_num": 1, "num_threads": 1, "noop_max": 0, "frameskip": 3}
    by_table = cule.AtariVectorEnv(game, NUM_ENVS, obs_type="objects", **options)
    by_hardware = cule.AtariVectorEnv(
        game, NUM_ENVS, obs_type="sprites", max_sprites=1024, **options
    )
    layout = by_table.objects_layout
    names = [slot.name for slot in layout.slots[game]]
    visible, object_pixels, num_runs = (
        layout.columns.index("visible"),
        by_hardware.objects_layout.columns.index("pixels"),
        by_hardware.objects_layout.columns.index("runs"),
    )
    num_actions = len(by_table.action_set)
    random = np.random.default_rng(0)
    seen: Counter[str] = Counter()
    held: Counter[str] = Counter()
    inside = colored = met = drawn = 0
    tables, runs = by_table.reset(seed=1)[0], by_hardware.reset(seed=1)[0]
    for _ in range(STEPS):
        actions = random.integers(num_actions, size=NUM_ENVS)
        tables, runs = by_table.step(actions)[0], by_hardware.step(actions)[0]
        for table, hardware, picture in zip(
            tables[:, 0], runs[:, 0], by_table.screens("index"), strict=True
        ):
            is_there = table[:, visible] > 0
            rows = hardware[hardware[:, num_runs] > 0]
            meets = _meet(table[is_there], rows)
            for name, holds in zip(
                np.array(names)[is_there].tolist(), meets.any(axis=1).tolist(), strict=True
            ):
                seen[name] += 1
                held[name] += holds
            met += int(rows[meets.any(axis=0), object_pixels].sum())
            drawn += int(rows[:, object_pixels].sum())
            is_colored = picture != _backgrounds(picture)[:, None]
            colored += int(is_colored.sum())
            inside += int((is_colored & _in_boxes(table[is_there], picture.shape)).sum())
    return Coverage(
        {name: round(held[name] / seen[name], 3) for name in dict.fromkeys(names) if seen[name]},
        round(met / drawn, 3),
        round(inside / colored, 3),
    )


def recorded(game: str) -> dict[str, float]:
    """``measured.runs`` of each kind of a game."""
    text = (DATA / f"{game}.toml").read_text()
    kinds = re.findall(r'^name = "(\w+)"$.*?^measured = {([^}]*)}', text, re.MULTILINE | re.DOTALL)
    found = {name: re.search(r"runs = ([\d.]+)", values) for name, values in kinds}
    return {name: float(number[1]) for name, number in found.items() if number}


def page_row(game: str) -> re.Match[str]:
    """The row of a game in the documentation: what comes before its last two cells, and these."""
    pattern = rf"^(\| `{game}` \|.*) \| ([\d.]+) \| ([\d.]+) \|$"
    row = re.search(pattern, PAGE.read_text(), re.MULTILINE)
    assert row is not None, game
    return row


def record(game: str, coverage: Coverage) -> None:
    """Write a game's numbers into its table and into the documentation."""
    path = DATA / f"{game}.toml"
    lines = []
    name = ""
    for line in path.read_text().splitlines():
        if found := re.match(r'name = "(\w+)"', line):
            name = found[1]
        if line.startswith("measured = {"):
            line = re.sub(r", runs = [\d.]+", "", line)
            if name in coverage.runs:
                line = line.replace(" }", f", runs = {coverage.runs[name]} }}")
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    cells = f" | {coverage.sprites:.2f} | {coverage.pixels:.2f} |"
    row = page_row(game)
    PAGE.write_text(PAGE.read_text().replace(row[0], row[1] + cells))


def _meet(boxes: NDArray[np.int16], runs: NDArray[np.int16]) -> Any:
    """Which boxes overlap which runs, ``[K, R]``."""
    x, y, w, h = boxes[:, :_BOX, None].astype(int).swapaxes(0, 1)
    u, v, s, t = runs[:, :_BOX, None].astype(int).swapaxes(0, 1).swapaxes(1, 2)
    return (x < u + s) & (u < x + w) & (y < v + t) & (v < y + h)


def _in_boxes(boxes: NDArray[np.int16], shape: tuple[int, ...]) -> Any:
    inside = np.zeros(shape, bool)
    for x, y, w, h in boxes[:, :_BOX].tolist():
        inside[max(y, 0) : max(y + h, 0), max(x, 0) : max(x + w, 0)] = True
    return inside


def _backgrounds(picture: NDArray[np.uint8]) -> Any:
    """The most frequent colour of each scanline."""
    lines = np.arange(len(picture))[:, None] * 256 + picture
    return np.bincount(lines.ravel(), minlength=len(picture) * 256).reshape(-1, 256).argmax(axis=1)


if __name__ == "__main__":
    for game_id in games_with_objects():
        found = measure(game_id)
        record(game_id, found)
        print(game_id, found.sprites, found.pixels, found.runs, flush=True)
