"""Tables and plots of benchmarks, from records without a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cule.bench import plots, report
from cule.bench.games import DEFAULT_GAMES
from cule.bench.options import PRESETS, Cell
from tests.support.bench_records import fake_divergence, fake_record


def test_tables() -> None:
    made = [
        fake_record("emulation", 8, "pong"),
        fake_record("emulation", 8, "skiing", ends=0.5),
        fake_record("training", 8, "pong"),
        fake_divergence("pong"),
    ]
    text = report.report(made, None, "a machine", {"cule-cuda": "no device"})
    for part in (
        "a machine",
        "cule-cuda: not available: no device",
        "emulation, 8 environments",
        "2.00 (2.00 to 2.00) | 1.00",
        "cule-cpu / ale: they kept 2.00 and 1.00 cores busy; the ratio by the clock is not one of",
        "digest0",
        "skiing *",
        "* episodes end at once",
        "equal to ale-py: observations, rewards, terminated and truncated of 288 environment steps",
        "training by number of environments",
        "ppo on cule-cpu",
        "after a common reset",
    ):
        assert part in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_marked_games_are_no_part_of_the_median() -> None:
    made = [fake_record("emulation", 8, game) for game in ("pong", "qbert")]
    marked = fake_record("emulation", 8, "skiing", ends=0.5)
    marked["runs"]["cule-cpu"]["frames_per_s"]["median"] = 10**9
    last = report.speed_table([*made, marked]).splitlines()[-1].split()
    assert last[:6] == ["median", "4,000", "2,000", "2.00", "|", "1.00"]


def test_engines_that_keep_as_many_cores_busy_need_no_warning() -> None:
    record = fake_record("emulation", 8, "pong")
    assert len(report.uneven_cores([record])) == 1
    record["runs"]["ale"]["cpu_cores_busy"] = 1.9
    assert report.uneven_cores([record]) == []


def test_what_was_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [Cell("emulation", game, 64) for game in DEFAULT_GAMES] + [Cell("training", "pong", 8)]
    notes = report.left_out_notes(late, 4.0)
    assert notes == {
        "emulation": "emulation, left out after --minutes 4: 64 environments of 8 games",
        "training": "training, left out after --minutes 4: 8 environments of pong",
    }
    made = [fake_record("emulation", 8, "pong"), fake_record("training", 8, "qbert")]
    text = report.report(made, None, "a machine", {}, notes.values())
    assert all(note in text for note in notes.values())
    assert report.left_out_notes([], 4.0) == {}

    pytest.importorskip("matplotlib")
    below = {}

    def keep(figure: Any, title: str, note: str, hardware: str, path: Path) -> Path:
        below[path.name] = hardware
        return path

    monkeypatch.setattr(plots, "_save", keep)
    plots.plot_all(made, "a machine", tmp_path, notes)
    assert below["emulation-by-environments.png"] == f"a machine\n{notes['emulation']}"
    assert below["training.png"] == f"a machine\n{notes['training']}"


@pytest.mark.parametrize("games", [("pong",), ("pong", "qbert", "breakout", "seaquest")])
def test_one_size_has_bars(
    games: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, *_: figures.append(figure))
    made = [fake_record("emulation", 8, game) for game in games]
    plots.plot_speed(made, "emulation", "a machine", tmp_path / "a.png")
    (axis,) = figures[0].axes
    assert [bar.get_width() for bar in axis.patches] == [4000, 2000]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["cule, CPU", "ale-py"]
    assert [text.get_text() for text in axis.texts] == ["4,000", "2,000"]
    assert axis.get_xlim()[0] == 0


@pytest.mark.parametrize("games", [("pong",), ("pong", "qbert", "breakout", "seaquest")])
def test_series_have_marks_and_labels(
    games: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one game, where boxes would show nothing; none hides another."""
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, *_: figures.append(figure))
    made = [fake_record("emulation", size, game) for size in (8, 64) for game in games]
    plots.plot_speed(made, "emulation", "a machine", tmp_path / "a.png")
    for axis in figures[0].axes:
        labels = [text for text in axis.texts if text.get_text()]
        assert [text.get_text().split("  ")[0] for text in labels] == ["ale-py", "cule, CPU"]
        heights = [text.xyann[1] for text in labels]
        assert heights[1] - heights[0] >= 0.07
        lines = [line for line in axis.lines if line.get_marker() not in ("None", "", "none", ".")]
        assert {line.get_marker() for line in lines} == {"o", "v"}
        assert all(len(line.get_xdata()) for line in lines)


def test_geometries_have_colours_and_markers_of_their_own() -> None:
    names = PRESETS["gpu-geometry"].engines
    styles = [plots._style_of(name, place) for place, name in enumerate(names)]
    assert len(set(styles)) == len(names)


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = [
        fake_record(load, num_envs, game, ends=0.5 * (game == "skiing"))
        for load in ("emulation", "inference", "training")
        for num_envs in (8, 64)
        for game in ("pong", "qbert", "skiing")
    ]
    paths = plots.plot_all([*made, fake_divergence("pong")], "a machine", tmp_path)
    assert sorted(path.name for path in paths) == [
        "after-reset-cule-cpu.png",
        "emulation-by-environments.png",
        "emulation-ratios.png",
        "inference-by-environments.png",
        "inference-ratios.png",
        "training.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert plots.plot_all([], "a machine", tmp_path) == []
