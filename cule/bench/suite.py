"""A run of the suite: cells one after the other, a record each, then tables and plots."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from cule.bench import machine
from cule.bench.divergence import follow
from cule.bench.engines import ENGINES, why_missing
from cule.bench.errors import EngineMissingError
from cule.bench.interleaved import race
from cule.bench.memory import bytes_per_console
from cule.bench.options import BenchOptions, Cell, cells_of
from cule.bench.plots import MISSING_MATPLOTLIB, can_plot, plot_all
from cule.bench.records import (
    Record,
    Records,
    describe_comparison,
    describe_divergence,
    settings_of,
)
from cule.bench.report import BASELINES, report
from cule.bench.training import check_algorithms, lane_name, train_by_turns, why_no_training
from cule.errors import CuleError, RomNotFoundError

TABLE = "table.txt"

Say = Callable[[str], None]


def run_suite(options: BenchOptions, say: Say = print) -> list[Record]:
    """Measure all cells, and write records, table and plots.

    Args:
        options: What to measure.
        say: Takes a line of text at a time: what is done now, then the tables.

    Returns:
        The records, those of an earlier part of the run included.

    Raises:
        DifferentResultsError: Engines that must agree did not; finished cells are kept.
        EngineMissingError: None of the engines is there.
        OtherRunError: The folder holds another run.
        CuleError: What making cule's environment raises.
    """
    began = time.monotonic()

    def is_late() -> bool:
        return 0 < 60 * options.minutes < time.monotonic() - began

    threads = options.threads or machine.num_cpus()
    engines, missing = available_engines(options, say)
    loads = {load: why for load in options.load if (why := _why_no_load(load)) is not None}
    for load, reason in loads.items():
        say(f"{load}: left out: {reason}")
    if "training" in options.load and "training" not in loads:
        check_algorithms(options.algorithms)
    use_threads(threads)

    where = machine.machine()
    hardware = machine.hardware_line(where, threads)
    folder = options.out or Path(f"cule-bench-{machine.now()[:19].replace(':', '')}")
    settings = settings_of(options, engines, where, machine.source())
    settings["options"]["threads"] = threads
    records = Records(folder, settings, resume=options.resume)
    cells = [cell for cell in cells_of(options, "cule-cuda" in engines) if cell.load not in loads]
    say(f"{hardware}; {', '.join(engines)}; {len(cells)} cells; records in {folder}")

    done: list[Record] = []
    left_out = []
    for number, cell in enumerate(cells, 1):
        place = f"[{number}/{len(cells)}] {cell.load}, {cell.num_envs:,} consoles, {cell.game}"
        found = records.find(cell)
        if found is not None:
            say(f"{place}: found in {folder}")
            done.append(found)
            continue
        if records.is_other(cell):
            say(f"{place}: the record is of other code, options or hardware; measured again")
        if is_late():
            left_out.append(cell)
            continue
        start = time.monotonic()
        try:
            content = measure(cell, engines, threads, options)
        except KeyboardInterrupt:
            say(f"{place}: stopped; to go on: --out {folder} --resume")
            raise
        except (EngineMissingError, RomNotFoundError) as error:
            say(f"{place}: left out: {error}")
            continue
        content["seconds"] = round(time.monotonic() - start, 1)
        done.append(records.write(cell, content))
        say(f"{place}: {_in_short(content)}; {content['seconds']:.0f} s")
    if left_out:
        say(
            f"{len(left_out)} cells and the memory left out, because --minutes "
            f"{options.minutes:g} are over; to measure them: --out {folder} --resume"
        )

    memory = None if left_out else _memory(options, engines, records, say)
    text = report(done, memory, hardware, missing)
    (folder / TABLE).write_text(text + "\n")
    say("")
    say(text)
    say("")
    if can_plot():
        for path in plot_all(done, hardware, folder):
            say(f"plot: {path}")
    else:
        say(MISSING_MATPLOTLIB)
    say(f"table: {folder / TABLE}; records: {folder}; {time.monotonic() - began:.0f} s")
    return done


def available_engines(options: BenchOptions, say: Say) -> tuple[list[str], dict[str, str]]:
    """Engines that can run here, and why others cannot.

    Raises:
        EngineMissingError: None can.
    """
    missing = {}
    for name in options.engines:
        reason = why_missing(name, options.games[0])
        if reason is not None:
            missing[name] = reason
            say(f"{name}: not available: {reason}")
    engines = [name for name in options.engines if name not in missing]
    if not engines:
        raise EngineMissingError(f"no engine is available: {missing}")
    return engines, missing


def use_threads(threads: int) -> None:
    """As many threads for torch, where it is there, as for every engine."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)


def measure(cell: Cell, engines: list[str], threads: int, options: BenchOptions) -> Record:
    """Measure a cell; its record without its head.

    Raises:
        DifferentResultsError: Engines that must agree did not.
        EngineMissingError: No engine can play it.
        CuleError: What making cule's environment raises.
    """
    head: Record = {"date": machine.now(), "load_average_at_start": machine.load_average()}
    if cell.load == "divergence":
        followed = follow(
            cell.game,
            engines,
            num_envs=cell.num_envs,
            threads=threads,
            steps=options.divergence_steps,
            seed=options.seed,
        )
        return head | describe_divergence(followed) | {"ends_at_once": False}
    if cell.load == "training":
        result, configs = train_by_turns(cell.game, engines, cell.num_envs, threads, options)
        pairs = [
            (lane_name(algorithm, name), lane_name(algorithm, other))
            for algorithm in options.algorithms
            for name, other in pairs_of(engines)
        ]
        return head | describe_comparison(result, pairs) | {"learners": configs}
    result = race(
        cell.game,
        engines,
        num_envs=cell.num_envs,
        threads=threads,
        block_steps=options.turn_steps,
        blocks=options.turns,
        seconds=options.seconds,
        seed=options.seed,
        network=cell.load == "inference",
        network_device=options.network_device,
        async_batch=options.async_batch,
    )
    return head | describe_comparison(result, pairs_of(engines))


def pairs_of(engines: list[str]) -> list[tuple[str, str]]:
    """Engines to divide: each of cule by each baseline; cule on the GPU also by cule on the CPU."""
    ours = [name for name in ENGINES if name.startswith("cule") and name in engines]
    return [
        (name, other)
        for other, name in itertools.product(BASELINES, ours)
        if other in engines and name != other
    ]


def _why_no_load(load: str) -> str | None:
    return why_no_training() if load in ("inference", "training") else None


def _memory(options: BenchOptions, engines: list[str], records: Records, say: Say) -> Record | None:
    if not options.memory:
        return None
    game = options.games[0]
    if "ale" in engines:  # stepped in another way, but made of the same
        engines = [name for name in engines if name != "ale-async"]
    found = records.memory(game, engines)
    if found is not None:
        return found
    say(f"memory of a console, {game}: {', '.join(engines)}")
    try:
        return records.write_memory(game, bytes_per_console(engines, game))
    except CuleError as error:
        say(f"memory: left out: {error}")
        return None


def _in_short(content: Record) -> str:
    """A line of what a cell gave."""
    if "ratios" not in content:
        return ", ".join(
            f"{name} {len(lane['step_s'])} steps" for name, lane in content["lanes"].items()
        )
    rates = [
        f"{name} {lane['frames_per_s']['median']:,.0f}" for name, lane in content["lanes"].items()
    ]
    text = ", ".join(rates) + " frames/s"
    return text + (" (episodes end at once)" if content["ends_at_once"] else "")
