"""Scores against people, and aggregates over games."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from cule.agents.run import scores
from cule.errors import InvalidArgumentError
from cule.games import list_games


def test_reference_scores_are_complete() -> None:
    known = scores.reference_scores()
    assert len(known) == 57
    assert set(known) <= set(list_games())
    for game, (random, human, record) in known.items():
        assert human > random, game
        assert scores.human_normalized(game, human) == pytest.approx(1.0)
        assert scores.human_normalized(game, random) == pytest.approx(0.0)
        assert (record is None) == (game == "surround")
        if record is not None:
            assert record > human, game
            assert scores.record_normalized(game, record) == pytest.approx(1.0)
            assert scores.record_normalized(game, random) == pytest.approx(0.0)
    assert known["pong"] == (-20.7, 14.6, 21.0)
    assert scores.record_normalized("surround", 1.0) is None
    assert scores.record_normalized("adventure", 1.0) is None
    with pytest.raises(InvalidArgumentError, match="human score"):
        scores.human_normalized("adventure", 1.0)


def test_interquartile_mean() -> None:
    assert scores.interquartile_mean([1, 2, 3, 4, 5, 6, 7, 8]) == 4.5
    assert scores.interquartile_mean([8, 1, 100, 5, 4, 6, 3, -50]) == 4.5
    # Of five, a quarter is 1.25, of seven 1.75: one score of either end is left out.
    assert scores.interquartile_mean([9, 0, 1, 2, 4]) == pytest.approx((1 + 2 + 4) / 3)
    assert scores.interquartile_mean([0, 1, 2, 4, 9, 9, 90]) == pytest.approx(
        (1 + 2 + 4 + 9 + 9) / 5
    )
    assert scores.interquartile_mean([1, 3, 8]) == pytest.approx(4.0)
    assert scores.interquartile_mean([3.0]) == 3.0
    with pytest.raises(InvalidArgumentError, match="scores"):
        scores.interquartile_mean([])


def test_aggregates() -> None:
    runs = {"pong": [1.0, 2.0, 3.0], "breakout": [0.0, 0.5, 1.0], "qbert": [4.0, 4.0, 4.0]}
    result = scores.aggregate(runs, resamples=500)
    assert result["median"].value == 2.0
    assert result["iqm"].value == pytest.approx(
        scores.interquartile_mean(np.concatenate(list(map(np.array, runs.values()))))
    )
    assert result["optimality_gap"].value == pytest.approx(1.5 / 9)
    for value, low, high in result.values():
        assert low <= value <= high
    assert result == scores.aggregate(runs, resamples=500)
    with pytest.raises(InvalidArgumentError, match="scores"):
        scores.aggregate({"pong": []})


def test_atari5() -> None:
    # DQN of Mnih et al. 2015, as in the data set of Atari-5, has 89.9 % in the code of its authors,
    # whose random score in double_dunk is -18.55 instead of -18.6.
    dqn = {
        "battle_zone": 29900.0,
        "double_dunk": -6.6,
        "name_this_game": 8207.8,
        "phoenix": 8485.2,
        "qbert": 13117.3,
    }
    shares = {game: scores.human_normalized(game, score) for game, score in dqn.items()}
    assert scores.atari5(shares) == pytest.approx(0.899, abs=0.002)
    assert scores.atari5(dict.fromkeys(dqn, 0.0)) == scores.atari5(dict.fromkeys(dqn, -0.5)) == 0.0
    # As 101 to the sum of the coefficients, which is 0.9653.
    assert scores.atari5(dict.fromkeys(dqn, 1.0)) == pytest.approx((101**0.9653 - 1) / 100)
    runs = {"pong": [0.0, 9.0], **{game: [share, share] for game, share in shares.items()}}
    found = scores.aggregate(runs, resamples=20)["atari5"]
    assert found == pytest.approx((scores.atari5(shares),) * 3)
    del shares["qbert"], runs["qbert"]
    with pytest.raises(InvalidArgumentError, match="Atari-5 also needs qbert"):
        scores.atari5(shares)
    assert "atari5" not in scores.aggregate(runs, resamples=2)


def test_bootstrap_interval_has_the_width_of_theory() -> None:
    # The mean of 100 normal runs of one game: a 95 % interval of about 2 x 1.96 x 0.1. The
    # interquartile mean is a little wider.
    runs = np.random.default_rng(0).normal(size=100)
    _, low, high = scores.aggregate({"pong": list(runs)}, resamples=2000)["iqm"]
    assert 0.3 < high - low < 0.6


def test_resampling_is_stratified() -> None:
    # One run a game: nothing to draw, so no spread.
    result = scores.aggregate({"pong": [1.0], "qbert": [5.0]}, resamples=50)
    assert result["median"] == (3.0, 3.0, 3.0)
