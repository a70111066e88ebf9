"""Runs of several seeds, and their curves."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents.run import curves  # noqa: E402
from cule.agents.run.run import Run  # noqa: E402
from cule.agents.run.scores import aggregate  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import InvalidArgumentError, MissingPackageError  # noqa: E402

SMALL = [
    *("--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--num-epochs", "1"),
    *("--network", "small", "--img-size", "42", "--stack-num", "1", "--decorrelate-steps", "0"),
    *("--no-progress-bar", "--max-num-frames-per-episode", "400"),
]


def write_run(folder: Path, preset: str, scores: dict[int, float]) -> None:
    folder.mkdir(parents=True)
    config = {"algorithm": "ppo", "preset": preset, "game": "pong", "frameskip": 4}
    (folder / "config.json").write_text(json.dumps(config))
    lines = ["steps,mean,std", *(f"{step},{score},1.0" for step, score in scores.items())]
    (folder / "evaluations.csv").write_text("\n".join(lines) + "\n")


def test_curves_are_joined_by_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all runs in folders and folders of folders, at the steps that they share."""
    seeds = ({100: 1.0, 200: 5.0}, {100: 2.0, 200: 6.0, 300: 9.0}, {100: 9.0, 200: 7.0})
    for seed, scores in enumerate(seeds):
        write_run(tmp_path / "many" / f"seed-{seed}", "ppo-cpu", scores)
    write_run(tmp_path / "one", "a2c", {50: -3.0})
    out = tmp_path / "plots" / "pong.svg"
    words = [str(tmp_path / "many"), str(tmp_path / "one"), "--out", str(out)]
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    assert main(["plot", *words, "--goal", "8"]) == (0 if has_matplotlib else 2)
    text = capsys.readouterr().out
    assert "pong ppo-cpu" in text
    assert "pong a2c" in text
    with out.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["curve"], row["runs"], row["steps"], row["frames"]) for row in rows] == [
        ("pong ppo-cpu", "3", "100", "400"),
        ("pong ppo-cpu", "3", "200", "800"),
        ("pong a2c", "1", "50", "200"),
    ]
    wanted = aggregate({"pong": [5.0, 6.0, 7.0]})["iqm"]
    assert [float(rows[1][name]) for name in ("iqm", "low", "high")] == pytest.approx(
        list(wanted), rel=1e-5
    )
    if not has_matplotlib:
        return
    first = out.read_bytes()
    assert b"<svg" in first
    assert main(["plot", *words, "--goal", "8"]) == 0
    assert out.read_bytes() == first


