"""``cule sweep``, ``cule plot``: run a preset over games and seeds; aggregate the scores."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cule.agents.parts.config import AgentConfig
from cule.agents.run.checkpoint import check_writable
from cule.agents.run.cli import parse_train
from cule.agents.run.evaluation import check_protocol
from cule.agents.run.folders import read_rows
from cule.agents.run.presets import PRESETS
from cule.agents.run.scores import ATARI5, reference_scores
from cule.agents.sweeps.report import draw_pictures, write_report
from cule.agents.sweeps.runs import Plan, end, last_line, launch, run_process
from cule.agents.sweeps.schedule import Execute, Schedule
from cule.errors import (
    CheckpointError,
    InvalidArgumentError,
    MissingPackageError,
    UnknownGameError,
    shown,
)
from cule.familiar_names import Parser
from cule.files import format_bytes
from cule.games import find_rom, game_id_of, list_games, load_roms
from cule.option_fields import (
    Bounds,
    NonNegative,
    Seeds,
    add_arguments,
    config_from,
    validate,
)
from cule.progress import short_time
from cule.signals import signals_call

#: Options of ``cule train`` that a sweep sets itself.
OWN_OPTIONS = ("--game", "--seed", "--seeds", "--out", "--resume", "--progress-bar")

#: Seconds for which a dry run measures a run, after it has begun to learn.
MEASURE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Options of a sweep."""

    games: str = "57"
    """Games: 57 (those of the literature), atari-5 (those of Aitchison et al. 2023), all, or names
    with commas."""

    seeds: Seeds = 5
    """Seeds 0, 1, ... of each game."""

    out: str = ""
    """Folder of the sweep; empty: runs/sweep-PRESET. On a cluster, one that all nodes share."""

    cluster: str = ""
    """Ray cluster that executes the runs: auto, HOST:PORT or local; empty: processes of this
    machine, without Ray."""

    jobs: NonNegative = 0
    """Runs at a time; 0: as many as there are CPUs (and GPUs) for."""

    cpus_per_run: Annotated[int, Bounds(1, 1_024)] = 1
    """CPUs of a run, for its environments and for PyTorch."""

    gpus_per_run: Annotated[float, Bounds(0, 16)] = 0.0
    """GPUs of a run on a cluster, such as 0.25; use it with --device cuda."""

    restarts: NonNegative = 3
    """Restarts of a run that makes no progress between them, before it counts as failed."""

    dry_run: bool = False
    """Print the runs, their memory and the expected hours, as measured with the first run, and
    train nothing."""

    def __post_init__(self) -> None:
        """Validate the options."""
        validate(self)
        if self.gpus_per_run and not self.cluster:
            raise InvalidArgumentError(
                f"gpus_per_run is {self.gpus_per_run} and cluster is empty; processes of one "
                "machine need jobs instead, or use --cluster local"
            )


def sweep(words: Sequence[str]) -> int:
    """Run ``cule sweep PRESET ...``."""
    options, plan, config = _parse(words)
    folder = Path(options.out or f"runs/sweep-{plan.preset}").absolute()
    check_writable(folder)
    for game in plan.games:
        find_rom(game, (load_roms()[game].md5,))
    if options.dry_run:
        return _dry_run(options, plan, config)
    with signals_call(_interrupt), _pool(options, plan, folder) as (execute, num_slots):
        plan.save(folder)
        schedule = Schedule(
            plan, folder, execute, num_slots=num_slots, max_restarts=options.restarts
        )
        is_complete = schedule.run()
    if len(schedule.failed) < len(schedule.runs):
        try:
            results = write_report(folder)
            is_complete = is_complete and not results.damaged
            draw_pictures(folder, results)
        except MissingPackageError as error:
            print(error)
        except CheckpointError as error:
            is_complete = False
            print(error)
    print(f"the sweep is in {folder}, the results of complete runs in {folder / 'results'}")
    for run, message in schedule.failed.items():
        print(f"{run.name} failed; it {message}")
    return 0 if is_complete else 1


def _interrupt(kind: int) -> None:
    """Let every signal do what Ctrl-C does: the runs save and end."""
    raise KeyboardInterrupt


def _parse(words: Sequence[str]) -> tuple[SweepOptions, Plan, AgentConfig]:
    parser = Parser(
        prog="cule sweep",
        usage="cule sweep PRESET [options] [options of cule train]",
        description="Train a preset in many games and seeds, and aggregate the scores.",
        epilog="cule train PRESET --help shows the options of PRESET.",
    )
    parser.add_argument("preset", choices=sorted(PRESETS), metavar="PRESET", help="as cule train")
    add_arguments(parser, SweepOptions)
    known, rest = parser.parse_known_args(words)
    given = vars(known)
    preset = given.pop("preset")
    options = config_from(SweepOptions, given)
    for word in rest:
        name = "--" + word.partition("=")[0][2:].removeprefix("no-") if word[:2] == "--" else ""
        if name in OWN_OPTIONS:
            raise InvalidArgumentError(f"{name} is an option that cule sweep sets for each run")
    games = _games(options.games)
    threads = str(options.cpus_per_run)
    for flag in ("--env-threads", "--torch-threads"):
        if flag not in [word.partition("=")[0] for word in rest]:
            rest = [*rest, flag, threads]
    _, config, run_options = parse_train([preset, *rest, "--game", games[0]])
    if not run_options.eval_episodes:
        raise InvalidArgumentError("eval_episodes is 0; a sweep needs at least 10, for its scores")
    for game in games:
        check_protocol(dataclasses.replace(config, game=game), run_options.eval_protocol)
    plan = Plan(preset, games, options.seeds, rest, config.total_steps, config.frameskip)
    return options, plan, config


