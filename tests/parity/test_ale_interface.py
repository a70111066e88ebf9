"""`cule.ALEInterface` against `ale_py.ALEInterface`, every game, live and frame by frame.

The same seed, the same random legal actions, resets at game over. After every frame RAM, reward,
lives, flags and counters are compared; every seventh time the screen, now and then in colour and in
gray as well. Short runs of some cases are in the default selection; those of the others are
marked `long`, and long ones `slow`.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from cule.games import load_games
from tests.support.ale_pair import Pair
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

GAMES = sorted(load_games())
STICKY = (0.0, 0.25)
SHORT_FRAMES = 150
LONG_FRAMES = 6000
LONG_SEEDS = (1, 2, 3)
MODE_FRAMES = 300
SHORT_MODE_FRAMES = 30
MODES_IN_SHORT = 3  # a game


def generator(*words: object) -> np.random.Generator:
    """A generator of its own for every case."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def other_modes(game: str) -> list[tuple[int, int]]:
    """Every (mode, difficulty) of a game but the one it starts with."""
    rules = load_games()[game]
    return [
        (mode, difficulty)
        for mode in rules.modes
        for difficulty in rules.difficulties
        if (mode, difficulty) != (rules.default_mode, 0)
    ]


GAMES_WITH_MODES = [game for game in GAMES if other_modes(game)]


@pytest.mark.parametrize(
    ("game", "sticky"),
    long_except([(game, sticky) for game in GAMES for sticky in STICKY], every=25),
)
def test_short(game: str, sticky: float) -> None:
    rng = generator(game, sticky)
    seed = int(rng.integers(1000))
    pair = Pair(game, random_seed=seed, repeat_action_probability=sticky)
    pair.play(rng, SHORT_FRAMES, hold=3, reset_every=100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_SEEDS)
@pytest.mark.parametrize("sticky", STICKY)
@pytest.mark.parametrize("game", GAMES)
def test_long(game: str, sticky: float, seed: int) -> None:
    rng = generator(game, sticky, seed)
    pair = Pair(game, random_seed=seed, repeat_action_probability=sticky)
    # One of the runs holds its actions for a while, which leads to other places.
    pair.play(rng, LONG_FRAMES, hold=6 if seed == LONG_SEEDS[-1] else 1)


@pytest.mark.parametrize("game", long_except(GAMES_WITH_MODES, every=18))
def test_modes_short(game: str) -> None:
    """A few modes and difficulties, one after the other on the same console."""
    rng = generator(game)
    modes = other_modes(game)
    pair = Pair(game, random_seed=5, repeat_action_probability=0.25)
    for index in rng.permutation(len(modes))[:MODES_IN_SHORT]:
        mode, difficulty = modes[index]
        pair.both("setMode", mode)
        pair.both("setDifficulty", difficulty)
        pair.reset()
        pair.play(rng, SHORT_MODE_FRAMES, hold=2)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES_WITH_MODES)
def test_modes_long(game: str) -> None:
    """Every mode and difficulty, each on a console that was just switched on."""
    rng = generator(game)
    for number, (mode, difficulty) in enumerate(other_modes(game)):
        pair = Pair(game, random_seed=number, repeat_action_probability=STICKY[number % 2])
        pair.both("setMode", mode)
        pair.both("setDifficulty", difficulty)
        pair.reset()
        pair.play(rng, MODE_FRAMES, hold=1 + number % 3)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES_WITH_MODES)
def test_modes_in_a_row(game: str) -> None:
    """Every mode and difficulty, in any order, on one console."""
    rng = generator(game)
    modes = other_modes(game)
    pair = Pair(game, random_seed=9, repeat_action_probability=0.25)
    for index in rng.permutation(len(modes)):
        mode, difficulty = modes[index]
        pair.both("setMode", mode)
        pair.both("setDifficulty", difficulty)
        pair.reset()
        pair.play(rng, SHORT_MODE_FRAMES)
