"""The results of a sweep in one folder: CSV files, a LaTeX table and pictures.

Scores are the means of the evaluations at the end of training; those at milestones, of the training
itself, are reported as in Machado et al. 2018. Aggregates, performance profiles and
intervals are those of Agarwal et al. 2021 ("Deep reinforcement learning at the edge of the
statistical precipice") over human-normalized scores, with a stratified bootstrap over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cule.agents.run.curves import (
    COLOURS,
    Curve,
    draw_curve,
    numbers,
    plot_curves,
    read_curves,
    save_figure,
    write_csv,
    write_table,
)
from cule.agents.run.scores import (
    Interval,
    aggregate,
    human_normalized,
    performance_profile,
    record_normalized,
    reference_scores,
)
from cule.agents.sweeps.runs import SWEEP_FILE, Plan, SweepRun, read_plan
from cule.errors import CheckpointError, InvalidArgumentError, shown
from cule.files import replace_text

#: Human-normalized scores at which the performance profile is computed.
THRESHOLDS = tuple(np.round(np.linspace(0.0, 8.0, 81), 3).tolist())

#: Emulated frames at which Machado et al. 2018 report the score of training.
MILESTONES = (10_000_000, 50_000_000, 100_000_000, 200_000_000)

#: Aggregates in the order of tables, and their names there.
AGGREGATES = {
    "median": "human-normalized median",
    "iqm": "human-normalized IQM",
    "mean": "human-normalized mean",
    "optimality_gap": "optimality gap",
    "atari5": "Atari-5",
}


class GameScores(NamedTuple):
    """Scores of the seeds of a game."""

    game: str
    scores: list[float]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float:
        """Sample standard deviation over seeds; NaN for one."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else math.nan

    @property
    def normalized(self) -> list[float] | None:
        """Human-normalized scores; None for a game without human scores."""
        if self.game not in reference_scores():
            return None
        return [human_normalized(self.game, score) for score in self.scores]


class Results(NamedTuple):
    """Results of the complete runs of a sweep."""

    plan: Plan
    games: list[GameScores]
    aggregates: Mapping[str, Interval]
    profile: Sequence[Interval]
    curves: Sequence[Curve]
    points: Mapping[str, Mapping[int, Interval]]
    """Points of the curves, by their labels."""

    milestones: Mapping[int, list[GameScores]]
    """Scores of training by emulated frames, of the runs that came that far."""

    damaged: Mapping[SweepRun, str]
    """What is wrong with the files of runs that are left out."""

    @property
    def num_runs(self) -> int:
        """Complete runs."""
        return sum(len(game.scores) for game in self.games)


def read_results(folder: Path) -> Results:
    """Read the complete runs of a sweep.

    Runs whose files are damaged are left out of what these files tell, and named in the results.

    Raises:
        InvalidArgumentError: The folder holds no sweep, or no complete run.
        CheckpointError: Those that are complete are damaged.
    """
    plan = read_plan(folder)
    damaged: dict[SweepRun, str] = {}

    def scores_of(score: Callable[[SweepRun], float | None]) -> dict[SweepRun, float | None]:
        found: dict[SweepRun, float | None] = {}
        for run in plan.runs(folder):
            try:
                found[run] = score(run)
            except CheckpointError as error:
                damaged.setdefault(run, str(error))
        return found

    def final_score(run: SweepRun) -> float | None:
        score = run.final_score(plan)
        if score is not None:
            read_curves([run.folder])
        return score

    finals = scores_of(final_score)
    games = _by_game(plan, finals)
    if not games:
        if damaged:
            raise CheckpointError("; ".join(damaged.values()))
        raise InvalidArgumentError(f"{folder} holds a sweep without a complete run")
    normalized = {game.game: game.normalized for game in games}
    known = {name: scores for name, scores in normalized.items() if scores is not None}
    curves = read_curves([run.folder for run, score in finals.items() if score is not None])
    return Results(
        plan,
        games,
        aggregate(known) if known else {},
        performance_profile(known, THRESHOLDS) if known else [],
        curves,
        {curve.label: curve.points() for curve in curves},
        {
            frames: _by_game(plan, scores_of(partial(SweepRun.training_score, frames=frames)))
            for frames in MILESTONES
        },
        damaged,
    )


def _by_game(plan: Plan, scores: Mapping[SweepRun, float | None]) -> list[GameScores]:
    """The scores of runs, without those that have none, in the order of games."""
    found = {
        game: [score for run, score in scores.items() if run.game == game and score is not None]
        for game in plan.games
    }
    return [GameScores(game, each) for game, each in found.items() if each]


def write_report(folder: Path) -> Results:
    """Write the folder ``results`` of a sweep, all but pictures, and print the aggregates.

    Raises:
        InvalidArgumentError, CheckpointError: As `read_results`.
    """
    results, out = read_results(folder), folder / "results"
    out.mkdir(exist_ok=True)
    write_csv(out / "scores.csv", SCORE_COLUMNS, _score_rows(results.games))
    write_csv(
        out / "aggregates.csv",
        ("aggregate", "value", "low", "high"),
        ((name, *numbers(found)) for name, found in results.aggregates.items()),
    )
    write_csv(
        out / "profile.csv",
        ("threshold", "share_above", "low", "high"),
        (
            (f"{t:g}", *numbers(found))
            for t, found in zip(THRESHOLDS, results.profile, strict=False)
        ),
    )
    write_csv(
        out / "milestones.csv",
        ("frames", *SCORE_COLUMNS),
        (
            (frames, *row)
            for frames, games in results.milestones.items()
            for row in _score_rows(games)
        ),
    )
    write_table(out / "curves.csv", results.curves, results.points)
    replace_text(out / "table.tex", latex_table(results))
    print(summary(results))
    return results


