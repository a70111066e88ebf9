"""The runs of a sweep: what their folders say of them, and the processes that execute them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from cule.agents.run.folders import CONFIG_FILE, read_rows
from cule.errors import CheckpointError, InvalidArgumentError, shown
from cule.files import replace_text
from cule.reading import open_regular, read_json

#: Options of a sweep, in its folder.
SWEEP_FILE = "sweep.json"

#: Seconds that a run may take to save and end, when it is asked to stop.
STOP_S = 60.0

#: Training episodes of the score at a milestone, as in Machado et al. 2018.
MILESTONE_EPISODES = 100

#: Last bytes of the output of a run, for messages.
TAIL_BYTES = 4000

#: Runs a command that gets SIGKILL when its parent dies (PR_SET_PDEATHSIG of prctl(2)), so that no
#: run continues without its sweep. Its first argument is the parent, which may be dead already.
_END_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) and os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True)
class Plan:
    """Games, seeds and options of a sweep."""

    preset: str
    games: list[str]
    num_seeds: int
    words: list[str]
    """Options of ``cule train`` for every run."""

    total_steps: int
    frameskip: int

    def __post_init__(self) -> None:
        """Check the types, which a file can have wrong."""
        texts = (self.preset, *self.games, *self.words)
        counts = (self.num_seeds, self.total_steps, self.frameskip)
        for value, kind in (*((each, str) for each in texts), *((each, int) for each in counts)):
            if not isinstance(value, kind):
                raise TypeError(f"{shown(value)} is not of type {kind.__name__}")

    def runs(self, folder: Path) -> list[SweepRun]:
        """All runs; the first seed of every game before the second."""
        return [
            SweepRun(game, seed, folder / game / f"seed-{seed}")
            for seed in range(self.num_seeds)
            for game in self.games
        ]

    def save(self, folder: Path) -> None:
        """Write the plan, unless the folder has it.

        Raises:
            CheckpointError: The folder holds another sweep.
        """
        path = folder / SWEEP_FILE
        if not path.exists():
            replace_text(path, json.dumps(asdict(self), indent=2) + "\n")
            return
        saved, own = asdict(read_plan(folder)), asdict(self)
        wrong = [
            f"{name} {_shown(value)}, not {_shown(own[name])}"
            for name, value in saved.items()
            if value != own[name]
        ]
        if wrong:
            raise CheckpointError(
                f"out is {shown(str(folder))}, which holds a sweep with {', '.join(wrong)}; "
                "continue it with its options, or use another folder"
            )


def _shown(value: object) -> str:
    """A field of a plan; lists as they are typed, because any of their items can differ."""
    return f"'{' '.join(value)}'" if isinstance(value, list) else shown(value)


def read_plan(folder: Path) -> Plan:
    """The plan of a sweep from its folder."""
    try:
        return Plan(**read_json(folder / SWEEP_FILE))
    except FileNotFoundError:
        raise InvalidArgumentError(f"{folder} is not the folder of a sweep") from None
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / SWEEP_FILE} is damaged: {error}") from None


class RunState(NamedTuple):
    """How far a run is."""

    steps: int
    steps_per_s: float
    episode_return: float


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep."""

    game: str
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """Game and seed."""
        return f"{self.game} seed {self.seed}"

    @property
    def log(self) -> Path:
        """File of the output of all its processes."""
        return self.folder.with_suffix(".log")

    def command(self, plan: Plan) -> list[str]:
        """The words of the process that begins or continues it."""
        own = ("--game", self.game, "--seed", str(self.seed), "--out", str(self.folder))
        resume = ("--resume",) if (self.folder / CONFIG_FILE).exists() else ()
        words = ("train", plan.preset, *plan.words, *own, *resume, "--no-progress-bar")
        return [sys.executable, "-m", "cule.cli", *words]

    def state(self) -> RunState:
        """How far it is, by its last row of progress; at its beginning where rows are damaged."""
        path = self.folder / "progress.csv"
        with contextlib.suppress(CheckpointError), _numbers_of(path):
            rows = read_rows(path)
            last = rows[-1] if rows else {}
            returns = [float(row["episode_return"]) for row in rows if row.get("episode_return")]
            return RunState(
                int(float(last.get("steps") or 0)),
                float(last.get("steps_per_s") or math.nan),
                next((value for value in reversed(returns) if math.isfinite(value)), math.nan),
            )
        return RunState(0, math.nan, math.nan)

    def is_complete(self, plan: Plan) -> bool:
        """Whether it has trained and been evaluated to the end, by a table that is not damaged."""
        try:
            return self.final_score(plan) is not None
        except CheckpointError:
            return False

    def final_score(self, plan: Plan) -> float | None:
        """The mean score of its evaluation at the end; None before."""
        path = self.folder / "evaluations.csv"
        rows = read_rows(path)
        with _numbers_of(path):
            at_end = [row for row in rows if int(row["steps"]) >= plan.total_steps]
            return float(at_end[-1]["mean"]) if at_end else None

    def training_score(self, frames: int) -> float | None:
        """Mean return of the last 100 training episodes before a number of emulated frames.

        Rows of progress count as a whole, so it is of more episodes where a row has many. None: the
        run has not come that far, or no episode has ended.
        """
        path = self.folder / "progress.csv"
        rows = read_rows(path)
        with _numbers_of(path):
            if not rows or float(rows[-1].get("frames") or 0) < frames:
                return None
            count = total = 0.0
            for row in reversed(rows):
                episodes = float(row["episodes"])
                if episodes and float(row["frames"]) <= frames:
                    count += episodes
                    total += episodes * float(row["episode_return"])
                if count >= MILESTONE_EPISODES:
                    break
            return total / count if count else None


@contextlib.contextmanager
def _numbers_of(path: Path) -> Iterator[None]:
    """Name a table whose rows are not those of a run."""
    try:
        yield
    except (KeyError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} does not hold rows of a run: {error}") from None


# --- Processes ------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How the process of a run ended."""

    status: int | None
    """Exit status, negative for a signal; None: its node was lost."""

    message: str
    """The last line of its output, or why it was lost."""


def run_process(
    words: Sequence[str], log: Path, num_cpus: int, stop: threading.Event | None = None
) -> Outcome:
    """Run a process to its end, or until `stop` is set or this is interrupted: then it saves."""
    try:
        process = launch(words, log, num_cpus)
    except OSError as error:  # the file of the output, for example
        return Outcome(1, str(error))
    try:
        while process.poll() is None and not (stop is not None and stop.is_set()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)  # short, so that a cancelled task of Ray is interrupted
    finally:
        end(process)
    return Outcome(process.returncode, last_line(log))


def launch(words: Sequence[str], log: Path, num_cpus: int) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one; its output is appended to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = {name: str(num_cpus) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    first = [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid())]
    is_linux = sys.platform.startswith("linux")
    with log.open("ab") as output:
        return subprocess.Popen(
            [*(first if is_linux else ()), *words],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **threads},
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to save and end, and wait until it has, at most `STOP_S`."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(log: Path) -> str:
    """The last line of a file."""
    try:
        with open_regular(log) as file:
            file.seek(max(log.stat().st_size - TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
