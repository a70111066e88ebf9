"""Records finished training runs and draws their curves.

Copies the options, evaluations and progress (steps, episode return, seconds) of each run's folder
to `benchmarks/results/NAME/`; `cule plot` then draws the records to `benchmarks/results/FIGURE.svg`
and writes the points of the curves next to it.

    python benchmarks/training_curves.py pong-cpu RUN [RUN ...] --goal 18
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PROGRESS_COLUMNS = ("steps", "frames", "updates", "episodes", "episode_return", "train_s")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file; of repeated steps of a resumed run, the last."""
    with path.open(newline="") as file:
        rows = {row["steps"]: row for row in csv.DictReader(file)}
    return list(rows.values())


def write_rows(path: Path, rows: list[dict[str, str]], columns: tuple[str, ...]) -> None:
    """Write some columns of rows, with shortened numbers."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([f"{float(v):.6g}" if "." in (v := row[c]) else v for c in columns])


def record(run: Path) -> Path:
    """Copy the files of a run; return the folder of the copies."""
    folder = RESULTS / run.name
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((run / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_rows(folder / "progress.csv", read_rows(run / "progress.csv"), PROGRESS_COLUMNS)
    evaluations = read_rows(run / "evaluations.csv")
    write_rows(folder / "evaluations.csv", evaluations, tuple(evaluations[0]))
    return folder


def main() -> int:
    """Record and draw the runs of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figure", help="name of the figure")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--goal", type=float, help="score of the dashed line")
    options = parser.parse_args()
    words = [*map(record, options.runs), "--out", RESULTS / f"{options.figure}.svg"]
    words += [] if options.goal is None else ["--goal", options.goal]
    command = [sys.executable, "-m", "cule.cli", "plot", *map(str, words)]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
