"""Records finished training runs and draws their curves.

Copies the options, evaluations and progress (steps, episode return, seconds) of each run's folder
to `benchmarks/results/NAME/`, and draws mean test scores over steps and over hours to
`benchmarks/results/FIGURE.svg`.

    python benchmarks/training_curves.py pong-cpu RUN [RUN ...] --title Pong --goal 18
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

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


def record(run: Path) -> tuple[str, list[dict[str, str]]]:
    """Copy the files of a run; return its name and its evaluations."""
    folder = RESULTS / run.name
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((run / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_rows(folder / "progress.csv", read_rows(run / "progress.csv"), PROGRESS_COLUMNS)
    evaluations = read_rows(run / "evaluations.csv")
    write_rows(folder / "evaluations.csv", evaluations, tuple(evaluations[0]))
    return run.name, evaluations


def draw(
    path: Path, title: str, goal: float | None, runs: list[tuple[str, list[dict[str, str]]]]
) -> None:
    """Draw mean test scores, with shaded deviation and dashed goal, over steps and over hours."""
    mpl.rcParams["svg.hashsalt"] = "cule"
    mpl.rcParams["svg.fonttype"] = "none"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for name, rows in runs:
        mean = [float(row["mean"]) for row in rows]
        low = [float(row["mean"]) - float(row["std"]) for row in rows]
        high = [float(row["mean"]) + float(row["std"]) for row in rows]
        times = (
            [float(row["steps"]) / 1e6 for row in rows],
            [float(row["train_s"]) / 3600 for row in rows],
        )
        for axis, x in zip(axes, times, strict=True):
            axis.plot(x, mean, marker=".", label=name)
            axis.fill_between(x, low, high, alpha=0.15)
    for axis, text in zip(axes, ("agent steps, millions (x 4 frames)", "hours"), strict=True):
        if goal is not None:
            axis.axhline(goal, color="grey", linewidth=0.8, linestyle="--")
        axis.set_xlabel(text)
    axes[0].set_ylabel("test score: mean of 20 episodes")
    axes[0].legend(loc="lower right")
    figure.suptitle(title)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Record and draw the runs of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figure", help="name of the figure")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--title", required=True)
    parser.add_argument("--goal", type=float, help="score of the dashed line")
    options = parser.parse_args()
    path = RESULTS / f"{options.figure}.svg"
    draw(path, options.title, options.goal, [record(run) for run in options.runs])


if __name__ == "__main__":
    main()
