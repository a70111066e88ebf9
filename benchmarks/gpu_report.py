"""Make the tables of a run of the GPU suite, each measurement beside its prediction.

    python -m benchmarks.gpu_report DIR > tables.md

DIR is the folder that ``benchmarks/gpu_suite.sh`` filled; its archive is read. Predictions are
those of ``results/step_model.json``, for an H100 at 1.755 GHz; figures of JAXtari those of
``results/jaxtari_throughput.csv``, read off a plot of its authors, whose GPU is not stated.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ARCHIVE = "results.tar.gz"

#: Milliseconds a frame that a first measurement was expected to take, median of 57 games: the
#: prediction, and what it leaves out (docs/gpu_design.md).
EXPECTED_MS = {1200: (0.36, 0.65), 4096: (1.2, 2.2), 32768: (5.0, 10.0)}

#: Columns of the profile by title: metrics of Nsight Compute.
PROFILE = {
    "ms": "gpu__time_duration.sum",
    "active lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "issue slots busy, %": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "stalled on fetch": "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "L1 hits, %": "l1tex__t_sector_hit_rate.pct",
    "L2 hits, %": "lts__t_sector_hit_rate.pct",
    "local loads that hit, %": "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct",
}

#: Factors of milliseconds by the unit of a duration.
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}

Json = dict[str, Any]
Row = Sequence[object]


class Results:
    """The files of an archive, by name."""

    def __init__(self, folder: Path) -> None:
        """Read the archive of a folder."""
        self._texts: dict[str, str] = {}
        with tarfile.open(folder / ARCHIVE) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                if file is not None:
                    name = member.name.partition("/")[2]
                    self._texts[name] = file.read().decode(errors="replace")

    def text(self, name: str) -> str:
        """A file; empty if it is missing."""
        return self._texts.get(name, "")

    def json(self, name: str) -> Json:
        """A JSON object; empty if it is missing or was being written."""
        try:
            value: Json = json.loads(self.text(name))
        except json.JSONDecodeError:
            return {}
        return value

    def matching(self, prefix: str, suffix: str) -> list[str]:
        """Names of files that begin and end so, in order."""
        return sorted(
            name for name in self._texts if name.startswith(prefix) and name.endswith(suffix)
        )


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown; empty without rows."""
    cells = [head, ["---"] * len(head), *rows]
    lines = ["| " + " | ".join(map(str, row)) + " |\n" for row in cells]
    return "".join(lines) if len(lines) > 2 else ""


def number(value: object, digits: int = 2) -> str:
    """A number with separators, or "-"."""
    return f"{value:,.{digits}f}" if isinstance(value, (int, float)) else "-"


def predictions() -> dict[tuple[str, str, int], Json]:
    """Rows of the model of a step by game, kernel and number of environments."""
    rows = json.loads((RESULTS / "step_model.json").read_text())["rows"]
    return {(row["game"], row["kernel"], row["num_envs"]): row for row in rows}


def measured_cells(results: Results, name: str) -> list[Json]:
    """Cells of a record of `throughput` with a figure."""
    return [cell for cell in results.json(name).get("cells", []) if "frames_per_s" in cell]


def of_run(results: Results) -> Iterator[str]:
    """Tell what ran, where, and how it ended."""
    summary = results.json("summary.json")
    if not summary:
        yield "The summary is missing.\n"
        return
    device, kit = summary["device"], summary["kit"]
    origin = f"a kit made with NVRTC {kit['nvrtc']}" if isinstance(kit, dict) else kit
    yield (
        f"{device['name']}, driver {device['driver']}, torch {summary['torch']}; commit "
        f"{summary['commit']}; {origin}; {summary['seconds']:.0f} of {summary['budget_s']:.0f} s; "
        f"{summary['status']}{', a dry run on the mock device' if summary['dry_run'] else ''}\n"
    )
    yield table(
        ("line", "status", "seconds", "commands that did not end well"),
        [
            (
                line["name"],
                line["status"],
                number(line["seconds"], 0),
                ", ".join(c["name"] for c in line["commands"] if c["status"] != "ok") or "-",
            )
            for line in summary["lines"]
        ],
    )
    for line in summary["lines"]:
        for command in line["commands"]:
            if command["status"] != "ok":
                words = command.get("last_words", "").strip()
                yield f"{command['name']} ({command['status']}):\n\n```\n{words}\n```\n"


def of_equality(results: Results) -> Iterator[str]:
    """Comparisons with the CPU."""
    rows: list[Row] = []
    for name in results.matching("equal-", ".json"):
        record = results.json(name)
        for batch in record.get("batches", []):
            kernel = batch.get("kernel", {})
            games = batch["games"]
            first = next(iter(batch.get("differences", {}).items()), None)
            result = batch.get("error") or (f"differs: {first}" if first else "equal")
            what = games[0] if len(games) == 1 else f"{len(games)} games"
            count = len(games) * record["envs_per_game"]
            lanes = kernel.get("lanes_per_warp", "-")
            rows.append((kernel.get("name", name), lanes, what, count, batch["steps"], result))
    head = ("kernel", "lanes", "games", "environments", "steps", "against the CPU")
    yield table(head, rows)