SCORE_COLUMNS = (
    *("game", "seeds", "mean", "std", "human_normalized", "random", "human"),
    *("record_normalized", "record"),
)


def _score_rows(games: Iterable[GameScores]) -> Iterable[tuple[object, ...]]:
    for game in games:
        random, human, record = reference_scores().get(game.game, ("", "", None))
        shown, of_record = game.normalized, record_normalized(game.game, game.mean)
        yield (
            game.game,
            len(game.scores),
            *numbers((game.mean, game.deviation)),
            "" if shown is None else f"{np.mean(shown):.6g}",
            random,
            human,
            "" if of_record is None else f"{of_record:.6g}",
            "" if record is None else record,
        )


def latex_table(results: Results) -> str:
    """A LaTeX table with a row for each game, and the aggregates below; needs booktabs."""
    plan = results.plan
    lines = [
        f"% {plan.preset}, {results.num_runs} runs of {plan.total_steps} steps",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"game & random & human & score & human-normalized \\",
        r"\midrule",
    ]
    for game in results.games:
        name = game.game.replace("_", r"\_")
        random, human, _ = reference_scores().get(game.game, ("--", "--", None))
        spread = "" if math.isnan(game.deviation) else rf" $\pm$ {game.deviation:.1f}"
        shown = game.normalized
        share = "--" if shown is None else rf"{100 * float(np.mean(shown)):.0f}\,\%"
        lines.append(rf"{name} & {random} & {human} & {game.mean:.1f}{spread} & {share} \\")
    lines.append(r"\midrule")
    for key, name in AGGREGATES.items():
        if key in results.aggregates:
            value, low, high = results.aggregates[key]
            lines.append(rf"{name} & & & & {value:.3f} [{low:.3f}, {high:.3f}] \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def summary(results: Results) -> str:
    """The aggregates as lines."""
    lines = [f"{results.plan.preset}: {results.num_runs} runs in {len(results.games)} games"]
    for key, name in AGGREGATES.items():
        if key in results.aggregates:
            value, low, high = results.aggregates[key]
            lines.append(f"  {name:<24} {value:8.3f}  [{low:.3f}, {high:.3f}]")
    for frames, games in results.milestones.items():
        means = [float(np.mean(game.normalized)) for game in games if game.normalized is not None]
        if means:
            name = f"median at {frames // 1_000_000} M frames"
            lines.append(f"  {name:<24} {np.median(means):8.3f}  of training, {len(means)} games")
    lines += [f"  left out: {text}" for text in results.damaged.values()]
    return "\n".join(lines)


# --- Pictures -------------------------------------------------------------------------------------


def draw_pictures(folder: Path, results: Results) -> None:
    """Draw the pictures in the folder ``results`` of a sweep.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    draw_curves(folder / "results" / "curves.svg", results)
    if results.profile:
        draw_profile(folder / "results" / "profile.svg", results)


def draw_curves(path: Path, results: Results) -> None:
    """Draw the learning curve of every game, with its runs and the human score."""
    columns = min(len(results.curves), 6)
    rows = -(-len(results.curves) // columns)
    with save_figure(path, (2.4 * columns, 1.9 * rows)) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axis in axes:
            axis.set_visible(False)
        for axis, curve in zip(axes, results.curves, strict=False):
            axis.set_visible(True)
            game = curve.game
            draw_curve(axis, curve, results.points[curve.label], COLOURS[0], game)
            if game in reference_scores():
                axis.axhline(reference_scores()[game].human, color="grey", lw=0.7, ls="--")
            axis.set_title(game, fontsize=8)
            axis.tick_params(labelsize=6)
        figure.supxlabel("emulated frames, millions", fontsize=8)


def draw_profile(path: Path, results: Results) -> None:
    """Draw the share of runs with a human-normalized score above each threshold."""
    values, lows, highs = (list(column) for column in zip(*results.profile, strict=True))
    with save_figure(path, (4.8, 3.2)) as figure:
        axis: Any = figure.subplots()
        axis.plot(THRESHOLDS, values, color=COLOURS[0], lw=1.5, label=results.plan.preset)
        axis.fill_between(THRESHOLDS, lows, highs, color=COLOURS[0], alpha=0.2, lw=0)
        axis.axvline(1.0, color="grey", lw=0.7, ls="--")
        axis.set_xlabel("human-normalized score")
        axis.set_ylabel("share of runs above")
        axis.set_ylim(0.0, 1.02)
        axis.legend(loc="best", frameon=False)


def plot(words: Sequence[str]) -> int:
    """Run ``cule plot``: the results of a sweep again, or curves of runs."""
    if len(words) == 1 and (Path(words[0]) / SWEEP_FILE).is_file():
        results = write_report(Path(words[0]))
        draw_pictures(Path(words[0]), results)
        print(f"written: {Path(words[0]) / 'results'}")
        return 1 if results.damaged else 0
    for word in words:
        if (Path(word) / SWEEP_FILE).is_file():
            raise InvalidArgumentError(
                f"RUN is {shown(word)}, which holds a sweep; cule plot takes it alone, without "
                "options or other runs"
            )
    return plot_curves(words)
