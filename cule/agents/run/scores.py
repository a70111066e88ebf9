"""Scores relative to random and human play, and their aggregates over games.

Random and human scores and human world records are in `cule/agents/data/human_scores.csv` (57
games, with sources; no record of surround). Toromanoff, Wirbel and Moutarde 2019 ("Is Deep
Reinforcement Learning Really Superhuman on Atari?") collected the records, which people set on
consoles and emulators, in games of any length.

Atari-5 is Aitchison, Sweetser and Hutter 2023 ("Atari-5: Distilling the Arcade Learning Environment
down to five games"): a regression from the scores in five games to the median of all 57, with a
relative error of about 10 %.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cule.errors import InvalidArgumentError, shown

#: Coefficients of Atari-5 by game (appendix E of the paper). There is no intercept, so that random
#: play has the score 0.
ATARI5 = {
    "battle_zone": 0.3820,
    "double_dunk": 0.0679,
    "name_this_game": 0.3108,
    "phoenix": 0.1241,
    "qbert": 0.0805,
}


#: Scores of the runs of each game.
_Runs: TypeAlias = list[NDArray[np.float64]]


class ReferenceScores(NamedTuple):
    """Mean reference scores of a game."""

    random: float
    """Score of uniformly random actions."""

    human: float
    """Score of a professional game tester."""

    record: float | None
    """Human world record; None if unknown."""


class Interval(NamedTuple):
    """An aggregate and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@functools.cache
def reference_scores() -> Mapping[str, ReferenceScores]:
    """The reference scores by game."""
    text = files("cule.agents").joinpath("data/human_scores.csv").read_text()
    return {
        row["game"]: ReferenceScores(
            float(row["random"]),
            float(row["human"]),
            float(row["record"]) if row["record"] else None,
        )
        for row in csv.DictReader(text.splitlines())
    }


def human_normalized(game: str, score: float) -> float:
    """Return ``(score - random) / (human - random)``."""
    known = reference_scores()
    if game not in known:
        raise InvalidArgumentError(
            f"game is {shown(game)}, which has no human score; it must be one of {', '.join(known)}"
        )
    random, human, _ = known[game]
    return (score - random) / (human - random)


def record_normalized(game: str, score: float) -> float | None:
    """Return ``(score - random) / (record - random)``; None for a game without a record."""
    random, _, record = reference_scores().get(game, ReferenceScores(0.0, 0.0, None))
    return None if record is None else (score - random) / (record - random)


def interquartile_mean(scores: Sequence[float] | NDArray[np.float64]) -> float:
    """Mean without the lowest and the highest quarter, each rounded down.

    As in Agarwal et al. 2021, who use SciPy's ``trim_mean(scores, 0.25)``.
    """
    ordered = np.sort(np.asarray(scores, np.float64).ravel())
    count = len(ordered)
    if count == 0:
        raise InvalidArgumentError("scores is empty; it must hold at least one")
    return float(ordered[count // 4 : count - count // 4].mean())


def optimality_gap(scores: Sequence[float] | NDArray[np.float64], target: float = 1.0) -> float:
    """Mean shortfall below `target`."""
    return float(np.clip(target - np.asarray(scores, np.float64), 0.0, None).mean())


def atari5(scores: Mapping[str, float]) -> float:
    """The median over 57 games that Atari-5 predicts, human-normalized.

    Args:
        scores: Human-normalized scores of at least the five games of `ATARI5`; a score below that
            of random play counts as 0.

    Raises:
        InvalidArgumentError: A game is missing.
    """
    missing = [game for game in ATARI5 if game not in scores]
    if missing:
        raise InvalidArgumentError(
            f"scores holds {shown(list(scores))}; Atari-5 also needs {', '.join(missing)}"
        )
    # The regression is one of percentages.
    logarithms = (w * np.log10(1 + max(100 * scores[game], 0)) for game, w in ATARI5.items())
    return float(10 ** sum(logarithms) - 1) / 100


def aggregate(
    scores: Mapping[str, Sequence[float]], *, resamples: int = 2000, seed: int = 0
) -> dict[str, Interval]:
    """The "median" and "mean" of per-game means, "iqm" and "optimality_gap" of all runs.

    As in Agarwal et al. 2021. Intervals are those of a stratified bootstrap: each resample samples
    runs (seeds) within every game. With the five games of `ATARI5` also "atari5", from their means.
    """
    measures: dict[str, Callable[[_Runs], float]] = {
        "median": lambda sampled: float(np.median([runs.mean() for runs in sampled])),
        "mean": lambda sampled: float(np.mean([runs.mean() for runs in sampled])),
        "iqm": lambda sampled: interquartile_mean(np.concatenate(sampled)),
        "optimality_gap": lambda sampled: optimality_gap(np.concatenate(sampled)),
    }
    if ATARI5.keys() <= scores.keys():
        measures["atari5"] = lambda sampled: atari5(
            {game: float(runs.mean()) for game, runs in zip(scores, sampled, strict=True)}
        )

    def measure(sampled: _Runs) -> list[float]:
        return [each(sampled) for each in measures.values()]

    return dict(zip(measures, _intervals(scores, measure, resamples, seed), strict=True))


def mean_change(
    scores: Sequence[float], before: Sequence[float], *, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of some scores minus that of others, with a bootstrap interval over both."""

    def measure(sampled: _Runs) -> list[float]:
        return [float(sampled[0].mean() - sampled[1].mean())]

    return _intervals({"scores": scores, "before": before}, measure, resamples, seed)[0]


def performance_profile(
    scores: Mapping[str, Sequence[float]],
    thresholds: Sequence[float],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Interval]:
    """The share of runs with a score above each threshold, with intervals as in `aggregate`.

    Every game has the same weight, as in the run-score distributions of Agarwal et al. 2021.
    """
    limits = np.asarray(thresholds, np.float64)

    def shares(sampled: _Runs) -> list[float]:
        above = [(runs[:, None] > limits).mean(0) for runs in sampled]
        return list(np.mean(above, axis=0))

    return _intervals(scores, shares, resamples, seed)


def _intervals(
    scores: Mapping[str, Sequence[float]],
    measure: Callable[[_Runs], list[float]],
    resamples: int,
    seed: int,
) -> list[Interval]:
    """Measures of the runs of every game, with intervals over resamples with replacement."""
    if not scores or not all(len(runs) for runs in scores.values()):
        raise InvalidArgumentError("scores must hold at least one game and one run of each")
    runs_of = [np.asarray(runs, np.float64) for runs in scores.values()]
    random = np.random.default_rng(seed)
    drawn = [
        measure([runs[random.integers(len(runs), size=len(runs))] for runs in runs_of])
        for _ in range(resamples)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [Interval(*map(float, row)) for row in zip(measure(runs_of), low, high, strict=True)]