def of_speed(results: Results) -> Iterator[str]:
    """Frames per second by game, beside the prediction."""
    model = predictions()
    for name in results.matching("fps-", ".json"):
        rows: list[Row] = []
        by_size: dict[tuple[str, int], list[tuple[float, float | None]]] = {}
        for cell in measured_cells(results, name):
            kernel, num_envs = cell["kernel"], cell["num_envs"]
            row = model.get((cell["game"], kernel["name"], num_envs))
            predicted = row["step_ms"] / 4 if row else None
            by_size.setdefault((kernel["name"], num_envs), []).append((cell["frame_ms"], predicted))
            ratio = cell["frame_ms"] / predicted if predicted else None
            lanes = f"{kernel['name']}, {kernel['lanes_per_warp']} lanes"
            rate = number(cell["frames_per_s"] / 1e6)
            measured = number(cell["frame_ms"], 3)
            rows.append(
                (cell["game"], num_envs, lanes, rate, measured, number(predicted, 3), number(ratio))
            )
        head = ("game", "environments", "kernel", "M frames/s", "ms a frame", "predicted", "ratio")
        if rows:
            yield f"{name}: frames per second\n\n" + table(head, rows)
            yield f"{name}: medians over games\n\n" + _medians(by_size)
        without = [c for c in results.json(name).get("cells", []) if "error" in c]
        causes = [(c["game"], c["num_envs"], c["error"]) for c in without]
        yield table(("game", "environments", "no figure, because"), causes)


def _medians(by_size: dict[tuple[str, int], list[tuple[float, float | None]]]) -> str:
    rows: list[Row] = []
    for (kernel, num_envs), pairs in by_size.items():
        measured = statistics.median(pair[0] for pair in pairs)
        known = [predicted for _, predicted in pairs if predicted is not None]
        low, high = EXPECTED_MS.get(num_envs, (None, None))
        expected = f"{low} to {high}" if low and kernel == "compiled" else "-"
        predicted = number(statistics.median(known), 3) if known else "-"
        rate = number(num_envs / measured / 1e3)
        rows.append((kernel, num_envs, len(pairs), rate, number(measured, 3), predicted, expected))
    head = ("kernel", "environments", "games", "M frames/s", "ms a frame", "predicted", "expected")
    return table(head, rows)


def of_jaxtari(results: Results) -> Iterator[str]:
    """Frames per second beside those that JAXtari's authors have published."""
    lines = (RESULTS / "jaxtari_throughput.csv").read_text().splitlines()
    theirs = {row["game"]: row for row in csv.DictReader(x for x in lines if x[:1] != "#")}
    rows: list[Row] = []
    for cell in measured_cells(results, "jaxtari-constant.json"):
        published = theirs.get(cell["game"], {}).get(f"pixels_{cell['num_envs']}")
        rate = cell["frames_per_s"] / 1e3
        ratio = number(rate / float(published)) if published else "-"
        rows.append((cell["game"], cell["num_envs"], number(rate, 0), published or "-", ratio))
    if rows:
        head = ("game", "environments", "cule, k frames/s", "JAXtari, k frames/s", "ratio")
        yield "The games of JAXtari, constant actions\n\n" + table(head, rows)


def of_profile(results: Results) -> Iterator[str]:
    """Tabulate what the profiler says of each kernel."""
    rows: list[Row] = []
    for name in results.matching("profile-", ".csv"):
        lines = [line for line in results.text(name).splitlines() if line.startswith('"')]
        units, *launches = list(csv.DictReader(lines)) or [{}]
        for launch in launches:
            values = []
            for title, metric in PROFILE.items():
                text = (launch.get(metric) or "").replace(",", "")
                value = float(text) if text else None
                if value is not None and title == "ms":
                    value *= _MS.get(units.get(metric) or "ns", 1e-6)
                values.append(number(value, 3 if title == "ms" else 1))
            rows.append((name[8:-4], launch.get("Kernel Name", "-"), *values))
    yield table(("run", "kernel", *PROFILE), rows)


def of_training(results: Results) -> Iterator[str]:
    """Rates of training, and the way of pong's score."""
    rows: list[Row] = []
    for name in results.matching("training-rates/records/", ".json"):
        record = results.json(name)
        for run, content in record.get("runs", {}).items():
            rate = content["frames_per_s"]["median"]
            rows.append((name.rpartition("/")[2][:-5], run, number(rate, 0)))
    yield table(("cell", "training", "frames/s"), rows)
    evaluations = list(csv.DictReader(results.text("pong/evaluations.csv").splitlines()))
    if evaluations:
        names = list(evaluations[0])
        yield "Evaluations of the training\n\n" + table(names, [[*r.values()] for r in evaluations])
    progress = results.text("pong/progress.jsonl").splitlines()
    if progress:
        yield f"Its last row of progress: `{progress[-1]}`\n"


def of_cpu(results: Results) -> Iterator[str]:
    """The CPU back end and ale-py by number of threads."""
    rows: list[Row] = []
    for name in results.matching("cpu-", ".json"):
        record = results.json(name)
        if "/records/" not in name or "runs" not in record:
            continue
        rates = {run: content["frames_per_s"]["median"] for run, content in record["runs"].items()}
        ours, ale = rates.get("cule-cpu"), rates.get("ale")
        cell = f"{name.partition('/')[0][4:]} threads, {name.rpartition('/')[2][:-5]}"
        ratio = number(ours / ale) if ours and ale else "-"
        rows.append((cell, number(ours, 0), number(ale, 0), ratio))
    yield table(("cell", "cule, frames/s", "ale-py, frames/s", "ratio"), rows)


#: Sections of the report.
SECTIONS = {
    "Run": of_run,
    "Equality": of_equality,
    "Speed": of_speed,
    "JAXtari": of_jaxtari,
    "Profile": of_profile,
    "Training": of_training,
    "CPU": of_cpu,
}


def report(folder: Path) -> str:
    """All sections for which the archive has results."""
    results = Results(folder)
    texts: list[str] = []
    for title, section in SECTIONS.items():
        parts = [part for part in section(results) if part]
        if parts:
            texts += [f"## {title}\n", *parts]
    return "\n".join(texts)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="with results.tar.gz")
    print(report(parser.parse_args().folder))


if __name__ == "__main__":
    main()
