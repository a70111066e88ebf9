"""A training run in a folder: progress, logs, checkpoints, evaluations, and what can go wrong.

The folder holds the files of `cule.agents.logs`, `checkpoints/latest.pt` (with
`checkpoints/STEPS.pt` and `STEPS.safetensors` for those to keep) and, once the run has ended,
`weights.safetensors`. It is made after the first round, so that what is refused until then leaves
nothing behind. What happens at which step depends on step counts only, so that a run that
was killed and resumed writes the rows that it would have written.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from cule.agents.base import Agent, Progress, of_rank
from cule.agents.checkpoint import read_checkpoint, remove_leftovers
from cule.agents.distributed import (
    barrier,
    gather_values,
    max_over_ranks,
    rank,
    sum_over_ranks,
    world_size,
)
from cule.agents.environment import FrameEnv
from cule.agents.evaluation import (
    MIN_EPISODES,
    Evaluation,
    check_request,
    evaluate,
    time_to_score,
)
from cule.agents.logs import RunLog
from cule.agents.options import check_least, check_types
from cule.agents.progress_bar import ProgressBar
from cule.agents.weights import SUFFIX, can_write_weights
from cule.errors import CheckpointError, CuleError, InvalidArgumentError

#: Columns of the progress table that depend on the clock.
TIME_COLUMNS = (
    *("train_s", "wall_s", "steps_per_s", "frames_per_s", "updates_per_s"),
    *("act_share", "emulate_share", "learn_share"),
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run does beside learning."""

    out: str = ""
    """Folder of the run; empty: runs/GAME-ALGORITHM-SEED."""

    resume: bool = False
    """Go on from the folder's last checkpoint, if there is one."""

    log_every: int = 50_000
    """Agent steps between two rows of progress."""

    checkpoint_every: int = 500_000
    """Agent steps between two checkpoints."""

    keep_every: int = 0
    """Agent steps between checkpoints that are kept beside the last one; 0: none is."""

    save_replay: bool = False
    """Checkpoints hold the replay memory; without it a resumed run fills a new one first."""

    eval_every: int = 0
    """Agent steps between two evaluations; 0: only at the end."""

    eval_episodes: int = 30
    """Episodes of an evaluation, at least 10; 0: no evaluation at all."""

    eval_protocol: str = "noop"
    """noop, sticky or as-trained; see docs/agents/evaluation.md."""

    target_score: float | None = None
    """Mean score whose first confirmed evaluation goes to time_to_score.json."""

    progress_bar: bool = True
    """Show a line of progress."""

    def __post_init__(self) -> None:
        """Check what would otherwise be seen only when it is due."""
        check_types(self)
        check_least(self, 0, "log_every", "checkpoint_every", "keep_every", "eval_every")
        check_request(self.eval_episodes or MIN_EPISODES, self.eval_protocol)


