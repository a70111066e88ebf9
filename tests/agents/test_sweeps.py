"""Sweeps: runs of many games and seeds, their restarts, and their results."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import io
import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule.agents.run import scores  # noqa: E402
from cule.agents.sweeps import command, report  # noqa: E402
from cule.agents.sweeps import runs as sweep_runs  # noqa: E402
from cule.agents.sweeps.runs import Outcome, Plan, read_plan, run_process  # noqa: E402
from cule.agents.sweeps.schedule import LiveTable, Schedule  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import CheckpointError, InvalidArgumentError  # noqa: E402

SMALL = [
    *("--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--num-epochs", "1"),
    *("--network", "small", "--img-size", "42", "--stack-num", "1", "--decorrelate-steps", "0"),
    *("--max-num-frames-per-episode", "400", "--eval-episodes", "10"),
]
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def make_plan(num_seeds: int = 2, games: Sequence[str] = ("pong", "breakout")) -> Plan:
    return Plan("ppo-cpu", list(games), num_seeds, [], 200, 4)


def write_run(folder: Path, game: str, finals: dict[int, float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = {"algorithm": "ppo", "preset": "ppo-cpu", "game": game, "frameskip": 4}
    (folder / "config.json").write_text(json.dumps(config))
    lines = ["steps,mean", *(f"{steps},{score}" for steps, score in finals.items())]
    (folder / "evaluations.csv").write_text("\n".join(lines) + "\n")


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


# --- Results --------------------------------------------------------------------------------------


def test_performance_profile_is_that_of_its_definition() -> None:
    runs = {"pong": [0.5, 1.5], "breakout": [0.0, 1.0], "qbert": [2.0, 2.0]}
    found = scores.performance_profile(runs, [0.0, 0.5, 1.0, 3.0], resamples=400)
    assert [value for value, _, _ in found] == pytest.approx([5 / 6, 4 / 6, 3 / 6, 0.0])
    # Resamples of pong have 0, 1 or 2 runs above 1, those of the others always the same.
    assert (found[2].low, found[2].high) == pytest.approx((2 / 6, 4 / 6))
    assert found[3] == (0.0, 0.0, 0.0)
    # Games have equal weight, however many runs they have.
    uneven = {"pong": [2.0], "breakout": [0.0, 0.0, 0.0]}
    assert scores.performance_profile(uneven, [1.0], resamples=10)[0].value == 0.5


@pytest.mark.parametrize("name", ["evaluations.csv", "progress.csv", "config.json"])
@pytest.mark.parametrize("content", ["steps,frames\nabc,abc\n", f"a\n{'b' * 140_000}\n"])
def test_a_run_with_a_damaged_file_is_left_out_and_named(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plan(games=["pong"]).save(tmp_path)
    for seed in range(2):
        write_run(tmp_path / "pong" / f"seed-{seed}", "pong", {200: 1.0})
    damaged = tmp_path / "pong" / "seed-1" / name
    damaged.write_text({"config.json": '{"algorithm": "ppo"}'}.get(name, content))
    assert main(["plot", str(tmp_path)]) == (1 if HAS_MATPLOTLIB else 2)
    assert f"left out: {damaged} does not hold" in capsys.readouterr().out
    (row,) = read_csv(tmp_path / "results" / "scores.csv")
    assert (row["game"], row["seeds"]) == ("pong", "2" if name == "progress.csv" else "1")
    if name != "progress.csv":
        (tmp_path / "pong" / "seed-0" / "evaluations.csv").unlink()
        with pytest.raises(CheckpointError, match=f"{name} does not hold"):
            report.read_results(tmp_path)


def test_the_report_holds_scores_aggregates_and_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(games=["pong", "breakout", "adventure_like_no_other"])
    plan.save(tmp_path)
    finals = {"pong": (14.6, -20.7), "breakout": (30.5, 30.5)}
    for game, (first, second) in finals.items():
        write_run(tmp_path / game / "seed-0", game, {100: 0.0, 200: first})
        write_run(tmp_path / game / "seed-1", game, {100: 1.0, 200: second})
    write_run(
        tmp_path / "adventure_like_no_other" / "seed-0", "adventure", {100: 1.0}
    )  # unfinished
    assert main(["plot", str(tmp_path)]) == (0 if HAS_MATPLOTLIB else 2)
    out = tmp_path / "results"
    rows = read_csv(out / "scores.csv")
    assert [(row["game"], row["seeds"]) for row in rows] == [("pong", "2"), ("breakout", "2")]
    assert float(rows[0]["mean"]) == pytest.approx((14.6 - 20.7) / 2)
    assert float(rows[0]["std"]) == pytest.approx(35.3 / math.sqrt(2), rel=1e-5)
    assert float(rows[0]["human_normalized"]) == pytest.approx(0.5)  # of 1 and 0
    assert float(rows[1]["human_normalized"]) == pytest.approx(1.0)
    assert float(rows[0]["record_normalized"]) == pytest.approx((-3.05 + 20.7) / 41.7, rel=1e-5)
    assert (rows[0]["record"], rows[1]["record"]) == ("21.0", "864.0")
    aggregates = {row["aggregate"]: row for row in read_csv(out / "aggregates.csv")}
    assert float(aggregates["median"]["value"]) == pytest.approx(0.75)
    assert float(aggregates["iqm"]["value"]) == pytest.approx(1.0)  # of 0 1 1 1 the middle two
    assert float(aggregates["iqm"]["low"]) < 1.0
    profile = {float(row["threshold"]): row for row in read_csv(out / "profile.csv")}
    assert float(profile[0.0]["share_above"]) == pytest.approx(0.75)
    assert float(profile[2.0]["share_above"]) == 0.0
    curves = read_csv(out / "curves.csv")
    assert [(row["curve"], row["steps"]) for row in curves] == [
        (f"{game} ppo-cpu", steps) for game in ("pong", "breakout") for steps in ("100", "200")
    ]
    table = (out / "table.tex").read_text()
    assert r"pong & -20.7 & 14.6 & -3.0 $\pm$ 25.0 & 50\,\% \\" in table
    assert table.count(r"\\") == 1 + 2 + 4
    if HAS_MATPLOTLIB:
        assert "ppo-cpu: 4 runs in 2 games" in capsys.readouterr().out
        picture = (out / "curves.svg").read_text()
        assert "<svg" in picture
        assert picture.count('id="axes_') == 2  # a curve of each game
        assert b"<svg" in (out / "profile.svg").read_bytes()


def write_training(folder: Path, rows: Sequence[tuple[int, int, float]]) -> None:
    """Rows of progress: millions of frames, episodes that ended since the last row, and their mean."""
    lines = [f"{millions * 250_000},{millions}000000,{n},{mean}" for millions, n, mean in rows]
    text = "\n".join(["steps,frames,episodes,episode_return", *lines]) + "\n"
    (folder / "progress.csv").write_text(text)


def test_the_report_holds_scores_of_training_at_milestones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plan().save(tmp_path)
    runs = {
        (game, seed): tmp_path / game / f"seed-{seed}"
        for game in ("pong", "breakout")
        for seed in (0, 1)
    }
    for (game, _), folder in runs.items():
        write_run(folder, game, {200: 1.0})
    nan = math.nan
    # At 10 million frames the last 100 episodes are those of the last two rows before; at 50 all.
    write_training(
        runs["pong", 0], [(4, 900, 5.0), (8, 40, -8.0), (10, 60, 2.0), (12, 0, nan), (55, 7, 1.0)]
    )
    write_training(runs["pong", 1], [(9, 1, 14.6), (11, 5, 0.0)])  # fewer than 100 episodes
    write_training(runs["breakout", 0], [(9, 100, 4.0)])  # not that far
    write_training(runs["breakout", 1], [(30, 500, 9.0)])  # no episode before
    assert main(["plot", str(tmp_path)]) == (0 if HAS_MATPLOTLIB else 2)
    rows = read_csv(tmp_path / "results" / "milestones.csv")
    assert [(row["frames"], row["game"], row["seeds"]) for row in rows] == [
        ("10000000", "pong", "2"),
        ("50000000", "pong", "1"),
    ]
    first = (40 * -8.0 + 60 * 2.0) / 100
    assert float(rows[0]["mean"]) == pytest.approx((first + 14.6) / 2)
    later = (60 * 2.0 + 40 * -8.0) / 100
    assert float(rows[1]["mean"]) == pytest.approx(later)
    assert float(rows[1]["human_normalized"]) == pytest.approx((later + 20.7) / 35.3, rel=1e-5)
    if HAS_MATPLOTLIB:
        text = capsys.readouterr().out
        assert f"median at 10 M frames    {(6.3 + 20.7) / 35.3:8.3f}  of training, 1 games" in text
        assert "100 M" not in text


def test_a_sweep_without_results(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="not the folder of a sweep"):
        report.read_results(tmp_path)
    make_plan().save(tmp_path)
    with pytest.raises(InvalidArgumentError, match="without a complete run"):
        report.read_results(tmp_path)
    plan = json.loads((tmp_path / "sweep.json").read_text())
    wrong = ({"games": 5}, {"games": [5]}, {"num_seeds": "2"}, {"total_steps": None})
    for text in ("{", *(json.dumps({**plan, **change}) for change in wrong)):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(CheckpointError, match="damaged"):
            read_plan(tmp_path)


def test_a_folder_holds_one_sweep(tmp_path: Path) -> None:
    make_plan().save(tmp_path)
    make_plan().save(tmp_path)
    with pytest.raises(CheckpointError, match="holds a sweep with num_seeds 2, not 3"):
        make_plan(3).save(tmp_path)
    plan = dataclasses.replace(make_plan(), words=[f"--{number}" for number in range(20)])
    with pytest.raises(CheckpointError, match=r"words '', not '--0 .* --19'; continue"):
        plan.save(tmp_path)


# --- Scheduling -----------------------------------------------------------------------------------


class Scripted:
    """Executes runs that end as a script says, by the number of the try."""

    def __init__(self, plan: Plan, script: dict[str, list[Outcome]], steps: int = 0) -> None:
        self.plan, self.script, self.steps = plan, script, steps
        self.starts: list[str] = []
        self.alive = self.most = 0
        self.lock = threading.Lock()

    def __call__(self, words: Sequence[str], log: Path, stop: threading.Event) -> Outcome:
        game = words[words.index("--game") + 1]
        folder = Path(words[words.index("--out") + 1])
        with self.lock:
            self.starts.append(f"{game} {words[words.index('--seed') + 1]}")
            self.alive += 1
            self.most = max(self.most, self.alive)
        outcome = self.end(game, folder, stop)
        with self.lock:
            self.alive -= 1
        return outcome

    def end(self, game: str, folder: Path, stop: threading.Event) -> Outcome:
        with self.lock:
            tries = self.script.get(game, [])
            if tries:
                folder.mkdir(parents=True, exist_ok=True)
                self.steps += 10
                (folder / "progress.csv").write_text(f"steps,steps_per_s\n{self.steps},5\n")
                return tries.pop(0)
            write_run(folder, game, {self.plan.total_steps: 1.0})
            return Outcome(0, "")


LOST = Outcome(None, "its node died")
KILLED = Outcome(-signal.SIGKILL, "")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cule.agents.sweeps.schedule.LOOK_S", 0.001)


def schedule(folder: Path, fake: Any, restarts: int = 1) -> tuple[Schedule, io.StringIO]:
    stream = io.StringIO()
    made = Schedule(
        fake.plan, folder, fake, num_slots=lambda: 2, max_restarts=restarts, stream=stream
    )
    return made, stream


def test_runs_are_started_once_within_the_slots(tmp_path: Path) -> None:
    plan = make_plan(2, ["pong", "breakout", "qbert"])
    write_run(tmp_path / "qbert" / "seed-0", "qbert", {200: 5.0})  # of an earlier call

    class InPairs(Scripted):
        """The first two runs end when both have begun."""

        both = threading.Barrier(2, timeout=60)

        def end(self, game: str, folder: Path, stop: threading.Event) -> Outcome:
            if folder.name == "seed-0":
                self.both.wait()
            return super().end(game, folder, stop)

    fake = InPairs(plan, {})
    made, stream = schedule(tmp_path, fake)
    assert made.run()
    assert sorted(fake.starts[:2]) == ["breakout 0", "pong 0"]
    assert sorted(fake.starts[2:]) == ["breakout 1", "pong 1", "qbert 1"]
    assert fake.most == 2
    assert "6 of 6 runs complete" in stream.getvalue()


def test_lost_runs_continue_as_long_as_they_make_progress(tmp_path: Path) -> None:
    fake = Scripted(make_plan(1), {"pong": [LOST, KILLED, LOST]})
    made, stream = schedule(tmp_path, fake)
    assert made.run()
    assert fake.starts.count("pong 0") == 4
    assert made.num_restarts == 3
    text = stream.getvalue()
    assert "pong seed 0 was lost at 10 steps: its node died; it continues" in text
    assert "pong seed 0 ended with status -9 at 20 steps" in text


def test_runs_without_progress_and_refused_runs_fail(tmp_path: Path) -> None:
    class Stuck(Scripted):
        def end(self, game: str, folder: Path, stop: threading.Event) -> Outcome:
            self.steps = 0
            return super().end(game, folder, stop)

    refused = Outcome(2, "cule: num_envs is 0")
    fake = Stuck(make_plan(1), {"pong": [LOST] * 9, "breakout": [refused]})
    made, _ = schedule(tmp_path, fake, restarts=2)
    assert not made.run()
    assert fake.starts.count("pong 0") == 3
    assert fake.starts.count("breakout 0") == 1
    messages = {run.game: message for run, message in made.failed.items()}
    assert messages["breakout"] == "ended with status 2 at 10 steps: cule: num_envs is 0"


@pytest.mark.parametrize("name", ["evaluations.csv", "progress.csv"])
def test_a_damaged_table_of_one_run_ends_no_other(name: str, tmp_path: Path) -> None:
    class Damaging(Scripted):
        def end(self, game: str, folder: Path, stop: threading.Event) -> Outcome:
            outcome = super().end(game, folder, stop)
            if game == "pong":
                (folder / name).write_text("steps,mean\nabc,abc\n")
            return outcome

    fake = Damaging(make_plan(2), {"pong": [LOST] * 9})
    (tmp_path / "pong" / "seed-1").mkdir(parents=True)
    (tmp_path / "pong" / "seed-1" / name).write_text("steps,mean\nabc,abc\n")
    made, _ = schedule(tmp_path, fake)
    assert not made.run()
    assert sorted({run.name for run in made.failed}) == ["pong seed 0", "pong seed 1"]
    assert "2 of 4 runs complete, 0 running, 0 waiting, 2 failed" in made.lines()[0]


def test_an_interrupted_sweep_stops_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    class Waiting(Scripted):
        def end(self, game: str, folder: Path, stop: threading.Event) -> Outcome:
            assert stop.wait(60)
            stopped.append(game)
            return Outcome(0, "")

    made, _ = schedule(tmp_path, Waiting(make_plan(1), {}))

    def interrupt(lines: Sequence[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveTable, "show", lambda _, lines: interrupt(lines))
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert sorted(stopped) == ["breakout", "pong"]


def test_a_sweep_waits_where_no_node_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    made, _ = schedule(tmp_path, Scripted(make_plan(1), {}))
    slots = iter((0, 0, 0))
    made.num_slots = lambda: next(slots, 2)
    monkeypatch.setattr("cule.agents.sweeps.schedule.threading.Event", Event)
    assert made.run()
    assert waits[:3] == [0.001] * 3


def test_the_table_has_progress_and_an_expected_end(tmp_path: Path) -> None:
    made, _ = schedule(tmp_path, Scripted(make_plan(2), {}))
    run = made.waiting.popleft()
    made.running[run] = Future()
    assert "expected end unknown yet" in made.lines()[0]
    run.folder.mkdir(parents=True)
    (run.folder / "progress.csv").write_text("steps,steps_per_s,episode_return\n50,2,-7.5\n")
    head, row = made.lines()
    # 150 steps of this run and 600 of three others, at 2 steps a second.
    assert re.search(r"0 of 4 runs complete, 1 running, 3 waiting, 0 failed.*in 0:06:15$", head)
    assert re.search(r"pong seed 0 +25\.0% +50 steps +8 FPS  return +-7\.5  ETA 0:01:15", row)


def test_a_terminal_shows_the_table_in_place() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    table = LiveTable(stream)
    table.show(["one", "two"])
    table.show(["three"])
    table.note("lost")
    assert stream.getvalue() == "one\ntwo\n\x1b[2F\x1b[Jthree\n\x1b[1F\x1b[Jlost\n"


# --- Processes ------------------------------------------------------------------------------------


def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from cule.agents.sweeps.runs import launch;"
        "p = launch([sys.executable, '-c', 'import time; time.sleep(600)'], Path(sys.argv[1]), 1);"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    parent = sweep_runs.launch(
        [sys.executable, "-c", script, str(tmp_path / "x")], tmp_path / "y", 1
    )
    deadline = time.monotonic() + 60
    while not (text := (tmp_path / "y").read_text()).endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while (
        Path(f"/proc/{int(text)}/cmdline").exists()
        and Path(f"/proc/{int(text)}/cmdline").read_bytes()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_of_a_dead_parent_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    process = sweep_runs.launch([sys.executable, "-c", "print('ran')"], tmp_path / "log", 1)
    process.wait()
    assert (tmp_path / "log").read_text() == ""


def test_outcomes_of_processes(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "print('so'); print('the reason'); raise SystemExit(2)"]
    assert run_process(words, tmp_path / "log", 1) == Outcome(2, "the reason")
    stop = threading.Event()
    stop.set()
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert run_process(words, tmp_path / "other", 1, stop) == Outcome(-signal.SIGTERM, "")
    assert "File exists" in run_process(words, tmp_path / "log" / "log", 1).message


def sweep_words(folder: Path, *more: str) -> list[str]:
    return ["sweep", "ppo-cpu", *SMALL, "--out", str(folder), *more]


@pytest.mark.ale
def test_a_sweep_whose_runs_all_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run_process", lambda *_: Outcome(2, "no GPU"))
    assert main(sweep_words(tmp_path, "--games", "pong", "--seeds", "1")) == 1
    assert "pong seed 0 failed; it ended with status 2 at 0 steps: no GPU" in (
        capsys.readouterr().out
    )


@pytest.mark.ale
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_sweep_as_ctrl_c_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals
) -> None:
    def run(_: object) -> bool:
        os.kill(os.getpid(), kind)
        time.sleep(60)  # interrupted
        return True

    monkeypatch.setattr(command.Schedule, "run", run)
    before = signal.getsignal(kind)
    assert main(sweep_words(tmp_path, "--games", "pong")) == 130
    assert signal.getsignal(kind) is before


@pytest.mark.long
@pytest.mark.ale
def test_a_sweep_of_two_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = sweep_words(tmp_path, "--games", "pong", "--seeds", "2", "--jobs", "2")
    words += ["--total-steps", "16"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "2 of 2 runs complete" in err
    assert "human-normalized IQM" in out or not HAS_MATPLOTLIB
    rows = read_csv(tmp_path / "results" / "scores.csv")
    assert [(row["game"], row["seeds"]) for row in rows] == [("pong", "2")]
    folders = [tmp_path / "pong" / f"seed-{seed}" for seed in (0, 1)]
    seeds = [json.loads((folder / "config.json").read_text())["seed"] for folder in folders]
    assert seeds == [0, 1]
    marks = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/config.json")}
    assert main(words) == 0  # nothing is left to do
    assert marks == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/config.json")}
    assert main([*words[:-1], "32"]) == 2
    assert "holds a sweep with" in capsys.readouterr().err


def kill_run(folder: Path) -> list[int]:
    """SIGKILL the processes of a run when it has a checkpoint; their numbers."""
    killed = []
    while not (folder / "checkpoints" / "latest.pt").exists():
        time.sleep(0.01)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return killed


@pytest.mark.long
@pytest.mark.ale
def test_a_killed_run_continues_from_its_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = sweep_words(tmp_path, "--games", "pong", "--seeds", "1", "--jobs", "1")
    words += ["--total-steps", "3000", "--checkpoint-every", "200", "--log-every", "200"]
    folder = tmp_path / "pong" / "seed-0"
    killed: list[int] = []
    thread = threading.Thread(target=lambda: killed.extend(kill_run(folder)), daemon=True)
    thread.start()
    assert main(words) == 0
    thread.join()
    assert len(killed) == 1
    assert "ended with status -9" in capsys.readouterr().err
    steps = [int(row["steps"]) for row in read_csv(folder / "progress.csv")]
    assert steps == list(range(200, 3001, 200))


@pytest.mark.long
@pytest.mark.ale
def test_a_dry_run_says_what_a_sweep_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MEASURE_S", 0.5)
    words = sweep_words(tmp_path / "none", "--seeds", "3", "--jobs", "4", "--dry-run")
    assert main([*words, "--total-steps", "1000000"]) == 0
    text = capsys.readouterr().out
    assert "57 games x 3 seeds = 171 runs of" in text
    assert "1,000,000 steps (4,000,000 frames) each" in text
    found = re.search(r"([\d,]+) frames per second, ([\d.]+) MB of memory", text)
    assert found is not None
    speed, megabytes = float(found[1].replace(",", "")), float(found[2])
    assert 100 < megabytes < 2000
    hours = 4e6 / speed / 3600
    total = re.search(r"([\d.]+) hours a run, ([\d.]+) hours in all", text)
    assert total is not None
    assert float(total[1]) == pytest.approx(hours, abs=0.01)
    assert float(total[2]) == pytest.approx(43 * hours, rel=0.02, abs=0.06)  # 171 / 4, rounded up
    assert not (tmp_path / "none").exists()


def test_memory_of_a_dry_run_includes_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan, config = command._parse(
        ["dqn", "--games", "pong", "--memory", "30000", "--network", "small", "--num-envs", "4"]
    )
    rows = [(100.0, 1.0), (300.0, 2.0)]
    monkeypatch.setattr(command, "launch", lambda *_: None)
    monkeypatch.setattr(command, "end", lambda *_: None)
    monkeypatch.setattr(command, "_rows_of", lambda *_: rows)
    monkeypatch.setattr(command, "_peak_bytes", lambda *_: 1000)
    assert command.measure(plan, config, 1) == (200.0, 1000 + 30000 * 84 * 84)


# --- Options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--games", "pong,nothing"], "games has 'nothing'"),
        (["--seeds", "0"], "seeds is 0"),
        (["--seeds", "10001"], "seeds is 10001; it must be from 1 to 10000"),
        (["--cpus-per-run", "1e30"], "cpus_per_run is 1000000000000000019884624838656; it must be"),
        (["--seed", "3"], "--seed is an option that cule sweep sets"),
        (["--out=x", "--no-resume"], "--resume is an option that cule sweep sets"),
        (["--eval-episodes", "0"], "eval_episodes is 0; a sweep needs"),
        (["--gpus-per-run", "0.5"], "gpus_per_run is 0.5 and cluster is empty"),
        (["--num-envs", "0"], "num_envs is 0"),
        (["--eval-protocol", "machado"], "protocol is 'machado' and the agent has"),
    ],
)
def test_requests_that_are_refused(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "ppo-cpu", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--env-threads", "4"], ["--env-threads=4"]])
def test_threads_that_are_given_are_those_of_the_runs(words: list[str]) -> None:
    _, _, config = command._parse(["ppo-cpu", "--games", "pong", *words, "--cpus-per-run", "2"])
    assert (config.env_threads, config.torch_threads) == (4, 2)


def test_sets_of_games() -> None:
    assert len(command._games("57")) == 57
    assert command._games("atari-5") == sorted(scores.ATARI5)
    assert set(command._games("57")) < set(command._games("all"))
    assert command._games("Pong, breakout,pong") == ["pong", "breakout"]
    assert not np.setdiff1d(command._games("57"), list(scores.reference_scores())).size
