"""A training run in a folder: progress, logs, checkpoints and evaluations.

The folder holds the files of `cule.agents.run.logs`, `checkpoints/latest.pt` (with
`checkpoints/STEPS.pt` and `STEPS.safetensors` for those to keep) and, when the run has ended,
`weights.safetensors`. It is created after the first round: a run that fails before leaves nothing.
Everything is scheduled by steps, so a run that was killed and resumed writes the same rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cule.agents.parts.config import AgentConfig
from cule.agents.parts.distributed import (
    barrier,
    gather_values,
    rank,
    sum_over_ranks,
)
from cule.agents.parts.envs import FrameEnv
from cule.agents.parts.learner import Learner, Progress
from cule.agents.parts.memory import memory_gauges
from cule.agents.parts.setup import Network, join
from cule.agents.run.checkpoint import (
    WEIGHTS_SUFFIX,
    check_writable,
    find_checkpoint,
    last_checkpoint,
    latest_path,
    load_state,
    next_path,
    path_of_rank,
    read_newest,
    run_path,
    seconds_so_far,
)
from cule.agents.run.evaluation import (
    MAX_EPISODES,
    MIN_EPISODES,
    Evaluation,
    ProtocolName,
    check_protocol,
    eval_config,
    evaluate,
    time_to_score,
)
from cule.agents.run.folders import free_folder
from cule.agents.run.logs import Row, RunLog, Status, Value, check_trackers, make_trackers
from cule.agents.run.matches import make_opposed_env, seats_with_opponent
from cule.agents.run.stop import StopRequest, TimeIsUp
from cule.agents.run.weights import can_write_weights, read_to_play
from cule.agents.self_play import SelfPlayEnv
from cule.errors import CheckpointError, CuleError, InvalidArgumentError, shown
from cule.files import remove_leftovers, replace_text
from cule.option_fields import NonNegative, Seeds, require, validate
from cule.progress import INTERVAL_S, ProgressBar
from cule.replay.options import check


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run: logging, evaluation, checkpoints and limits."""

    out: str = ""
    """Folder of the run; empty: runs/GAME-PRESET-SEED."""

    opponent: str = ""
    """With several players: checkpoint, weights or random, which play every second seat, also in
    evaluations. Empty: the policy plays against itself, and in evaluations against random."""

    seeds: Seeds = 1
    """Runs with consecutive seeds, one after the other; `out` then holds the folder of each."""

    track: str = ""
    """Trackers that get all rows as well: wandb, mlflow, or both with a comma."""

    resume: bool = False
    """Resume from the last checkpoint in the folder. Options that are not given are those of the
    run."""

    log_every: NonNegative = 50_000
    """Agent steps between two rows of progress; the end of training has one, too. 0: none."""

    checkpoint_every: NonNegative = 500_000
    """Agent steps between two checkpoints."""

    keep_every: NonNegative = 0
    """Agent steps between two checkpoints that are kept in addition to the last one; 0: none."""

    save_replay: bool = False
    """Include the replay memory in checkpoints; without it a resumed run fills a new one first."""

    eval_every: NonNegative = 0
    """Agent steps between two evaluations; 0: only at the end."""

    eval_episodes: int = 30
    """Episodes per evaluation, at least 10; 0: no evaluation."""

    eval_protocol: ProtocolName = "noop"
    """Protocol: noop, sticky, machado or as-trained; see docs/agents/evaluation.md."""

    target_score: float | None = None
    """Mean score whose first confirmed evaluation is written to time_to_score.json."""

    progress_bar: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        """Validate the options."""
        validate(self)
        is_allowed = self.eval_episodes == 0 or MIN_EPISODES <= self.eval_episodes <= MAX_EPISODES
        allowed = f"0, or from {MIN_EPISODES} to {MAX_EPISODES}"
        check("eval_episodes", self.eval_episodes, is_allowed, allowed)
        check_trackers(self.track)


