"""Records to text tables: printed at the end of a benchmark and written to its folder."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from cule.bench.engines import FRAMESKIP
from cule.bench.options import Cell
from cule.bench.records import MemoryRecord, Ratio, Record, SpeedRun

#: Baselines whose ratios get columns, in this order.
BASELINES = ("ale", "envpool", "ale-async", "cule-cpu")

Rows = list[list[str]]

#: Between a ratio by the clock and that by processor time.
CPU_MARK = " | "

#: Quotient of the cores that two engines keep busy from which a table warns.
UNEVEN_CORES = 1.15

#: Games that a note names; of more it tells the number.
MAX_NAMES = 4


def table(rows: Rows, *, num_labels: int = 1) -> str:
    """Align rows of cells, heads first; the first `num_labels` columns to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < num_labels else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def of_load(records: Sequence[Record], load: str, num_envs: int | None = None) -> list[Record]:
    """Records of one load, of all sizes or of one."""
    return [
        record
        for record in records
        if record["cell"]["load"] == load and num_envs in (None, record["cell"]["num_envs"])
    ]


def sizes_of(records: Sequence[Record]) -> list[int]:
    """Numbers of environments, ascending."""
    return sorted({record["cell"]["num_envs"] for record in records})


def run_names(records: Sequence[Record]) -> list[str]:
    """Names of all runs, in order of appearance."""
    return list(dict.fromkeys(name for record in records for name in record["runs"]))


def runs_named(records: Sequence[Record], name: str) -> list[SpeedRun]:
    """The runs of one name."""
    return [record["runs"][name] for record in records if name in record["runs"]]


def unmarked(records: Sequence[Record]) -> list[Record]:
    """Records of games whose episodes do not end at once; all records if there are none."""
    return [record for record in records if not record["ends_at_once"]] or list(records)


def ratio_names(records: Sequence[Record]) -> list[str]:
    """Names of all ratios, ordered by baseline."""
    names = dict.fromkeys(name for record in records for name in record["ratios"])
    return sorted(names, key=lambda name: BASELINES.index(name.split(" / ")[1].split(" on ")[-1]))


def median_rate(runs: Sequence[SpeedRun]) -> float | None:
    """Median frames per second of runs; None without runs."""
    rates = [run["frames_per_s"]["median"] for run in runs]
    return statistics.median(rates) if rates else None


def median_utilization(runs: Sequence[SpeedRun]) -> float | None:
    """Median device utilization in per cent; None if unknown."""
    known = [u for run in runs if (u := run["device_utilization_percent"]) is not None]
    return statistics.median(known) if known else None


def game_label(record: Record) -> str:
    """The game, marked if its episodes end at once."""
    return f"{record['cell']['game']}{' *' if record['ends_at_once'] else ''}"


def speed_table(records: Sequence[Record]) -> str:
    """One load at one size: a row per game, and the median of the unmarked games."""
    runs, ratios = run_names(records), ratio_names(records)
    rows = [["game", *runs, *ratios, "RAM digest"]]
    for record in records:
        digest = next((d for run in record["runs"].values() if (d := run["digest_of_ram"])), "-")
        row = [game_label(record)]
        row += [_number(median_rate(runs_named([record], name))) for name in runs]
        row += [_ratio(name, record["ratios"].get(name)) for name in ratios]
        rows.append([*row, digest])
    counted = [record for record in records if not record["ends_at_once"]]
    if len(counted) > 1:
        row = ["median", *(_number(median_rate(runs_named(counted, name))) for name in runs)]
        for name in ratios:
            found = [r["ratios"][name] for r in counted if name in r["ratios"]]
            if not found:
                row.append("-")
                continue
            middle = statistics.median(ratio["median"] for ratio in found)
            by_cpu_time = [ratio["by_cpu_time"]["median"] for ratio in found]
            row.append(f"{middle:.2f}{_cpu_part(name, by_cpu_time)}")
        rows.append([*row, ""])
    return table(rows)


def sizes_table(records: Sequence[Record]) -> str:
    """One load: a row per size and run, with medians over the unmarked games."""
    heads = ["environments", "engine", "frames/s", "per env", "ms per step", "cores busy", "GPU %"]
    rows = [heads]
    for num_envs in sizes_of(records):
        counted = unmarked([r for r in records if r["cell"]["num_envs"] == num_envs])
        for name in run_names(counted):
            runs = runs_named(counted, name)
            per_env = statistics.median(run["frames_per_s_per_env"] for run in runs)
            step_ms = statistics.median(run["ms_per_step"] for run in runs)
            cores = statistics.median(run["cpu_cores_busy"] for run in runs)
            row = [f"{num_envs:,}", name, _number(median_rate(runs)), f"{per_env:,.1f}"]
            rows.append(
                [*row, f"{step_ms:,.2f}", f"{cores:.2f}", _number(median_utilization(runs))]
            )
    return table(rows, num_labels=2)


def memory_table(record: MemoryRecord) -> str:
    """Bytes per environment, by engine."""
    rows = [["engine", f"bytes per environment, {record['game']}"]]
    for name, size in record["bytes_per_env"].items():
        rows.append([name, "unknown" if size is None else f"{size:,}"])
    return table(rows)


