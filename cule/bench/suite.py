"""The benchmark suite: cells one after the other with a record each, then tables and plots."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable
from pathlib import Path

from cule.bench import machine
from cule.bench.divergence import measure_divergence
from cule.bench.engines import EngineMissingError, is_cuda, unavailable_reason, variant_of
from cule.bench.interleaved import compare_engines
from cule.bench.memory import bytes_per_env
from cule.bench.options import BenchOptions, Cell, cells_of
from cule.bench.plots import MISSING_MATPLOTLIB, can_plot, plot_all
from cule.bench.policies import check_network_device
from cule.bench.records import (
    Content,
    MemoryRecord,
    Record,
    Records,
    describe_comparison,
    settings_of,
)
from cule.bench.report import BASELINES, left_out_notes, report
from cule.bench.training import check_algorithms, compare_agents, run_name
from cule.errors import CuleError, RomNotFoundError
from cule.files import replace_text

TABLE = "table.txt"

Say = Callable[[str], None]


def run_suite(options: BenchOptions, say: Say = print) -> list[Record]:
    """Measure all cells, and write records, table and plots.

    Args:
        options: What to measure.
        say: Receives one line of text at a time: the progress, then the tables.

    Returns:
        The records, including those of an earlier part of the benchmark.

    Raises:
        DifferentResultsError: Engines that must agree differ; finished cells are kept.
        EngineMissingError: No engine is available.
        OtherRunError: The folder holds records of another run.
        CuleError: Raised by cule's environment.
    """
    began = time.monotonic()
    threads = options.threads or machine.num_cpus()
    engines, missing = available_engines(options, say)
    skipped_loads: list[str] = []
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)
        if "training" in options.load:
            check_algorithms(options.algorithms)
        if "inference" in options.load and options.network_device:
            check_network_device(options.network_device)
    else:
        skipped_loads = [load for load in options.load if load in ("inference", "training")]
        if skipped_loads:
            say(f"{', '.join(skipped_loads)}: skipped: torch is not installed")

    hardware = machine.hardware_line(threads)
    folder = options.out or Path(f"cule-bench-{machine.now()[:19].replace(':', '')}")
    settings = settings_of(options, engines, threads, machine.machine(), machine.source())
    records = Records(folder, settings, resume=options.resume)
    has_gpu = any(map(is_cuda, engines))
    cells = [cell for cell in cells_of(options, has_gpu) if cell.load not in skipped_loads]
    say(f"{hardware}; {', '.join(engines)}; {len(cells)} cells; records in {folder}")

    done: list[Record] = []
    late = []
    for number, cell in enumerate(cells, 1):
        place = f"[{number}/{len(cells)}] {cell.load}, {cell.num_envs:,} environments, {cell.game}"
        found = records.find(cell)
        if found is not None:
            say(f"{place}: found in {folder}")
            done.append(found)
            continue
        if records.is_other(cell):
            say(f"{place}: the record has other code, options or hardware; measured again")
        if 0 < 60 * options.minutes < time.monotonic() - began:
            late.append(cell)
            continue
        start = time.monotonic()
        try:
            content = measure(cell, engines, threads, options)
        except KeyboardInterrupt:
            say(f"{place}: interrupted; to continue: --out {folder} --resume")
            raise
        except (EngineMissingError, RomNotFoundError) as error:
            say(f"{place}: skipped: {error}")
            continue
        content["seconds"] = round(time.monotonic() - start, 1)
        done.append(records.write(cell, content))
        say(f"{place}: {_summary(content)}; {content['seconds']:.0f} s")
    if late:
        say(
            f"{len(late)} cells and the memory skipped after --minutes {options.minutes:g}; to "
            f"measure them: --out {folder} --resume"
        )

    memory = None if late else _memory(options, engines, records, say)
    left_out = left_out_notes(late, options.minutes)
    text = report(done, memory, hardware, missing, left_out.values())
    replace_text(folder / TABLE, text + "\n")
    say(f"\n{text}\n")
    if can_plot():
        for path in plot_all(done, hardware, folder, left_out):
            say(f"plot: {path}")
    else:
        say(MISSING_MATPLOTLIB)
    say(f"table: {folder / TABLE}; records: {folder}; {time.monotonic() - began:.0f} s")
    return done


def available_engines(options: BenchOptions, say: Say) -> tuple[list[str], dict[str, str]]:
    """Engines that can run here, and why others cannot; an EngineMissingError if none can."""
    missing = {}
    for name in options.engines:
        reason = unavailable_reason(name, options.games[0])
        if reason is not None and all(unavailable_reason(name, g) for g in options.games[1:]):
            missing[name] = reason
            say(f"{name}: not available: {reason}")
    engines = [name for name in options.engines if name not in missing]
    if not engines:
        raise EngineMissingError(f"no engine is available: {missing}")
    return engines, missing


def measure(cell: Cell, engines: list[str], threads: int, options: BenchOptions) -> Content:
    """Measure a cell; errors are those of `run_suite`."""
    head: Content = {"date": machine.now(), "load_average_at_start": machine.load_average()}
    what = (cell.game, engines, cell.num_envs, threads, options)
    if cell.load == "divergence":
        runs = measure_divergence(*what)
        return {**head, "divergence_runs": runs, "ends_at_once": False}
    if cell.load == "training":
        result, configs = compare_agents(*what)
        pairs = [
            (run_name(algorithm, name), run_name(algorithm, other))
            for algorithm in options.algorithms
            for name, other in pairs_of(engines)
        ]
        return {**head, **describe_comparison(result, pairs), "agents": configs}
    result = compare_engines(*what, network=cell.load == "inference")
    return {**head, **describe_comparison(result, pairs_of(engines))}


def pairs_of(engines: list[str]) -> list[tuple[str, str]]:
    """Engines to divide: each of cule by each baseline; cule on the GPU also by cule on the CPU."""
    ours = sorted(name for name in engines if name.startswith("cule"))
    return [
        (name, other)
        for other, name in itertools.product(BASELINES, ours)
        if other in engines and name != other
    ]


def _memory(
    options: BenchOptions, engines: list[str], records: Records, say: Say
) -> MemoryRecord | None:
    if not options.memory:
        return None
    game = options.games[0]
    if "ale" in engines:  # the same environments, stepped in another way
        engines = [name for name in engines if name != "ale-async"]
    if "cule-cpu" in engines:
        engines = [n for n in engines if not (variant_of(n).is_async or variant_of(n).threads)]
    found = records.memory(game, engines)
    if found is not None:
        return found
    say(f"memory of an environment, {game}: {', '.join(engines)}")
    try:
        return records.write_memory(game, bytes_per_env(engines, game))
    except CuleError as error:
        say(f"memory: skipped: {error}")
        return None


def _summary(content: Content) -> str:
    """One line about a cell."""
    if "divergence_runs" in content:
        runs = content["divergence_runs"]
        return ", ".join(f"{name} {len(run['step_s'])} steps" for name, run in runs.items())
    rates = (f"{n} {run['frames_per_s']['median']:,.0f}" for n, run in content["runs"].items())
    text = ", ".join(rates) + " frames/s"
    return text + (" (episodes end at once)" if content["ends_at_once"] else "")