class Run:
    """One training run; make it with `start_run`.

    Attributes:
        agent: The agent.
        preset: Name of the config.
        folder: The folder of the run.
        evaluations: (steps, result) of the evaluations of this process.
    """

    def __init__(
        self,
        agent: Learner,
        folder: Path,
        options: RunOptions,
        *,
        eval_env: Callable[[], FrameEnv] | None = None,
        resumed: bool = False,
        preset: str = "",
        on_row: Callable[[str, Row], None] | None = None,
    ) -> None:
        """Prepare the run; a resumed one keeps the rows of the folder up to the agent's step."""
        self.preset = preset or agent.name
        self.on_row = on_row
        self.agent, self.folder, self.options = agent, folder, options
        self.eval_env, self._weights = eval_env, folder / f"weights{WEIGHTS_SUFFIX}"
        self.evaluations: list[tuple[int, Evaluation]] = []
        self._train_s, self._wall_s = seconds_so_far(folder, agent.steps) if resumed else (0.0, 0.0)
        self._start = self._mark = time.monotonic()
        self._stop = StopRequest()
        self._last_checkpoint = str(latest_path(folder)) if resumed else "none yet"
        if rank() == 0:
            check_writable(folder)
        self._log: RunLog | None = None
        self._until_step = agent.steps if resumed else None
        total = agent.config.total_steps
        is_shown = options.progress_bar and rank() == 0
        self._bar = ProgressBar(f"{agent.config.game} {agent.name}", total) if is_shown else None
        self._row_steps, self._row_updates, self._row_s = agent.steps, agent.updates, 0.0
        self._return = math.nan
        self._bar_s = -math.inf
        self._is_in_round = False

    # --- Train ------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Train to the end, or until SIGINT, SIGTERM or SIGHUP, and save.

        A round that has not ended `stop.PATIENCE_S` after SIGTERM, and saving that has not ended
        `stop.SAVE_PATIENCE_S` later, are left unfinished; then the last checkpoint stays.

        Returns:
            Whether training is complete.

        Raises:
            DivergedError: A loss or weight is not finite; the message names the last good
                checkpoint.
        """
        agent = self.agent
        status: Status = "FAILED"
        try:
            with self._stop.listening():
                self._train_and_save()
            is_complete: bool = agent.steps >= agent.config.total_steps
            is_wanted = is_complete and self.options.eval_episodes and not self._stop.is_set
            if is_wanted and not self._is_evaluated():
                self.evaluate()
            status = "FINISHED" if is_complete else "KILLED"
            return is_complete
        except TimeIsUp:
            status = "KILLED"
            return False
        finally:
            if self._bar is not None:
                self._bar.close()
            if self._log is not None:
                self._log.close(status)

    def _train_and_save(self) -> None:
        try:
            self._train()
        except TimeIsUp:
            if self._is_in_round:
                raise
        self._open_folder()
        self._add_time()
        self.save()
        self._save_weights(self._weights)

    def _train(self) -> None:
        before = self.agent.steps
        self._show_progress(before)
        if self._is_evaluation_missing():
            self._pause_to_evaluate()
        try:
            # Only the loop may hold the generator: actor processes live as long as it does.
            for progress in self._rounds():
                self._after_round(before, progress)
                before = progress.steps
                if self._stop.is_set_on_any_rank(self.agent.setup.device):
                    break
        except CuleError:
            # The environment may refuse the actions of a network that is not finite before its
            # loss is checked.
            self.agent.check_finite(self._last_checkpoint)
            raise

    def _rounds(self) -> Iterator[Progress]:
        rounds = self.agent.train()
        while True:
            self._is_in_round = True
            with self.agent.setup.timer.phase("round"):
                progress = next(rounds, None)
            self._is_in_round = False
            if progress is None:
                return
            yield progress

    def _after_round(self, before: int, progress: Progress) -> None:
        self._open_folder()
        options = self.options

        def is_due(every: int) -> bool:
            return every > 0 and progress.steps // every > before // every

        is_last = progress.steps >= self.agent.config.total_steps
        if is_due(options.log_every) or (is_last and options.log_every):
            self._add_row(progress)
        else:
            self._show_progress(progress.steps)
        if is_due(options.eval_every) and options.eval_episodes:
            self._pause_to_evaluate()
        if is_due(options.checkpoint_every) or is_due(options.keep_every):
            self.save(keep=is_due(options.keep_every))

    # --- Logs -------------------------------------------------------------------------------------

    def _open_folder(self) -> None:
        """Open the logs, on rank 0 and at the first call."""
        if rank() != 0 or self._log is not None:
            return
        run = dataclasses.asdict(self.options)
        config = {
            "algorithm": self.agent.name,
            "preset": self.preset,
            **dataclasses.asdict(self.agent.config),
            "run": {k: v for k, v in run.items() if k not in ("out", "resume", "seeds")},
        }
        with contextlib.ExitStack() as stack:
            trackers = []
            for tracker in make_trackers(self.options.track, self.folder, config):
                stack.callback(tracker.close, "FAILED")
                trackers.append(tracker)
            self._log = RunLog(self.folder, config, until_step=self._until_step, trackers=trackers)
            stack.pop_all()  # it closes them
        remove_leftovers(self.folder)
        remove_leftovers(self.folder / "checkpoints")
        (self.folder / "time_to_score.json").unlink(missing_ok=True)
        self._note_target()

    def _add_time(self) -> None:
        now = time.monotonic()
        self._train_s += now - self._mark
        self._row_s += now - self._mark
        self._mark = now

    def _elapsed_s(self) -> float:
        return self._wall_s + time.monotonic() - self._start

    def _add_row(self, progress: Progress) -> None:
        """Read metrics from the device and write a row."""
        agent = self.agent
        agent.check_finite(self._last_checkpoint)
        sum_over_ranks(agent.setup.statistics.sums)
        episodes = agent.setup.statistics.read()
        names = sorted(progress.metrics)
        device = agent.setup.device
        numbers = [torch.as_tensor(progress.metrics[n], device=device).float() for n in names]
        values = torch.stack(numbers).tolist() if numbers else []  # no update yet
        self._add_time()
        seconds = max(self._row_s, 1e-9)
        steps_per_s = (progress.steps - self._row_steps) / seconds
        frameskip = agent.config.frameskip
        row: dict[str, Value] = {
            "steps": progress.steps,
            "frames": progress.steps * frameskip,
            "updates": progress.updates,
            **episodes,
            **dict(zip(names, values, strict=True)),
            **memory_gauges(agent),
            "train_s": self._train_s,
            "wall_s": self._elapsed_s(),
            "steps_per_s": steps_per_s,
            "frames_per_s": steps_per_s * frameskip,
            "updates_per_s": (progress.updates - self._row_updates) / seconds,
            **agent.setup.timer.read_shares(),
        }
        if device.type == "cuda":
            row["gpu_bytes"] = torch.cuda.max_memory_allocated(device)
        self._row_steps, self._row_updates, self._row_s = progress.steps, progress.updates, 0.0
        if episodes["episodes"]:
            self._return = episodes["episode_return"]
        self._write("progress", row)
        self._draw_bar(progress.steps, steps_per_s)

    def _show_progress(self, steps: int) -> None:
        """Draw the bar between rows, and before the first round, where a terminal shows it."""
        if self._bar is None or not self._bar.is_terminal:
            return
        now = time.monotonic()
        if now - self._bar_s >= INTERVAL_S:
            self._bar_s = now
            self._add_time()
            done = steps - self._row_steps
            self._draw_bar(steps, done / self._row_s if done and self._row_s > 0 else math.nan)

    def _draw_bar(self, steps: int, steps_per_s: float) -> None:
        if self._bar is not None:
            config = self.agent.config
            left = max(config.total_steps - steps, 0) / max(steps_per_s, 1e-9)
            self._bar.update(steps, steps_per_s * config.frameskip, self._return, left)

    def _write(self, group: str, row: Row) -> None:
        if self._log is not None:
            self._log.add(group, row)
            if self.on_row is not None:
                self.on_row(group, row)

    # --- Evaluations ------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        """Evaluate now, in all processes; the result of rank 0 is written."""
        options, agent = self.options, self.agent
        env = None if self.eval_env is None else self.eval_env()
        try:
            result = evaluate(
                agent,
                episodes=options.eval_episodes,
                protocol=options.eval_protocol,
                seed=agent.config.seed,
                env=env,
            )
        finally:
            if env is not None:
                env.close()
        self.evaluations.append((agent.steps, result))
        times = {"train_s": self._train_s, "wall_s": self._elapsed_s()}
        self._write("evaluation", {"steps": agent.steps, **result.row(), **times})
        self._note_target()
        if rank() == 0 and self.options.progress_bar:
            print(
                f"\nevaluation at {agent.steps} steps: mean {result.mean:.2f}, median "
                f"{result.median:.2f}, std {result.std:.2f}, {len(result.returns)} episodes",
                file=sys.stderr,
            )
        return result

    def _pause_to_evaluate(self) -> None:
        """Evaluate in the middle of training, whose seconds do not count it."""
        self._add_time()
        self.evaluate()
        self._mark = time.monotonic()

    def _is_evaluation_missing(self) -> bool:
        """Whether a resumed run has been stopped during the last evaluation that was due."""
        every = self.options.eval_every if self.options.eval_episodes else 0
        due = self.agent.steps // every * every if every else 0
        if self._until_step is None or not due:
            return False
        self._open_folder()
        return not any(gather_values(any(int(row["steps"]) >= due for row in self._evaluated())))

    def _evaluated(self) -> list[dict[str, Value]]:
        """Rows of the evaluations so far, on rank 0."""
        return [] if self._log is None else self._log.evaluations.rows

    def _is_evaluated(self) -> bool:
        """Whether rank 0 has an evaluation of the current step."""
        wanted = (self.agent.steps, self.options.eval_protocol)
        has_row = any(
            (row["steps"], row.get("protocol")) == wanted
            and int(row["episodes"]) >= self.options.eval_episodes
            for row in self._evaluated()
        )
        return any(gather_values(has_row))

    def _note_target(self) -> None:
        target = self.options.target_score
        reached = None if target is None else time_to_score(self._evaluated(), target)
        if reached is not None:
            text = json.dumps({"target": target, **reached}, indent=2)
            replace_text(self.folder / "time_to_score.json", text + "\n")

    @property
    def was_stopped(self) -> bool:
        """Whether a signal has ended it, also in its last round."""
        return self._stop.is_set

    @property
    def was_interrupted(self) -> bool:
        """Whether SIGINT has ended it, as Ctrl-C sends it."""
        return self._stop.kind == signal.SIGINT

    # --- Checkpoints ------------------------------------------------------------------------------

    def save(self, *, keep: bool = False) -> None:
        """Write a checkpoint, and a second one that is kept if `keep`.

        Raises:
            DivergedError: A weight is not finite.
        """
        self.agent.check_finite(self._last_checkpoint)
        self._add_time()
        if keep:
            kept = self.folder / "checkpoints" / f"{self.agent.steps}.pt"
            self.agent.save(kept, replay=self.options.save_replay)
            self._save_weights(kept.with_suffix(WEIGHTS_SUFFIX))
        latest, following = latest_path(self.folder), next_path(self.folder)
        self.agent.save(following, replay=self.options.save_replay)
        # No process replaces its last checkpoint before all have written the next one.
        barrier()
        if rank() == 0:
            self._weights.unlink(missing_ok=True)  # from an earlier end, older than this checkpoint
        os.replace(path_of_rank(following), path_of_rank(latest))
        self._last_checkpoint = str(latest)

    def _save_weights(self, path: Path) -> None:
        if rank() == 0 and can_write_weights():
            self.agent.save_weights(path)


def start_run(
    agent_class: type[Learner],
    config: AgentConfig,
    options: RunOptions,
    *,
    env: FrameEnv | None = None,
    network: Network | None = None,
    eval_env: Callable[[], FrameEnv] | None = None,
    preset: str = "",
    on_row: Callable[[str, Row], None] | None = None,
) -> Run:
    """Make a run, or resume the one in the folder.

    Args:
        agent_class: The algorithm.
        config: Options of the algorithm; a resumed run needs those of the checkpoint.
        options: Options of the run.
        env: Environments to learn in; by default those of the config.
        network: Network to train; by default that of the config.
        eval_env: Makes environments for an evaluation, which are closed after it; by default those
            of the protocol.
        preset: Name of the config, for the folder; by default that of the algorithm.
        on_row: Called on rank 0 with "progress" or "evaluation", and each row that is logged, such
            as to send it to a tracker of experiments.

    Raises:
        CheckpointError: The folder holds a run and `resume` is False, or the run has other options.
        InvalidArgumentError: The protocol of evaluations does not fit the config, `agent_class` is
            not an algorithm, `config` not its options, or `options` not RunOptions.
        CuleError: The environment, the network or the opponent cannot be made.
    """
    if not hasattr(agent_class, "config_class"):
        raise InvalidArgumentError(
            f"agent_class is {shown(agent_class)}; it must be an algorithm, such as PPO"
        )
    needed = (("config", config, agent_class.config_class), ("options", options, RunOptions))
    for name, value, kind in needed:
        if not isinstance(value, kind):
            raise InvalidArgumentError(f"{name} is {shown(value)}; it must be {kind.__name__}")
    folder = run_path(options.out, config, preset or agent_class.name)
    if last_checkpoint(folder) is not None and not options.resume:
        raise CheckpointError(
            f"out is {shown(str(folder))}, which holds a run; use --resume to resume it, or "
            f"another folder, such as {shown(str(free_folder(folder)))}"
        )
    if options.eval_episodes and eval_env is None:
        check_protocol(config, options.eval_protocol)
    own = env is None
    if options.opponent:
        if env is not None or eval_env is not None:
            raise InvalidArgumentError(
                f"opponent is {shown(options.opponent)}; with env or eval_env it must be empty: "
                "make them with cule.agents.SelfPlayEnv"
            )
        env, eval_env = _opposed_envs(config, options, folder)
    try:
        make: Any = agent_class  # a protocol does not say how it is made
        agent = make(config, env, network=network)
        content = read_newest(folder)
        if content is not None:
            load_state(agent, content)
    except BaseException:
        if own and env is not None:
            env.close()
        raise
    return Run(
        agent,
        folder,
        options,
        eval_env=eval_env,
        resumed=content is not None,
        preset=preset,
        on_row=on_row,
    )


def _opposed_envs(
    config: AgentConfig, options: RunOptions, folder: Path
) -> tuple[SelfPlayEnv, Callable[[], SelfPlayEnv]]:
    """Environments with the opponent of a run, and how to make those of its evaluations."""
    require(config, "with an opponent", num_actors=0, cluster="", cuda_graphs=False)
    seats = seats_with_opponent(config)
    versus = None
    if options.opponent != "random":
        path = find_checkpoint(Path(options.opponent))
        if folder.resolve() in path.resolve().parents:
            raise InvalidArgumentError(
                f"opponent is {shown(options.opponent)}, of this run itself; it must be of another "
                "run"
            )
        versus = read_to_play(path)
    _, config = join(config)
    count = max(min(options.eval_episodes, 128), 1) * seats
    for_evaluations = eval_config(config, options.eval_protocol, count)
    return make_opposed_env(config, versus), lambda: make_opposed_env(for_evaluations, versus)