def divergence_table(records: Sequence[Record]) -> str:
    """Speed of the first and the last tenth of the steps after a common reset."""
    heads = ["game", "engine", "environments", "frames/s, first tenth", "last tenth", "resets"]
    rows = [heads]
    for record in records:
        cell = record["cell"]
        for name, run in record["divergence_runs"].items():
            seconds = run["step_s"]
            part = max(1, len(seconds) // 10)
            frames = cell["num_envs"] * FRAMESKIP
            rates = [frames / statistics.median(s) for s in (seconds[:part], seconds[-part:])]
            row = [cell["game"], name, f"{cell['num_envs']:,}", *map(_number, rates)]
            rows.append([*row, _number(sum(run["resetting_envs"]))])
    return table(rows, num_labels=2)


def report(
    records: Sequence[Record],
    memory: MemoryRecord | None,
    hardware: str,
    missing: Mapping[str, str],
    left_out: Iterable[str] = (),
) -> str:
    """All tables of a benchmark.

    `missing` are engines that are not available, and why; `left_out` notes of `left_out_notes`.
    """
    parts = [
        f"{hardware}\n"
        f"Emulated frames per second (environments x steps x frame skip {FRAMESKIP}), 84x84 gray, "
        "4 frames stacked: medians of interleaved rounds.\n"
        "Ratios: medians (quartiles) of the ratios of single rounds, by the clock; after the "
        f"{CPU_MARK}, medians by processor time, on which other work has hardly any influence."
    ]
    parts += [f"{name}: not available: {reason}" for name, reason in missing.items()]
    parts += left_out
    timed = [record for record in records if record["cell"]["load"] != "divergence"]
    for load, num_envs in dict.fromkeys((r["cell"]["load"], r["cell"]["num_envs"]) for r in timed):
        chosen = of_load(timed, load, num_envs)
        parts.append(f"{load}, {num_envs:,} environments\n{speed_table(chosen)}")
        parts += _notes(chosen)
    for load in dict.fromkeys(record["cell"]["load"] for record in timed):
        rows = sizes_table(of_load(timed, load))
        parts.append(f"{load} by number of environments, medians of the games\n{rows}")
    diverged = of_load(records, "divergence")
    if diverged:
        parts.append(f"after a common reset\n{divergence_table(diverged)}")
    if memory is not None:
        parts.append(memory_table(memory))
    return "\n\n".join(parts)


def left_out_notes(late: Sequence[Cell], minutes: float) -> dict[str, str]:
    """By load, what the time limit has left out: sizes, and the games or their number."""
    notes = {}
    for load in dict.fromkeys(cell.load for cell in late):
        by_size: dict[int, list[str]] = {}
        for cell in late:
            if cell.load == load:
                by_size.setdefault(cell.num_envs, []).append(cell.game)
        sizes = (
            f"{size:,} environments of "
            + (", ".join(games) if len(games) <= MAX_NAMES else f"{len(games)} games")
            for size, games in by_size.items()
        )
        notes[load] = f"{load}, left out after --minutes {minutes:g}: {'; '.join(sizes)}"
    return notes


def _notes(records: Sequence[Record]) -> list[str]:
    notes = uneven_cores(records)
    equal = sum(r["check"]["steps_equal_to_ale"] * r["cell"]["num_envs"] for r in records)
    if equal:
        notes.append(
            f"equal to ale-py: observations, rewards, terminated and truncated of {equal:,} "
            "environment steps"
        )
    shadowed = sum(
        r["check"]["gpu_steps_equal_to_cpu"]
        * min(r["check"]["gpu_envs_compared"], r["cell"]["num_envs"])
        for r in records
    )
    if shadowed:
        notes.append(f"GPU equal to CPU: {shadowed:,} environment steps from cached states")
    if any(record["ends_at_once"] for record in records):
        notes.append("* episodes end at once: mostly resets are timed; not part of the medians")
    reasons: dict[str, list[str]] = {}
    for record in records:
        for name, reason in record["absent"].items():
            reasons.setdefault(f"{name} skipped: {reason}", []).append(record["cell"]["game"])
    notes += [f"{reason} ({', '.join(games)})" for reason, games in reasons.items()]
    return ["\n".join(notes)] if notes else []


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _ratio(name: str, ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    low, high = ratio["quartiles"]
    text = f"{ratio['median']:.2f} ({low:.2f} to {high:.2f})"
    return f"{text}{_cpu_part(name, [ratio['by_cpu_time']['median']])}"


def _cpu_part(name: str, by_cpu_time: Sequence[float]) -> str:
    return f"{CPU_MARK}{statistics.median(by_cpu_time):.2f}" if is_of_cpus(name) else ""


def is_of_cpus(name: str) -> bool:
    """Whether a ratio is of two engines that run on the processor alone."""
    return "cuda" not in name


def uneven_cores(records: Sequence[Record]) -> list[str]:
    """Notes on ratios whose engines kept different numbers of cores busy, by most of the games."""
    notes = []
    for name in ratio_names(records):
        if not is_of_cpus(name):
            continue
        pairs = [
            [record["runs"][side]["cpu_cores_busy"] for side in name.split(" / ")]
            for record in records
            if name in record["ratios"]
        ]
        ours, theirs = (statistics.median(cores) for cores in zip(*pairs, strict=True))
        if max(ours, theirs) > UNEVEN_CORES * min(ours, theirs):
            notes.append(
                f"{name}: they kept {ours:.2f} and {theirs:.2f} cores busy; the ratio by the clock "
                "is not one of speed alone, that by processor time is"
            )
    return notes
