"""Settings and arguments of `cule.ALEInterface` against `ale_py.ALEInterface`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cule
from tests.parity.test_ale_interface import generator
from tests.support.ale_pair import Pair
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

FRAMES = 120
PADDLE_GAMES = ("pong", "breakout", "kaboom", "casino", "blackjack", "backgammon")
SILENT_GAMES = ("pitfall2", "tetris")

#: Games, and what they are loaded with.
CASES: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("breakout", "boxing", "qbert"), {"frame_skip": 4}),
    (("pong", "freeway"), {"frame_skip": 3, "max_num_frames_per_episode": 50}),
    (("breakout", "seaquest"), {"frame_skip": 0, "max_num_frames_per_episode": 37}),
    (("space_invaders", "montezuma_revenge"), {"truncate_on_loss_of_life": True}),
    (("amidar", "demon_attack", "pong"), {"truncate_on_loss_of_life": True, "frame_skip": 2}),
    (("assault", "pooyan"), {"reward_max": 3, "frame_skip": 8}),
    (("tennis", "skiing"), {"reward_min": -2, "reward_max": 2}),
    (("beam_rider", "demon_attack"), {"reward_min": 1, "reward_max": 1}),
    (("enduro", "elevator_action", "klax"), {"system_random_seed": 12345}),
    (("alien", "darkchambers"), {"system_random_seed": -7, "random_seed": -2}),
    (("pong", "kaboom"), {"paddle_min": 100_000, "paddle_max": 300_000}),
    (("breakout", "casino"), {"paddle_min": 0, "paddle_max": 900_000}),
    (("adventure", "surround"), {"repeat_action_probability": 1.0, "random_seed": 2**31 - 1}),
    (("bowling", "tetris"), {"repeat_action_probability": 0.1234567}),
]


@pytest.mark.parametrize(
    ("game", "settings"),
    long_except([(game, settings) for games, settings in CASES for game in games], every=4),
)
def test_setting(game: str, settings: dict[str, Any]) -> None:
    rng = generator(game, settings)
    pair = Pair(game, **{"random_seed": 4, "repeat_action_probability": 0.25, **settings})
    pair.play(rng, FRAMES, hold=4, reset_every=90)
    # After an episode's end nothing moves, but the random stream continues.
    limit = settings.get("max_num_frames_per_episode", 0)
    if limit:
        for _ in range(2 * limit):
            pair.act(int(rng.integers(9)))
            pair.check()
        assert pair.reference.game_truncated()
        pair.play(rng, limit)


@pytest.mark.parametrize(
    "game", long_except(["pong", "seaquest", "tennis", "keystone_kapers", "klax"], every=3)
)
def test_color_averaging(game: str) -> None:
    rng = generator(game)
    pair = Pair(game, random_seed=1, repeat_action_probability=0.0, color_averaging=True)
    pair.play(rng, 60, hold=4, screen_every=3, colours_every=9, reset_every=25)


@pytest.mark.parametrize(
    "game",
    long_except(
        ["pong", "seaquest", "asteroids", "pitfall2", "berzerk", "tetris", "journey_escape"],
        "pong",
        "pitfall2",
    ),
)
@pytest.mark.parametrize("frame_skip", long_except([1, 3], 3))
def test_sound(game: str, frame_skip: int) -> None:
    rng = generator(game, frame_skip)
    pair = Pair(
        game,
        random_seed=1,
        repeat_action_probability=0.0,
        sound_obs=True,
        frame_skip=frame_skip,
        max_num_frames_per_episode=250,
    )
    pair.play(rng, 220, hold=4, reset_every=150)
    assert pair.has_sounded or game in SILENT_GAMES
    while not pair.reference.game_over():
        pair.act(2)
    for _ in range(3):  # nothing moves any more, but it can be heard
        pair.act(2)
        pair.check()
    pair.load()
    pair.play(rng, 20)


@pytest.mark.parametrize("game", long_except(PADDLE_GAMES, every=3))
def test_paddle_strength(game: str) -> None:
    rng = generator(game)
    pair = Pair(game, random_seed=2, repeat_action_probability=0.25)
    pair.play(rng, 250, hold=2, strengths=True)
    for strength in (0.0, -1.0, 1e-6, 0.3, 1.0 / 3.0, 2.5, 50.0):
        for action in (3, 4, 11, 12, 2):
            pair.act(action, strength)
            pair.check()


@pytest.mark.parametrize(
    "bounds",
    [
        {"reward_min": 5, "reward_max": 2},
        {"paddle_min": 500_000, "paddle_max": 300_000},
        {"paddle_min": 900_000},
    ],
)
def test_the_upper_bound_holds_where_the_lower_one_exceeds_it(bounds: dict[str, int]) -> None:
    pair = Pair("breakout", random_seed=2, repeat_action_probability=0.0, **bounds)
    pair.play(generator("bounds"), 60, hold=4)


@pytest.mark.parametrize("before", [-1, 500_000])
def test_a_paddle_range_that_a_game_sets_stays(before: int) -> None:
    """Backgammon and blackjack write theirs into the settings."""
    pair = Pair("breakout", random_seed=2, repeat_action_probability=0.0, paddle_max=before)
    rng = generator("paddle_max")
    for game in ("backgammon", "breakout", "blackjack", "kaboom"):
        pair.load_other(game)
        assert pair.both("getInt", "paddle_max") != before
        pair.play(rng, FRAMES, hold=4)


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_a_state_has_the_paddle_range_of_its_console(game: str, resets: bool) -> None:
    """The receiver keeps it for the next acts and resets, but not for the next ROM."""
    narrow = {"paddle_min": 300_000, "paddle_max": 500_000}
    for given, own in ((narrow, {}), ({}, narrow), ({"paddle_max": 20_000_000}, narrow)):
        rng = generator(f"{game}-range")
        source = Pair(game, random_seed=2, repeat_action_probability=0.0, **given)
        source.play(rng, 90, hold=30)
        pair = Pair(game, random_seed=2, repeat_action_probability=0.0, **own)
        pair.reference.restoreState(source.reference.cloneState())
        pair.ours.restoreState(source.ours.cloneState())
        if resets:
            pair.reset()
        pair.play(rng, 160, hold=40)
        pair.load_other(game)
        pair.play(rng, 160, hold=40)


def test_a_paddle_range_that_no_console_has() -> None:
    with pytest.raises(cule.InvalidArgumentError, match=r"paddle_max is 2000000000.*1000000000"):
        Pair("breakout", paddle_max=2_000_000_000)


def test_joystick_games_ignore_the_strength() -> None:
    pair = Pair("boxing", random_seed=2, repeat_action_probability=0.0)
    pair.play(generator("boxing"), 120, strengths=True)


@pytest.mark.parametrize("game", ["skiing", "lost_luggage", "pong", "breakout"])
def test_every_action(game: str) -> None:
    """Illegal ones and RESET act as no-op."""
    pair = Pair(game, random_seed=2, repeat_action_probability=0.5)
    rng = np.random.default_rng(0)
    for action in rng.permutation([*range(18), 40] * 8):
        pair.act(int(action))
        pair.check(screen=True)


@pytest.mark.parametrize("game", ["pong", "montezuma_revenge", "riverraid"])
def test_set_ram(game: str) -> None:
    rng = generator(game)
    pair = Pair(game, random_seed=2, repeat_action_probability=0.25)
    for _ in range(60):
        index, value = int(rng.integers(128)), int(rng.integers(256))
        for ale in (pair.reference, pair.ours):
            ale.setRAM(index, value)
        pair.check()
        pair.play(rng, 4, screen_every=2)


def test_difficulty_acts_at_the_next_frame_and_mode_at_the_next_reset() -> None:
    rng = generator("switches")
    pair = Pair("space_invaders", random_seed=3, repeat_action_probability=0.0)
    for _ in range(6):
        pair.both("setDifficulty", int(rng.integers(2)))
        pair.both("setMode", int(rng.integers(16)))
        pair.play(rng, 20, hold=3)
        pair.reset()
        pair.play(rng, 20, hold=3)
