"""Sweeps on a Ray cluster of three nodes on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="ray is not installed; make test-integrations runs this")

from cule.cli import main
from tests.agents.test_sweeps import SMALL, kill_run, read_csv
from tests.support.ray_nodes import nodes

#: Of Ray itself: its processes and files live longer than the objects that own them.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.ale]

GAMES = ("pong", "breakout", "boxing", "freeway")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with nodes(1, 1, 1) as made:
        yield made


def sweep(
    cluster: Any, folder: Path, games: Sequence[str], seeds: int, steps: int
) -> list[dict[str, str]]:
    """Sweep, with the run of the first game and seed killed; the rows of its scores."""
    killer = threading.Thread(target=kill_run, args=(folder / games[0] / "seed-0",), daemon=True)
    killer.start()
    words = ["sweep", "ppo-cpu", *SMALL, "--games", ",".join(games), "--seeds", str(seeds)]
    words += ["--out", str(folder), "--cluster", cluster.address, "--total-steps", str(steps)]
    words += ["--checkpoint-every", "200", "--log-every", "200", "--eval-every", str(steps // 4)]
    assert main(words) == 0
    killer.join()
    return read_csv(folder / "results" / "scores.csv")


def check(folder: Path, rows: list[dict[str, str]], games: Sequence[str], seeds: int) -> None:
    assert [(row["game"], row["seeds"]) for row in rows] == [(game, str(seeds)) for game in games]
    progress = sorted(folder.glob("*/seed-*/progress.csv"))
    assert len(progress) == len(games) * seeds
    for path in progress:
        steps = [int(row["steps"]) for row in read_csv(path)]
        assert steps == list(range(200, steps[-1] + 1, 200)), path
    for name in ("curves.svg", "profile.svg"):
        assert "<path" in (folder / "results" / name).read_text()
    labels = {row["curve"] for row in read_csv(folder / "results" / "curves.csv")}
    assert labels == {f"{game} ppo-cpu" for game in games}
    assert r"\begin{tabular}" in (folder / "results" / "table.tex").read_text()


def test_a_killed_run_of_a_sweep_continues(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = sweep(cluster, tmp_path, GAMES[:2], 1, 2_000)
    check(tmp_path, rows, GAMES[:2], 1)
    assert "ended with status -9" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_of_four_games_and_three_seeds(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = sweep(cluster, tmp_path, GAMES, 3, 8_000)
    check(tmp_path, rows, GAMES, 3)
    error = capsys.readouterr().err
    assert "ended with status -9" in error
    assert "12 of 12 runs complete" in error


def test_a_cluster_without_room(cluster: Any, tmp_path: Path) -> None:
    words = ["sweep", "ppo-cpu", *SMALL, "--games", "pong", "--out", str(tmp_path / "none")]
    assert main([*words, "--cluster", cluster.address, "--cpus-per-run", "64"]) == 2
    assert not (tmp_path / "none").exists()
