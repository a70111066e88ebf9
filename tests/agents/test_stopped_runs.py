"""Training runs that are killed, interrupted, asked to end, and resumed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import (  # noqa: E402
    RunOptions,
    start_run,
)
from cule.agents.run.checkpoint import (  # noqa: E402
    read_checkpoint,
)
from cule.agents.run.run import Run  # noqa: E402
from cule.agents.run.stop import TimeIsUp  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch, Ending, Endless, Interrupting  # noqa: E402
from tests.support.learners import SMALL, small_learner  # noqa: E402
from tests.support.small_runs import rows_of, start  # noqa: E402

SCRIPT = Path(__file__).parents[1] / "support" / "run_catch.py"


class Started:
    """A run as a process of its own, with its output in a file."""

    def __init__(self, name: str, folder: Path, *changes: str) -> None:
        self.output = folder.with_suffix(".txt")
        words = [sys.executable, str(SCRIPT), name, str(folder), *changes]
        with self.output.open("w") as file:
            self.popen = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)

    def end(self) -> str:
        """Wait for it; it must end well."""
        assert self.popen.wait(timeout=120) == 0, self.output.read_text()
        return self.output.read_text()

    def wait_for(self, path: Path) -> None:
        """Wait until it has written a file."""
        deadline = time.monotonic() + 100
        while not path.exists():
            assert self.popen.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def process() -> Iterator[Callable[..., Started]]:
    """Starts runs; none outlives the test."""
    started: list[Started] = []

    def start_one(name: str, folder: Path, *changes: str) -> Started:
        started.append(Started(name, folder, *changes))
        return started[-1]

    yield start_one
    for one in started:
        one.popen.kill()
        one.popen.wait()


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        pytest.param("ppo", 2560, marks=pytest.mark.long),
        pytest.param("ppo-continuous", 2560, marks=pytest.mark.long),
        pytest.param("dqn", 1600, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_is_as_never_killed(
    name: str, steps: int, tmp_path: Path, process: Callable[..., Started]
) -> None:
    options = (f"total_steps={steps}", "save_replay=True")
    start(name, tmp_path / "whole", steps=steps).run()

    killed = process(name, tmp_path / "killed", *options)
    checkpoint = tmp_path / "killed" / "checkpoints" / "latest.pt"
    killed.wait_for(checkpoint)
    killed.popen.send_signal(signal.SIGKILL)
    assert killed.popen.wait(timeout=30) == -signal.SIGKILL
    saved = read_checkpoint(checkpoint)["steps"]
    assert 640 <= saved < steps

    output = process(name, tmp_path / "killed", *options, "resume=True").end()
    assert f"begins at {saved}" in output
    assert "complete" in output
    expected = rows_of(tmp_path / "whole")
    assert len(expected) >= 5
    assert rows_of(tmp_path / "killed") == expected
    ours, theirs = (
        read_checkpoint(tmp_path / folder / "checkpoints" / "latest.pt")
        for folder in ("killed", "whole")
    )
    for key, value in theirs["network"].items():
        assert torch.equal(ours["network"][key], value), key


@pytest.mark.parametrize("name", long_except(sorted(SMALL), "dqn"))
def test_stopped_and_resumed_is_as_never_stopped(name: str, tmp_path: Path) -> None:
    steps = 1920 if name in ("ppo", "ppo-continuous", "vtrace") else 800
    whole = start(name, tmp_path / "whole", steps=steps)
    assert whole.run()
    first = start(name, tmp_path / "parts", steps=steps)
    first._stop.is_set = True  # as SIGINT sets it: after the first round
    assert not first.run()
    assert first.agent.steps < 640
    middle = start(name, tmp_path / "parts", steps=steps, resume=True)
    for progress in middle.agent.train(steps=steps - 100):
        middle._after_round(middle._row_steps, progress)
    # Nothing is saved by hand: what was done after the last checkpoint is done again.
    last = start(name, tmp_path / "parts", steps=steps, resume=True)
    assert last.agent.steps <= middle.agent.steps
    assert last.run()
    for ours, theirs in zip(
        last.agent.network.parameters(), whole.agent.network.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert last.agent.steps == whole.agent.steps


def test_interrupt_saves_and_ends(tmp_path: Path) -> None:
    config = small_learner("a2c", total_steps=1_000_000).config
    options = RunOptions(
        out=str(tmp_path),
        log_every=160,
        checkpoint_every=10**9,
        eval_episodes=0,
        progress_bar=False,
    )
    before = signal.getsignal(signal.SIGINT)
    run = start_run(type(small_learner("a2c")), config, options, env=Interrupting(16))
    assert not run.run()
    assert run.was_interrupted
    assert run.agent.steps == 640  # the round of the 40th step of 16 environments is the last
    content = read_checkpoint(tmp_path / "checkpoints" / "latest.pt")
    assert content["steps"] == 640
    assert [int(row["steps"]) for row in rows_of(tmp_path)] == [160, 320, 480, 640]
    assert not list(tmp_path.rglob("*.part"))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_a_closed_terminal_saves_and_ends(tmp_path: Path) -> None:
    takes_terminal = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(1, termios.TIOCSCTTY, 0); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    ours, terminal = os.openpty()
    words = ("a2c", str(tmp_path / "run"), "total_steps=100000000", "checkpoint_every=100000000")
    with subprocess.Popen(
        [sys.executable, "-c", takes_terminal, str(SCRIPT), *words],
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        deadline = time.monotonic() + 100
        while not (tmp_path / "run" / "progress.csv").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.close(ours)  # the system sends SIGHUP, and writing to the terminal fails
        try:
            assert process.wait(timeout=120) == 0  # it has printed that it is stopped
        finally:
            process.kill()
    assert read_checkpoint(tmp_path / "run" / "checkpoints" / "latest.pt")["steps"] > 0


def test_a_hangup_after_another_signal_interrupts_nothing(tmp_path: Path) -> None:
    run = start("a2c", tmp_path, steps=1_000_000)
    with run._stop.listening():
        for kind in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):  # as systems and shells send
            signal.raise_signal(kind)
    assert run._stop.kind == signal.SIGTERM


def test_sigterm_does_not_wait_for_the_end_of_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cule.agents.run.stop.PATIENCE_S", 0.2)
    config = small_learner("a2c", total_steps=1_000_000).config
    options = RunOptions(out=str(tmp_path), checkpoint_every=160, progress_bar=False)
    run = start_run(type(small_learner("a2c")), config, options, env=Endless(16))
    begun = time.monotonic()
    assert not run.run()
    assert time.monotonic() - begun < 30
    steps = read_checkpoint(tmp_path / "checkpoints" / "latest.pt")["steps"]
    assert 0 < steps < 640  # that of the last whole round


def test_sigterm_does_not_wait_for_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cule.agents.run.stop.SAVE_PATIENCE_S", 0.2)
    save = Run.save

    def save_slowly(run: Run, **options: Any) -> None:
        if run._stop.is_set:
            time.sleep(60)
        save(run, **options)

    monkeypatch.setattr(Run, "save", save_slowly)
    config = small_learner("a2c", total_steps=1_000_000).config
    options = RunOptions(out=str(tmp_path), checkpoint_every=160, progress_bar=False)
    begun = time.monotonic()
    assert not start_run(type(small_learner("a2c")), config, options, env=Ending(16)).run()
    assert time.monotonic() - begun < 30
    assert read_checkpoint(tmp_path / "checkpoints" / "latest.pt")["steps"] > 0
    assert not list(tmp_path.rglob("*.part"))


def test_an_evaluation_that_sigterm_interrupts_is_made_after_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = small_learner("a2c", total_steps=960)

    def make(folder: str, *, resume: bool = False) -> Run:
        options = RunOptions(
            out=str(tmp_path / folder),
            resume=resume,
            eval_every=320,
            eval_episodes=10,
            progress_bar=False,
        )
        envs = {"env": Catch(16), "eval_env": lambda: Catch(10)}
        return start_run(type(learner), learner.config, options, **envs)

    def scores(folder: str) -> list[tuple[str, str]]:
        with (tmp_path / folder / "evaluations.csv").open(newline="") as file:
            return [(row["steps"], row["mean"]) for row in csv.DictReader(file)]

    assert make("whole").run()
    stopped = make("parts")

    def evaluate() -> None:
        stopped._stop.is_set = True  # as SIGTERM sets it
        raise TimeIsUp  # as the alarm does, when `PATIENCE_S` are over

    monkeypatch.setattr(stopped, "evaluate", evaluate)
    assert not stopped.run()
    assert scores("parts") == []
    assert make("parts", resume=True).run()
    assert [steps for steps, _ in scores("whole")] == ["320", "640", "960"]
    assert scores("parts") == scores("whole")