class _StopRequest:
    """Turns the first SIGINT or SIGTERM into a flag; a second one interrupts at once."""

    def __init__(self) -> None:
        self.is_set = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        for kind in before:
            signal.signal(kind, self._receive)
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _receive(self, kind: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True

    def agreed(self, device: torch.device) -> bool:
        """Whether any process has been asked to stop."""
        if world_size() == 1:
            return self.is_set
        wanted = max_over_ranks(torch.tensor(float(self.is_set), device=device))
        return float(wanted) > 0.0


def _check_can_be_made(folder: Path) -> None:
    """Refuse a folder that could not be written to after the first round."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        kind = "may not be written to" if there.is_dir() else "is no folder"
        raise InvalidArgumentError(f"the folder of the run is {folder}; {there} {kind}")


class Run:
    """One training run; make it with `start_run`.

    Attributes:
        agent: Who learns.
        folder: Where everything is written.
        evaluations: (steps, result) of the evaluations of this process.
    """

    def __init__(
        self,
        agent: Agent,
        folder: Path,
        options: RunOptions,
        *,
        eval_env: Callable[[], FrameEnv] | None = None,
        train_s: float = 0.0,
        wall_s: float = 0.0,
        resumed: bool = False,
    ) -> None:
        """Prepare it; the folder is left as it is.

        Args:
            agent: Who learns.
            folder: Made where it is missing, after the first round.
            options: What to do when.
            eval_env: Makes environments to evaluate in; by default those of the protocol.
            train_s: Seconds of training before this process.
            wall_s: All seconds before this process.
            resumed: Keep the rows that the folder has, up to the agent's step.
        """
        self.agent, self.folder, self.options = agent, folder, options
        self.eval_env = eval_env
        self.evaluations: list[tuple[int, Evaluation]] = []
        self._train_s, self._wall_s = train_s, wall_s
        self._began = time.monotonic()
        self._mark = self._began
        self._stop = _StopRequest()
        self._last_checkpoint = "none yet"
        if resumed:
            self._last_checkpoint = str(self.latest)
        if rank() == 0:
            _check_can_be_made(folder)
        self._log: RunLog | None = None
        self._until_step = agent.steps if resumed else None
        total = agent.config.total_steps
        shown = options.progress_bar and rank() == 0
        self._bar = ProgressBar(f"{agent.config.game} {agent.name}", total) if shown else None
        self._row_steps, self._row_updates = agent.steps, agent.updates
        self._row_s = 0.0
        self._return = math.nan

    @property
    def latest(self) -> Path:
        """The newest checkpoint."""
        return self.folder / "checkpoints" / "latest.pt"

    @property
    def _weights(self) -> Path:
        return self.folder / f"weights{SUFFIX}"

    def run(self) -> bool:
        """Train to the end, or until SIGINT or SIGTERM.

        Returns:
            Whether training is complete.

        Raises:
            DivergedError: A loss or weight is no finite number; the last good checkpoint is named.
        """
        agent = self.agent
        try:
            with self._stop.listening():
                self._train()
            self._open_folder()
            self._add_time()
            self.save()
            self._save_weights(self._weights)
            is_complete = bool(agent.steps >= agent.config.total_steps)
            if is_complete and self.options.eval_episodes and not self._is_evaluated():
                self.evaluate()
        finally:
            if self._bar is not None:
                self._bar.close()
            if self._log is not None:
                self._log.close()
        return is_complete

    def _open_folder(self) -> None:
        """Begin to write, in the first process; a second call does nothing."""
        if rank() != 0 or self._log is not None:
            return
        config = {"algorithm": self.agent.name, **dataclasses.asdict(self.agent.config)}
        self._log = RunLog(self.folder, config, until_step=self._until_step)
        remove_leftovers(self.folder)
        remove_leftovers(self.folder / "checkpoints")
        (self.folder / "time_to_score.json").unlink(missing_ok=True)
        self._note_target(self._log.evaluations.rows)

    def _train(self) -> None:
        before = self.agent.steps
        try:
            # Held by the loop alone: actor processes live as long as the rounds do.
            for progress in self._rounds():
                self._after_round(before, progress)
                before = progress.steps
                if self._stop.agreed(self.agent.device):
                    break
        except CuleError:
            # What a network that is no longer finite asks for may be refused before its loss is
            # looked at.
            self.agent.check_finite(self._last_checkpoint)
            raise

    def _rounds(self) -> Iterator[Progress]:
        rounds = self.agent.train()
        while True:
            with self.agent.clock.part("round"):
                progress = next(rounds, None)
            if progress is None:
                return
            yield progress

    def _is_evaluated(self) -> bool:
        """Whether the first process has a row of these steps, of this run or before a resume."""
        rows = [] if self._log is None else self._log.evaluations.rows
        wanted = (self.agent.steps, self.options.eval_protocol)
        has_row = any(
            (row["steps"], row["protocol"]) == wanted
            and row["episodes"] >= self.options.eval_episodes
            for row in rows
        )
        return any(gather_values(has_row))

    def _after_round(self, before: int, progress: Progress) -> None:
        self._open_folder()
        options = self.options

        def passed(every: int) -> bool:
            return every > 0 and progress.steps // every > before // every

        if passed(options.log_every):
            self._add_row(progress)
        if passed(options.eval_every) and options.eval_episodes:
            self._add_time()
            self.evaluate()
            self._mark = time.monotonic()
        if passed(options.checkpoint_every) or passed(options.keep_every):
            self.save(keep=passed(options.keep_every))

    def _add_time(self) -> None:
        now = time.monotonic()
        self._train_s += now - self._mark
        self._row_s += now - self._mark
        self._mark = now

    def _add_row(self, progress: Progress) -> None:
        """Read the numbers of the device, and write a row."""
        agent = self.agent
        agent.check_finite(self._last_checkpoint)
        sum_over_ranks(agent.statistics.sums)
        episodes = agent.statistics.read()
        names = sorted(progress.metrics)
        numbers = [
            torch.as_tensor(progress.metrics[name], device=agent.device).float() for name in names
        ]
        values = torch.stack(numbers).tolist() if numbers else []  # no update yet
        metrics = dict(zip(names, values, strict=True))
        self._add_time()
        seconds = max(self._row_s, 1e-9)
        steps_per_s = (progress.steps - self._row_steps) / seconds
        frameskip = agent.config.frameskip
        row: dict[str, float | int | str] = {
            "steps": progress.steps,
            "frames": progress.steps * frameskip,
            "updates": progress.updates,
            **episodes,
            **metrics,
            **agent.gauges(),
            "train_s": self._train_s,
            "wall_s": self._wall_s + time.monotonic() - self._began,
            "steps_per_s": steps_per_s,
            "frames_per_s": steps_per_s * frameskip,
            "updates_per_s": (progress.updates - self._row_updates) / seconds,
            **agent.clock.read_shares(),
        }
        if agent.device.type == "cuda":
            row["gpu_bytes"] = torch.cuda.max_memory_allocated(agent.device)
        self._row_steps, self._row_updates, self._row_s = progress.steps, progress.updates, 0.0
        if episodes["episodes"]:
            self._return = episodes["episode_return"]
        if self._log is not None:
            self._log.add_progress(row)
        if self._bar is not None:
            left = max(agent.config.total_steps - progress.steps, 0) / max(steps_per_s, 1e-9)
            self._bar.update(progress.steps, steps_per_s * frameskip, self._return, left)

    def evaluate(self) -> Evaluation:
        """Evaluate now; all processes do, and the first one's result is written."""
        options, agent = self.options, self.agent
        env = None if self.eval_env is None else self.eval_env()
        result = evaluate(
            agent,
            episodes=options.eval_episodes,
            protocol=options.eval_protocol,
            seed=agent.config.seed,
            env=env,
        )
        self.evaluations.append((agent.steps, result))
        if self._log is not None:
            wall_s = self._wall_s + time.monotonic() - self._began
            times = {"train_s": self._train_s, "wall_s": wall_s}
            self._log.add_evaluation({"steps": agent.steps, **result.row(), **times})
            self._note_target(self._log.evaluations.rows)
        if rank() == 0 and self.options.progress_bar:
            print(
                f"\nevaluation at {agent.steps} steps: mean {result.mean:.2f}, median "
                f"{result.median:.2f}, std {result.std:.2f}, {len(result.returns)} episodes",
                file=sys.stderr,
            )
        return result

    def _note_target(self, rows: list[dict[str, Any]]) -> None:
        target = self.options.target_score
        reached = None if target is None else time_to_score(rows, target)
        if reached is not None:
            text = json.dumps({"target": target, **reached}, indent=2)
            (self.folder / "time_to_score.json").write_text(text + "\n")

    def save(self, *, keep: bool = False) -> None:
        """Write a checkpoint, and a second one that stays if `keep`.

        Raises:
            DivergedError: There is nothing good to save.
        """
        self.agent.check_finite(self._last_checkpoint)
        self._add_time()
        if keep:
            kept = self.folder / "checkpoints" / f"{self.agent.steps}.pt"
            self.agent.save(kept, replay=self.options.save_replay)
            self._save_weights(kept.with_suffix(SUFFIX))
        self.agent.save(_newer(self.latest), replay=self.options.save_replay)
        # Every process has written its part before one loses its former part.
        barrier()
        if rank() == 0:
            self._weights.unlink(missing_ok=True)  # of a former end; older than this checkpoint
        os.replace(of_rank(_newer(self.latest)), of_rank(self.latest))
        self._last_checkpoint = str(self.latest)

    def _save_weights(self, path: Path) -> None:
        """Write the network alone, by the first process, where safetensors is installed."""
        if rank() == 0 and can_write_weights():
            self.agent.save_weights(path)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run (the first process's part); None where there is none."""
    latest = folder / "checkpoints" / "latest.pt"
    return next((path for path in (latest, _newer(latest)) if path.exists()), None)


def find_checkpoint(path: Path) -> Path:
    """The checkpoint that a user means: a file, or the newest of a run's folder.

    Raises:
        InvalidArgumentError: The folder has none.
    """
    found = last_checkpoint(path) if path.is_dir() else path
    if found is None:
        raise InvalidArgumentError(f"CHECKPOINT is {str(path)!r}, a folder without a run")
    return found


def _newer(latest: Path) -> Path:
    """Where the next checkpoint waits until all processes have theirs."""
    return latest.with_name(f"next{latest.suffix}")


def read_newest(folder: Path) -> dict[str, Any] | None:
    """This process's part of the newest checkpoint that every process has; None where none has any.

    Raises:
        CheckpointError: Some processes have none, or none of the same steps.
    """
    latest = folder / "checkpoints" / "latest.pt"
    own: dict[int, dict[str, Any]] = {}
    for path in filter(Path.exists, map(of_rank, (latest, _newer(latest)))):
        try:
            content = read_checkpoint(path)
        except CheckpointError:
            if not own:
                raise
        else:
            own[content["steps"]] = content
    all_steps = gather_values(sorted(own))
    if not any(all_steps):
        return None
    common = set.intersection(*map(set, all_steps))
    if not common:
        raise CheckpointError(
            f"out is {str(folder)!r}, where the processes have checkpoints of these steps: "
            f"{all_steps}; a run goes on with as many processes as it had, each with its own file"
        )
    barrier()
    if len(own) > 1 and max(own) not in common:
        of_rank(_newer(latest)).unlink()  # of a life that not all processes remember
    return own[max(common)]


def seconds_so_far(folder: Path, steps: int) -> tuple[float, float]:
    """Seconds of training, and all seconds, that a run's rows tell for a step."""
    path = folder / "progress.csv"
    train_s, wall_s = 0.0, 0.0
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row.get("steps") and float(row["steps"]) <= steps and row.get("wall_s"):
                    train_s, wall_s = float(row["train_s"]), float(row["wall_s"])
    return train_s, wall_s


def start_run(
    agent_class: type[Agent],
    config: Any,
    options: RunOptions,
    *,
    env: FrameEnv | None = None,
    eval_env: Callable[[], FrameEnv] | None = None,
) -> Run:
    """Make a run, or take up the one that the folder holds.

    Args:
        agent_class: Algorithm.
        config: Its options; of a resumed run they must be those of the checkpoint.
        options: What the run does beside learning.
        env: Environments to learn in; by default those of the config.
        eval_env: As for `Run`.

    Raises:
        CheckpointError: The folder holds a run and `resume` is not set, or one of other options.
        CuleError: The environment or network cannot be made.
    """
    folder = Path(options.out or f"runs/{config.game}-{agent_class.name}-{config.seed}")
    if last_checkpoint(folder) is not None and not options.resume:
        raise CheckpointError(
            f"out is {str(folder)!r}, which holds a run; give --resume to go on with it, or "
            "another folder"
        )
    agent = agent_class(config, env)
    content = read_newest(folder)
    if content is None:
        return Run(agent, folder, options, eval_env=eval_env)
    agent.load_state(content)
    train_s, wall_s = seconds_so_far(folder, agent.steps)
    return Run(
        agent,
        folder,
        options,
        eval_env=eval_env,
        train_s=train_s,
        wall_s=wall_s,
        resumed=True,
    )
