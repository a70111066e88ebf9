"""Learning curves of runs: read from their folders, joined by game and preset, drawn.

A curve has, at each step that all of its runs were evaluated at, the interquartile mean of their
scores (the mean, below four runs) with its 95 % bootstrap interval over runs.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cule.agents.run.folders import CONFIG_FILE, read_config, read_rows
from cule.agents.run.scores import Interval, aggregate
from cule.errors import CheckpointError, InvalidArgumentError, shown
from cule.familiar_names import Parser
from cule.files import check_writable, replace_bytes, replace_text
from cule.lazy import needs
from cule.option_fields import parse_options, positional, validate

#: Colours of curves, in order.
COLOURS = ("#0b5fa5", "#d1495b", "#5aa02c", "#e09f3e", "#7d5ba6", "#777777")

#: Files of a run: returns of training, and scores of tests.
TABLES = ("progress.csv", "evaluations.csv")

#: Formats of pictures.
PICTURES = (".svg", ".png", ".pdf")

#: Panels side by side.
MOST_COLUMNS = 3


@dataclass(frozen=True)
class Curve:
    """Tests, or training returns, of the runs of one preset in one game."""

    game: str
    preset: str

    frameskip: int
    """Emulated frames per step."""

    scores: Mapping[str, Mapping[int, float]]
    """Mean scores by steps, by folder of a run."""

    @property
    def label(self) -> str:
        """Game and preset."""
        return f"{self.game} {self.preset}"

    def points(self) -> dict[int, Interval]:
        """Interquartile mean and interval at the steps that all runs have."""
        shared = set.intersection(*(set(scores) for scores in self.scores.values()))
        return {
            step: aggregate({self.label: [scores[step] for scores in self.scores.values()]})["iqm"]
            for step in sorted(shared)
        }


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Folders of runs, and those in folders of runs, as with ``cule train --seeds``."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(file.parent for file in path.glob(f"*/{CONFIG_FILE}"))
        if not (path / CONFIG_FILE).exists() and not inside:
            raise InvalidArgumentError(f"RUN is {shown(str(path))}; it must be the folder of a run")
        found += [path] if (path / CONFIG_FILE).exists() else inside
    return found


def read_curves(runs: Sequence[Path], *, returns: bool = False) -> list[Curve]:
    """The curves of runs, joined by game and preset: scores of tests, or returns of training."""
    table, column = (TABLES[0], "episode_return") if returns else (TABLES[1], "mean")
    joined: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    frameskips: dict[tuple[str, str], int] = {}
    for run in runs:
        config = read_config(run) or {}
        game, frameskip = config.get("game"), config.get("frameskip")
        if not isinstance(game, str) or not isinstance(frameskip, int):
            raise CheckpointError(f"{run / CONFIG_FILE} does not hold the options of a run")
        kind = game, str(config.get("preset", config["algorithm"]))
        scores = _scores(run / table, column)
        if not scores:
            raise InvalidArgumentError(
                f"{run} has no episode that ended"
                if returns
                else f"{run} has no evaluations; train with --eval-every to have them"
            )
        joined.setdefault(kind, {})[str(run.resolve())] = scores  # once, under any name
        if frameskips.setdefault(kind, frameskip) != frameskip:
            raise InvalidArgumentError(
                f"{run} has frameskip {frameskip}, and another run of {' '.join(kind)} "
                f"{frameskips[kind]}; one curve needs runs of one frameskip"
            )
    return [Curve(*kind, frameskips[kind], scores) for kind, scores in joined.items()]


def _scores(path: Path, column: str) -> dict[int, float]:
    """Scores of a table by steps, without those that are no numbers yet.

    Raises:
        CheckpointError: It does not hold rows of a run.
    """
    rows = read_rows(path)
    try:
        pairs = [(int(row["steps"]), float(row[column])) for row in rows]
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{path} does not hold rows of a run: {error}") from None
    return {steps: score for steps, score in pairs if not math.isnan(score)}


@dataclass(frozen=True, kw_only=True)
class PlotOptions:
    """Options of ``cule plot``."""

    runs: tuple[Path, ...] = positional("RUN", ())
    """Folders of runs, or of several runs."""

    out: Path = Path("curves.svg")
    """Picture: NAME.svg, .png or .pdf."""

    goal: float | None = None
    """Score of a dashed line."""

    returns: bool = False
    """Draw the mean returns of training episodes, in place of the scores of tests."""

    def __post_init__(self) -> None:
        """Validate the options."""
        validate(self)


def plot_curves(words: Sequence[str]) -> int:
    """Run ``cule plot RUN...``: a table of the last scores, a CSV file and a picture."""
    parser = Parser(
        prog="cule plot",
        description="Learning curves of runs: interquartile mean over seeds with intervals.",
    )
    options = parse_options(parser, PlotOptions, words)
    if options.out.suffix not in PICTURES:
        allowed = "NAME.svg, NAME.png or NAME.pdf"
        raise InvalidArgumentError(f"out is {shown(str(options.out))}; it must be {allowed}")
    table = options.out.with_suffix(".csv")
    if table.name in TABLES and (table.parent / CONFIG_FILE).exists():
        raise InvalidArgumentError(
            f"out is {shown(str(options.out))}, and {table} has the rows of a run; it must have "
            "another name"
        )
    check_writable(options.out)
    curves = read_curves(find_runs(options.runs), returns=options.returns)
    points = {curve.label: curve.points() for curve in curves}
    _print_table(curves, points)
    write_table(table, curves, points)
    print(f"written: {table}")
    draw(options.out, curves, points, options.goal, "return" if options.returns else "test score")
    print(f"written: {options.out}")
    return 0


def _print_table(curves: Sequence[Curve], points: Mapping[str, Mapping[int, Interval]]) -> None:
    print(f"{'':<28} {'runs':>4} {'frames':>12} {'IQM':>9}  95 % interval")
    for curve in curves:
        runs, shared = f"{curve.label:<28} {len(curve.scores):>4}", points[curve.label]
        if not shared:
            print(f"{runs} no step that all of them have; their mean is left out")
            continue
        frames, found = max(shared) * curve.frameskip, shared[max(shared)]
        print(f"{runs} {frames:>12,} {found.value:>9.2f}  [{found.low:.2f}, {found.high:.2f}]")


def write_table(
    path: Path, curves: Sequence[Curve], points: Mapping[str, Mapping[int, Interval]]
) -> None:
    """Write the points of curves as a CSV file."""
    rows = [
        (curve.label, len(curve.scores), step, step * curve.frameskip, *numbers(found))
        for curve in curves
        for step, found in points[curve.label].items()
    ]
    write_csv(path, ("curve", "runs", "steps", "frames", "iqm", "low", "high"), rows)


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    replace_text(path, text.getvalue())


def numbers(values: Iterable[float]) -> list[str]:
    """Numbers of a table; NaN is left out."""
    return ["" if math.isnan(value) else f"{value:.6g}" for value in values]


@contextlib.contextmanager
def save_figure(path: Path, inches: tuple[float, float]) -> Iterator[Any]:
    """Yield a figure of matplotlib, and save it: the same bytes each time.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    with needs("cule[bench]"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "cule", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=inches, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        dated = {".svg": "Date", ".pdf": "CreationDate"}
        metadata = {dated[path.suffix]: None} if path.suffix in dated else None
        picture = io.BytesIO()
        figure.savefig(picture, format=path.suffix.removeprefix("."), metadata=metadata)
        replace_bytes(path, picture.getvalue())


def draw(
    path: Path,
    curves: Sequence[Curve],
    points: Mapping[str, Mapping[int, Interval]],
    goal: float | None = None,
    score: str = "test score",
) -> None:
    """Draw all curves into one picture, with a panel for each game."""
    games = list(dict.fromkeys(curve.game for curve in curves))
    presets = list(dict.fromkeys(curve.preset for curve in curves))
    columns = min(len(games), MOST_COLUMNS)
    rows = -(-len(games) // columns)
    with save_figure(path, (max(6.4, 3.6 * columns), max(4.0, 2.8 * rows))) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in panels[len(games) :]:
            axis.remove()
        for game, axis in zip(games, panels, strict=False):
            for curve in curves:
                if curve.game == game:
                    count = len(curve.scores)
                    label = f"{curve.preset}, {count} run{'s' * (count != 1)}"
                    colour = COLOURS[presets.index(curve.preset) % len(COLOURS)]
                    draw_curve(axis, curve, points[curve.label], colour, label)
            if goal is not None:
                axis.axhline(goal, color="grey", lw=0.8, ls="--")
            axis.set_title(game)
            axis.set_xlabel("emulated frames, millions")
            axis.set_ylabel(score)
            axis.legend(loc="best", frameon=False)


def draw_curve(
    axis: Any, curve: Curve, shared: Mapping[int, Interval], colour: str, label: str
) -> None:
    """Draw each run thinly, and interquartile means with intervals."""
    for scores in curve.scores.values():
        steps = sorted(scores)
        frames = [step * curve.frameskip / 1e6 for step in steps]
        axis.plot(frames, [scores[s] for s in steps], color=colour, lw=0.6, alpha=0.5)
    frames = [step * curve.frameskip / 1e6 for step in shared]
    means, lows, highs = ([found[k] for found in shared.values()] for k in range(3))
    axis.plot(frames, means, color=colour, lw=2.0, marker=".", label=label)
    axis.fill_between(frames, lows, highs, color=colour, alpha=0.15, lw=0)