def test_returns_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows before the first end of an episode have none."""
    write_run(tmp_path / "run", "ppo", {})
    progress = tmp_path / "run" / "progress.csv"
    progress.write_text("steps,episode_return\n64,nan\n128,-2.5\n192,3.5\n")
    out = tmp_path / "a.svg"
    main(["plot", str(tmp_path / "run"), "--returns", "--out", str(out)])
    with out.with_suffix(".csv").open() as file:
        rows = [(row["steps"], row["iqm"]) for row in csv.DictReader(file)]
    assert rows == [("128", "-2.5"), ("192", "3.5")]
    progress.write_text("steps,episode_return\n64,nan\n")
    assert main(["plot", str(tmp_path / "run"), "--returns", "--out", str(out)]) == 2
    assert "has no episode that ended" in capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path)]) == 2
    assert "it must be the folder of a run" in capsys.readouterr().err
    write_run(tmp_path / "run", "ppo", {})
    assert main(["plot", str(tmp_path / "run")]) == 2
    assert "no evaluations; train with --eval-every" in capsys.readouterr().err
    table = tmp_path / "run" / "evaluations.csv"
    for row in ("abc,1.0,1.0", "1e9,1.0,1.0", "5,abc,1.0", "5,,1.0", "5"):
        table.write_text(f"steps,mean,std\n{row}\n")
        assert main(["plot", str(tmp_path / "run")]) == 2
        assert f"{table} does not hold rows of a run" in capsys.readouterr().err
    (tmp_path / "run" / "sweep.json").write_text("{}")
    assert main(["plot", str(tmp_path / "run"), "--out", str(tmp_path / "x.svg")]) == 2
    assert "which holds a sweep; cule plot takes it alone" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_pictures_have_names_of_their_formats_and_are_regular_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", "ppo", {10: 3.5})
    words = ["plot", str(tmp_path / "run"), "--out"]
    for name in ("a.csv", "a.gif", "a"):
        assert main([*words, str(tmp_path / name)]) == 2
        assert "it must be NAME.svg, NAME.png or NAME.pdf" in capsys.readouterr().err
    for name in ("a.svg", "b.csv"):
        os.mkfifo(tmp_path / name)
    for name, reason in (("a.svg", "a.svg"), ("b.svg", "b.csv")):
        assert main([*words, str(tmp_path / name)]) == 2
        assert f"{reason} cannot be written: it is no regular file" in capsys.readouterr().err


def test_without_matplotlib_there_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_run(tmp_path / "run", "ppo", {10: 3.5})
    with pytest.raises(MissingPackageError, match=r"matplotlib.*cule.bench"):
        curves.plot_curves([str(tmp_path / "run"), "--out", str(tmp_path / "a.svg")])
    assert "3.50" in capsys.readouterr().out
    assert (tmp_path / "a.csv").exists()


@pytest.mark.long
@pytest.mark.ale
def test_one_run_for_each_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words: list[Any] = ["train", "ppo-cpu", *SMALL, "--total-steps", "16", "--seed", "7"]
    words += ["--eval-episodes", "10", "--seeds", "3", "--out", str(tmp_path / "runs")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "3 seeds: interquartile mean -" in text
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert folders == ["seed-7", "seed-8", "seed-9"]
    configs = [
        json.loads((tmp_path / "runs" / name / "config.json").read_text()) for name in folders
    ]
    assert [config["seed"] for config in configs] == [7, 8, 9]
    assert all("seeds" not in config["run"] for config in configs)
    found = curves.read_curves(curves.find_runs([tmp_path / "runs"]))
    assert [len(curve.scores) for curve in found] == [3]
    assert main([*words, "--resume"]) == 2
    assert "resume the run of one seed" in capsys.readouterr().err


@pytest.mark.ale
def test_ctrl_c_in_the_last_round_of_a_seed_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = Run.save

    def interrupted(run: Run, **options: bool) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        save(run, **options)

    monkeypatch.setattr(Run, "save", interrupted)
    words = ["train", "ppo-cpu", *SMALL, "--total-steps", "16", "--eval-episodes", "10"]
    assert main([*words, "--seeds", "2", "--out", str(tmp_path)]) == 130
    assert "continue with --resume" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["seed-0"]


def test_each_game_has_a_panel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    kinds = [("pong", "ppo"), ("pong", "dqn"), ("breakout", "ppo"), ("qbert", "ppo")]
    found = [curves.Curve(*kind, 4, {"run": {100: 1.0, 200: 2.0}}) for kind in kinds]
    points = {curve.label: curve.points() for curve in found}
    curves.draw(tmp_path / "a.svg", found, points)
    picture = (tmp_path / "a.svg").read_text()
    assert picture.count('<g id="axes_') == 3
    assert all(f">{game}</text>" in picture for game in ("pong", "breakout", "qbert"))


def test_a_plot_needs_no_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "ppo", {10: 3.5})
    code = "import sys; sys.modules['torch'] = None; from cule.cli import main; main(sys.argv[1:])"
    words = ["plot", str(tmp_path / "run"), "--out", str(tmp_path / "a.svg")]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
    assert "pong ppo,1,10,40,3.5" in (tmp_path / "a.csv").read_text()


def test_a_run_is_counted_once_under_any_name(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "a2c", {50: 3.0})
    (tmp_path / "link").symlink_to("one")
    (curve,) = curves.read_curves([tmp_path / "one", tmp_path / "link"])
    assert len(curve.scores) == 1


def test_runs_of_several_frameskips_make_no_curve(tmp_path: Path) -> None:
    """Their steps are not the same number of frames."""
    for name in ("one", "two"):
        write_run(tmp_path / name, "a2c", {50: 3.0})
    path = tmp_path / "two" / "config.json"
    path.write_text(path.read_text().replace('"frameskip": 4', '"frameskip": 2'))
    with pytest.raises(InvalidArgumentError, match="frameskip 2, and another run of pong a2c 4"):
        curves.read_curves([tmp_path / "one", tmp_path / "two"])


def test_runs_without_a_common_step_are_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (50, 60):
        write_run(tmp_path / str(step), "a2c", {step: 3.0})
    main(["plot", str(tmp_path), "--out", str(tmp_path / "a.svg")])
    assert "no step that all of them have" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["evaluations", "progress"])
def test_a_plot_leaves_the_tables_of_a_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "one"
    write_run(run, "a2c", {50: 3.0})
    before = (run / "evaluations.csv").read_bytes()
    assert main(["plot", str(run), "--out", str(run / f"{name}.svg")]) == 2
    assert f"{name}.csv has the rows of a run" in capsys.readouterr().err
    assert (run / "evaluations.csv").read_bytes() == before
    assert not (run / "progress.csv").exists()
