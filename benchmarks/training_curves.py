"""Puts finished training runs on record, and draws their curves.

Of each run's folder it copies the options, the rows of evaluation and of progress (steps, episode
return, seconds) into `benchmarks/results/NAME/`, and draws mean test scores over steps and over
hours into `benchmarks/results/FIGURE.svg`.

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
    """Rows of a CSV file, each step once: the last of a run that was resumed."""
    with path.open(newline="") as file:
        rows = {row["steps"]: row for row in csv.DictReader(file)}
    return list(rows.values())


def write_rows(path: Path, rows: list[dict[str, str]], columns: tuple[str, ...]) -> None:
    """Some columns of rows, numbers shortened."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([f"{float(v):.6g}" if "." in (v := row[c]) else v for c in columns])


def keep(run: Path) -> tuple[str, list[dict[str, str]]]:
    """Copies what is to be kept of a run; its name and its evaluations."""
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
    """Mean test scores, their deviation shaded, over steps and over hours; a goal is dashed."""
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
    """Keep and draw the runs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figure", help="name of the picture")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--title", required=True)
    parser.add_argument("--goal", type=float, help="a score to draw a dashed line at")
    options = parser.parse_args()
    path = RESULTS / f"{options.figure}.svg"
    draw(path, options.title, options.goal, [keep(run) for run in options.runs])


if __name__ == "__main__":
    main()