def _games(text: str) -> list[str]:
    """Names of the games of a sweep."""
    sets = {"57": sorted(reference_scores()), "atari-5": list(ATARI5), "all": sorted(list_games())}
    if text in sets:
        return sets[text]
    found = []
    for word in text.split(","):
        try:
            game = game_id_of(word.strip())
        except UnknownGameError as error:
            raise UnknownGameError(
                f"games has {shown(word)}: {error}; sets are {', '.join(sets)}"
            ) from None
        if game not in list_games():
            raise UnknownGameError(f"games has {shown(word)}, which has no single-player rules")
        found.append(game)
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def _pool(
    options: SweepOptions, plan: Plan, folder: Path | None
) -> Iterator[tuple[Execute, Callable[[], int]]]:
    """Yield what executes a run, and how many it executes at a time."""
    cpus = options.cpus_per_run
    if options.cluster:
        from cule.agents.sweeps.ray_tasks import ray_tasks

        gpus, jobs = options.gpus_per_run, options.jobs
        with ray_tasks(
            options.cluster, folder, plan.games, max_slots=jobs, num_cpus=cpus, num_gpus=gpus
        ) as tasks:
            yield tasks
        return
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    jobs = options.jobs or max((own or 1) // cpus, 1)
    yield lambda words, log, stop: run_process(words, log, cpus, stop), lambda: jobs


# --- Dry runs -------------------------------------------------------------------------------------


def _dry_run(options: SweepOptions, plan: Plan, config: AgentConfig) -> int:
    runs = len(plan.games) * plan.num_seeds
    print(f"{plan.preset}: {len(plan.games)} games x {plan.num_seeds} seeds = {runs} runs of")
    print(f"{plan.total_steps:,} steps ({plan.total_steps * plan.frameskip:,} frames) each")
    print(f"games: {', '.join(plan.games)}")
    with _pool(options, plan, None) as (_, num_slots):
        jobs = num_slots()
    steps_per_s, memory_bytes = measure(plan, config, options.cpus_per_run)
    hours = plan.total_steps / steps_per_s / 3600
    waves = -(-runs // jobs)
    print(
        f"measured on this machine in {plan.games[0]}, one run alone: "
        f"{steps_per_s * plan.frameskip:,.0f} frames per second, "
        f"{format_bytes(memory_bytes)} of memory"
    )
    print(
        f"{jobs} runs at a time: {format_bytes(jobs * memory_bytes)} of memory, "
        f"{hours:.2f} hours a run, {waves * hours:.1f} hours in all "
        f"({short_time(waves * hours * 3600)}), without evaluations"
    )
    return 0


def measure(plan: Plan, config: AgentConfig, num_cpus: int) -> tuple[float, int]:
    """Train the first run for `MEASURE_S` seconds in a temporary folder.

    Returns:
        Steps per second, and bytes of memory: the peak of the process and what its replay memory
        grows to.

    Raises:
        InvalidArgumentError: The run fails; the message is its own.
    """
    words = list(plan.words)
    replay_bytes = 0
    memory: int = getattr(config, "memory", 0)
    if memory:
        batch_size: int = vars(config)["batch_size"]
        words += ["--learning-starts", str(max(4 * batch_size, 4 * config.num_envs))]
        frame_bytes = 128 if config.obs_type == "ram" else config.img_size**2
        replay_bytes = memory * frame_bytes
    shorter = dataclasses.replace(plan, words=[*words, "--log-every", "1"])
    with tempfile.TemporaryDirectory() as name:
        run = shorter.runs(Path(name))[0]
        process = launch(run.command(shorter), run.log, num_cpus)
        try:
            rows = _rows_of(process, run.folder / "progress.csv", MEASURE_S)
            peak = _peak_bytes(process)
        finally:
            end(process)
        message = last_line(run.log)
    if len(rows) < 2:
        raise InvalidArgumentError(f"the run that a dry run measures ended: {message}")
    (first_steps, first_s), (steps, at_s) = rows[0], rows[-1]
    return (steps - first_steps) / max(at_s - first_s, 1e-9), peak + replay_bytes


def _rows_of(
    process: subprocess.Popen[bytes], path: Path, seconds: float
) -> list[tuple[float, float]]:
    """Steps and seconds of the rows with updates that a run writes within some seconds of them."""
    found: list[tuple[float, float]] = []
    while process.poll() is None and (not found or found[-1][1] - found[0][1] < seconds):
        time.sleep(0.2)
        found = [
            (float(row["steps"]), float(row["train_s"]))
            for row in read_rows(path)
            if float(row["updates"] or 0) > 0
        ]
    return found


def _peak_bytes(process: subprocess.Popen[bytes]) -> int:
    """Largest resident memory of a process that runs; 0 where the system does not tell."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+)", status)
    return int(found[1]) * 1024 if found else 0
