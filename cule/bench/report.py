"""Records to tables of text: what a run prints at its end and leaves in its folder."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from cule.bench.engines import FRAMESKIP
from cule.bench.records import Record

#: Baselines whose ratios get columns, in this order.
BASELINES = ("ale", "envpool", "ale-async", "cule-cpu")

Rows = list[list[str]]


def table(rows: Rows, *, num_labels: int = 1) -> str:
    """Rows of cells, the first the heads, as aligned text: labels left, numbers right."""
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


def groups_of(records: Sequence[Record]) -> list[tuple[str, int]]:
    """Loads with their sizes, in the order in which they come."""
    cells = [record["cell"] for record in records]
    return list(dict.fromkeys((cell["load"], cell["num_envs"]) for cell in cells))


def lanes_of(records: Sequence[Record]) -> list[str]:
    """Names of all lanes, in the order in which they come."""
    return list(dict.fromkeys(name for record in records for name in record["lanes"]))


def ratio_names(records: Sequence[Record]) -> list[str]:
    """Names of all ratios, ordered by baseline."""
    names = dict.fromkeys(name for record in records for name in record["ratios"])

    def place(name: str) -> int:
        return BASELINES.index(name.split(" / ")[1].split(" on ")[-1])

    return sorted(names, key=place)


def median_rate(record: Record, lane: str) -> float | None:
    """Frames a second of a lane; None where it took no part."""
    found = record["lanes"].get(lane)
    return None if found is None else float(found["frames_per_s"]["median"])


def game_label(record: Record) -> str:
    """The game, marked where its episodes end at once."""
    return f"{record['cell']['game']}{' *' if record['ends_at_once'] else ''}"


def speed_table(records: Sequence[Record]) -> str:
    """One load at one size: a row a game, and the median of the games.

    Rates are medians of turns, ratios medians (and quartiles) of the ratios within a turn. The last
    row has the medians of the games that are not marked.
    """
    lanes, ratios = lanes_of(records), ratio_names(records)
    rows = [["game", *lanes, *ratios, "RAM digest"]]
    for record in records:
        digests = [lane.get("digest_of_ram") for lane in record["lanes"].values()]
        digest = next((text for text in digests if text), "-")
        row = [game_label(record)]
        row += [_number(median_rate(record, lane)) for lane in lanes]
        row += [_ratio(record["ratios"].get(name)) for name in ratios]
        rows.append([*row, digest])
    counted = [record for record in records if not record["ends_at_once"]]
    if len(counted) > 1:
        row = ["median"]
        for lane in lanes:
            rates = [rate for r in counted if (rate := median_rate(r, lane)) is not None]
            row.append(_number(statistics.median(rates) if rates else None))
        for name in ratios:
            values = [r["ratios"][name]["median"] for r in counted if name in r["ratios"]]
            row.append(f"{statistics.median(values):.2f}" if values else "-")
        rows.append([*row, ""])
    return table(rows)


def sizes_table(records: Sequence[Record]) -> str:
    """One load: a row a size and lane, with medians over the games that are not marked."""
    heads = ["consoles", "engine", "frames/s", "a console", "ms a step", "cores busy", "GPU %"]
    rows = [heads]
    for num_envs in sorted({record["cell"]["num_envs"] for record in records}):
        chosen = [r for r in records if r["cell"]["num_envs"] == num_envs]
        counted = [r for r in chosen if not r["ends_at_once"]] or chosen
        for lane in lanes_of(counted):
            found = [r["lanes"][lane] for r in counted if lane in r["lanes"]]
            rows.append(
                [
                    f"{num_envs:,}",
                    lane,
                    f"{_median(found, 'frames_per_s', 'median'):,.0f}",
                    f"{_median(found, 'frames_per_s_per_console'):,.1f}",
                    f"{_median(found, 'ms_per_step'):,.2f}",
                    f"{_median(found, 'cpu_cores_busy'):.2f}",
                    _utilisation(found),
                ]
            )
    return table(rows, num_labels=2)


def learning_table(records: Sequence[Record]) -> str:
    """Frames a second of inference and training: a row a learner and engine, a column a size."""
    sizes = sorted({record["cell"]["num_envs"] for record in records})
    heads = ["load", "lane", *(f"{size:,} consoles" for size in sizes)]
    rows = [[*heads, *(f"GPU % at {size:,}" for size in sizes)]]
    for load in ("inference", "training"):
        chosen = [record for record in records if record["cell"]["load"] == load]
        for lane in lanes_of(chosen):
            rates, busy = [], []
            for size in sizes:
                found = [
                    record["lanes"][lane]
                    for record in chosen
                    if record["cell"]["num_envs"] == size and lane in record["lanes"]
                ]
                rates.append(f"{_median(found, 'frames_per_s', 'median'):,.0f}" if found else "-")
                busy.append(_utilisation(found))
            rows.append([load, lane, *rates, *busy])
    return table(rows, num_labels=2)


def memory_table(record: Record) -> str:
    """Bytes of a console, by engine."""
    rows = [["engine", f"bytes a console, {record['game']}"]]
    for name, size in record["bytes_per_console"].items():
        rows.append([name, "not readable" if size is None else f"{size:,}"])
    return table(rows)


def divergence_table(records: Sequence[Record]) -> str:
    """Speed of the first and the last tenth of the steps after a common reset."""
    heads = ["game", "engine", "consoles", "frames/s, first tenth", "last tenth", "resets"]
    rows = [heads]
    for record in records:
        for name, lane in record["lanes"].items():
            seconds = lane["step_s"]
            part = max(1, len(seconds) // 10)
            frames = record["cell"]["num_envs"] * FRAMESKIP
            rates = [frames / statistics.median(s) for s in (seconds[:part], seconds[-part:])]
            rows.append(
                [
                    record["cell"]["game"],
                    name,
                    f"{record['cell']['num_envs']:,}",
                    *(f"{rate:,.0f}" for rate in rates),
                    f"{sum(lane['resetting_consoles']):,}",
                ]
            )
    return table(rows, num_labels=2)


def report(
    records: Sequence[Record],
    memory: Record | None,
    hardware: str,
    missing: Mapping[str, str],
) -> str:
    """All tables of a run, with what one must know to read them.

    Args:
        records: Of all cells that were measured.
        memory: Of a console.
        hardware: One line.
        missing: Engines that are not there, and why.
    """
    parts = [
        f"{hardware}\n"
        f"Emulated frames a second (consoles x steps x frame skip {FRAMESKIP}), 84x84 gray, 4 "
        "frames stacked: medians of interleaved.\n"
        "Ratios: how many times as fast, medians (quartiles) of the ratios within a turn."
    ]
    parts += [f"{name}: not available: {reason}" for name, reason in missing.items()]
    timed = [record for record in records if record["cell"]["load"] != "divergence"]
    for load, num_envs in groups_of(timed):
        chosen = [
            record
            for record in timed
            if (record["cell"]["load"], record["cell"]["num_envs"]) == (load, num_envs)
        ]
        parts.append(f"{load}, {num_envs:,} consoles\n{speed_table(chosen)}")
        parts += _notes(chosen)
    for load in dict.fromkeys(record["cell"]["load"] for record in timed):
        chosen = [record for record in timed if record["cell"]["load"] == load]
        parts.append(f"{load} by number of consoles, medians of the games\n{sizes_table(chosen)}")
    learned = [record for record in timed if record["cell"]["load"] in ("inference", "training")]
    if learned:
        parts.append(f"inference and training, medians of the games\n{learning_table(learned)}")
    diverged = [record for record in records if record["cell"]["load"] == "divergence"]
    if diverged:
        parts.append(f"after a common reset\n{divergence_table(diverged)}")
    if memory is not None:
        parts.append(memory_table(memory))
    return "\n\n".join(parts)


def _notes(records: Sequence[Record]) -> list[str]:
    notes = []
    equal = sum(
        record["check"]["steps_equal_to_ale"] * record["cell"]["num_envs"] for record in records
    )
    if equal:
        notes.append(
            f"equal to ale-py: observations, rewards, terminated and truncated of {equal:,} "
            "console steps"
        )
    shadowed = sum(
        record["check"]["steps_of_gpu_equal_to_cpu"]
        * min(record["check"]["consoles_of_gpu_compared"], record["cell"]["num_envs"])
        for record in records
    )
    if shadowed:
        notes.append(f"GPU equal to CPU: {shadowed:,} console steps from cached states")
    if any(record["ends_at_once"] for record in records):
        notes.append("* episodes end at once: mostly resets are timed; left out of the medians")
    reasons: dict[str, list[str]] = {}
    for record in records:
        for name, reason in record["absent"].items():
            reasons.setdefault(f"{name} took no part: {reason}", []).append(record["cell"]["game"])
    notes += [f"{reason} ({', '.join(games)})" for reason, games in reasons.items()]
    return ["\n".join(notes)] if notes else []


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _ratio(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "-"
    low, high = ratio["quartiles"]
    return f"{ratio['median']:.2f} ({low:.2f} to {high:.2f})"


def _median(lanes: Sequence[Mapping[str, Any]], *keys: str) -> float:
    values = []
    for lane in lanes:
        value: Any = lane
        for key in keys:
            value = value[key]
        values.append(float(value))
    return statistics.median(values)


def _utilisation(lanes: Sequence[Mapping[str, Any]]) -> str:
    values = [lane["device_utilisation_percent"] for lane in lanes]
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.0f}" if known else "-"
