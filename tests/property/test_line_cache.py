"""Scanlines that the line cache reuses (csrc/host/incremental) are those that would be drawn.

`screens()` draws a frame's log from its start, without the cache; observations of full size and
one frame are drawn with it, and with RAM observations it keeps no pixels. Observations of sprites
are made without it. Pooling and resizing only the rows that were painted gives what pooling and
resizing everything gives; so do the stacks of any options, also where snapshots of other
environments and other times are restored between two steps (`redrawn`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import pytest

from cule import _core
from cule.envs.options import resolve_options
from cule.envs.plan import make_batch, plan_batch
from cule.games import load_games
from tests.support.cases import long_except
from tests.support.kernels import Results
from tests.support.picture_programs import (
    changing_program,
    late_reader_program,
    picture_program,
    reset_shows_program,
)
from tests.support.programs import core_game
from tests.support.redrawn import NUM_ENVS, Watched
from tests.support.runs import draw_actions, make

pytestmark = pytest.mark.ale

STEPS = 60
FULL_SIZE = {"img_height": 210, "img_width": 160, "stack_num": 1, "maxpool": False}


def program_batch(game: _core.Game, **keywords: object) -> tuple[_core.Batch, Results]:
    """An environment that runs a program, and where its results go."""
    options = resolve_options("pong", 1, {"num_threads": 1, "noop_max": 0, **keywords})
    plan = dataclasses.replace(plan_batch(options), games=(game,))
    batch = make_batch(plan, options)
    results = Results(plan, options)
    batch.reset(None, np.array([1]), results.out)
    return batch, results


def check_program(seed: int, frameskip: int, steps: int) -> None:
    """As `check`, for a random picture."""
    game = core_game(picture_program(seed))
    batch, results = program_batch(game, frameskip=frameskip, **FULL_SIZE)
    bare, bare_results = program_batch(game, frameskip=frameskip, obs_type="sprites")
    blind, blind_results = program_batch(game, frameskip=frameskip, obs_type="ram")
    console = np.arange(1)
    for step in range(steps):
        actions = np.zeros(1, np.int32)
        batch.step(actions, results.out)
        bare.step(actions, bare_results.out)
        blind.step(actions, blind_results.out)
        where = f"program {seed}, frameskip {frameskip}, step {step}"
        assert np.array_equal(results.obs[:, 0], batch.screens("gray", console)), where
        assert np.array_equal(batch.ram(), bare.ram()), where
        assert np.array_equal(blind.ram(), bare.ram()), where
    for one in (batch, bare, blind):
        one.close()


class Frame(NamedTuple):
    """The result of a step: gray levels ``[rows, columns]``, and whether the episode is over."""

    picture: np.ndarray
    is_end: bool


#: Receives actions; the first frame it yields is that of a reset.
Play = Generator[Frame, int, None]


def play_program(game: _core.Game, **keywords: object) -> Play:
    """A program in one environment."""
    batch, results = program_batch(game, **keywords)
    while True:
        yield Frame(results.obs[0, 0].copy(), bool(results.flags[_core.FLAG_ENDED, 0]))
        batch.step(np.zeros(1, np.int32), results.out)


def play_game(game: str, seed: int, **keywords: object) -> Play:
    """A game in one environment."""
    env = make(game, 1, repeat_action_probability=0, **keywords)
    obs, _ = env.reset(seed=seed)
    action = yield Frame(obs[0, 0], is_end=False)
    while True:
        obs, _, terminated, truncated, _ = env.step(np.array([action % len(env.action_set)]))
        action = yield Frame(obs[0, 0], bool(terminated[0] | truncated[0]))


def check_pooled(observed: Play, frames: Play, frameskip: int, seed: int, steps: int) -> None:
    """Observations equal pooled and resized whole frames, ends of episodes included.

    The frame that ends an episode is not observed: the previous one is pooled with the picture of
    the previous step, if it would have been pooled at all.
    """
    pooled, is_end = next(frames).picture, False
    assert np.array_equal(next(observed).picture, _core.area_resize(pooled, 84, 84))
    for step, action in enumerate(draw_actions(seed, steps, 1)[:, 0].tolist()):
        ran = [frames.send(action)]
        while not is_end and len(ran) < frameskip and not ran[-1].is_end:
            ran.append(frames.send(action))
        if is_end:
            pooled = ran[0].picture  # the reset
        elif not ran[-1].is_end:
            pooled = np.maximum(ran[-2].picture, ran[-1].picture)
        elif len(ran) == frameskip:
            pooled = np.maximum(pooled, ran[-2].picture)
        ours, is_end = observed.send(action)
        where = f"frameskip {frameskip}, seed {seed}, step {step}"
        assert np.array_equal(ours, _core.area_resize(pooled, 84, 84)), where


def screen_height(game: str) -> int:
    """Rows of the picture."""
    env = make(game, 1, obs_type="ram")
    env.reset(seed=0)
    height = env.screens("gray").shape[1]
    env.close()
    return height


def check(game: str, steps: int, frameskip: int, seed: int) -> None:
    """Every observation is the screen, and nothing else differs from a run without the cache."""
    keywords = {"frameskip": frameskip, "max_num_frames_per_episode": 40 * frameskip}
    bare = make(game, 2, obs_type="sprites", **keywords)
    blind = make(game, 2, obs_type="ram", **keywords)
    for one in (bare, blind):
        one.reset(seed=seed)
    env = make(game, 2, **{**FULL_SIZE, "img_height": screen_height(game)}, **keywords)
    env.reset(seed=seed)
    num_actions = len(env.action_set)
    for step, actions in enumerate(draw_actions(seed, steps, 2) % num_actions):
        obs, *results = env.step(actions)
        expected = bare.step(actions)[1:]
        ram, *blindly = blind.step(actions)
        where = f"{game}, frameskip {frameskip}, step {step}"
        is_running = ~(results[1] | results[2])  # the last frame of an episode is not observed
        assert np.array_equal(obs[is_running, 0], env.screens("gray")[is_running]), where
        assert np.array_equal(env.ram, bare.ram), where
        assert np.array_equal(ram, bare.ram), where
        for drawn, unseen, plain in zip(results[:3], blindly[:3], expected[:3], strict=True):
            assert np.array_equal(drawn, plain), where
            assert np.array_equal(unseen, plain), where
    for one in (env, blind, bare):
        one.close()


@pytest.mark.parametrize("game", long_except(sorted(load_games()), every=8))
def test_games(game: str) -> None:
    check(game, STEPS, frameskip=1, seed=1)
    check(game, STEPS, frameskip=3, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games_for_long(game: str) -> None:
    for frameskip in (1, 4):
        check(game, 1000, frameskip, seed=frameskip)


@pytest.mark.parametrize("seed", long_except(range(100), every=6))
def test_pictures_that_differ_slightly(seed: int) -> None:
    for frameskip in (1, 3):
        check_program(seed, frameskip, 80)


@pytest.mark.parametrize("seed", long_except(range(30), every=3))
def test_pooled_pictures(seed: int) -> None:
    game = core_game(picture_program(seed))
    for frameskip in (2, 3, 4):
        keywords = {"max_num_frames_per_episode": 24 * frameskip}
        check_pooled(
            play_program(game, frameskip=frameskip, stack_num=1, **keywords),
            play_program(game, frameskip=1, **FULL_SIZE, **keywords),
            frameskip,
            seed,
            60,
        )


#: Games whose pictures are still, scroll, flicker, or end early.
POOLED = ("pong", "riverraid", "alien", "asteroids", "journey_escape", "double_dunk", "air_raid")


@pytest.mark.parametrize("game", long_except(POOLED, every=3))
def test_pooled_games(game: str) -> None:
    full_size = {**FULL_SIZE, "img_height": screen_height(game)}
    for frameskip in (2, 4):
        keywords = {"max_num_frames_per_episode": 40 * frameskip}
        check_pooled(
            play_game(game, 1, frameskip=frameskip, stack_num=1, **keywords),
            play_game(game, 1, frameskip=1, **full_size, **keywords),
            frameskip,
            1,
            150,
        )


#: Observations of every kind: size, stack, frame skip, pooling, colour, resets.
KINDS: list[dict[str, Any]] = [
    {"img_height": 210, "img_width": 160, "stack_num": 4, "frameskip": 1},
    {"img_height": 210, "img_width": 160, "stack_num": 4, "frameskip": 2},
    {"img_height": 33, "img_width": 57, "stack_num": 4, "frameskip": 3},
    {"img_height": 33, "img_width": 57, "stack_num": 1, "frameskip": 1, "maxpool": False},
    {"stack_num": 4, "frameskip": 4, "autoreset_mode": "SameStep"},
    {"stack_num": 4, "frameskip": 3, "maxpool": False},
    {"stack_num": 1, "frameskip": 2, "full_action_space": True},
    {"img_height": 57, "img_width": 33, "stack_num": 4, "frameskip": 2, "grayscale": False},
    {"img_height": 210, "img_width": 160, "frameskip": 1, "grayscale": False, "maxpool": False},
    {"img_height": 105, "img_width": 160, "stack_num": 2, "frameskip": 2, "maxpool": False},
    {"img_height": 209, "img_width": 159, "stack_num": 3, "frameskip": 3},
    {"img_height": 1, "img_width": 1, "stack_num": 2, "frameskip": 2},
]


def check_anew(
    games: tuple[_core.Game, _core.Game] | tuple[str, str],
    kind: dict[str, Any],
    seed: int,
    steps: int,
) -> None:
    """Observations are those of frames drawn from scratch."""
    limit = 40 * kind["frameskip"]
    watched = Watched(games, max_num_frames_per_episode=limit, **kind)
    watched.run(steps, seed, f"{games}, {kind}, seed {seed}")
    watched.close()


def check_changing(seed: int, kind: dict[str, Any], steps: int) -> None:
    """`check_anew` of two programs."""
    games = (core_game(changing_program(seed)), core_game(changing_program(seed + 1)))
    check_anew(games, kind, seed, steps)


@pytest.mark.parametrize("seed", long_except(range(36), every=9))
def test_programs_of_changing_kinds(seed: int) -> None:
    check_changing(seed, KINDS[seed % len(KINDS)], 60)


@pytest.mark.parametrize("frameskip", [2, 3])
def test_rows_that_a_reset_changes_are_pooled_again(frameskip: int) -> None:
    game = core_game(reset_shows_program())
    watched = Watched(
        (game, game), img_height=210, img_width=160, frameskip=frameskip, stack_num=2, noop_max=0
    )
    actions = np.zeros(NUM_ENVS, np.int32)
    for step in range(16):
        if step == 12:
            watched.start_over(0)
        watched.compare(f"before step {step}")
        watched.step(actions)
    watched.compare("the end")
    assert len(np.unique(watched.results.obs[:, -1, :20])) == 2  # the band and the rest
    watched.close()


@pytest.mark.parametrize("frame", [200, 201])  # either of the two frames is in the cache then
def test_latches_that_are_read_late(frame: int) -> None:
    game = core_game(late_reader_program(frame))
    batch, results = program_batch(game, frameskip=1, **FULL_SIZE)
    bare, bare_results = program_batch(game, frameskip=1, obs_type="ram")
    actions = np.zeros(1, np.int32)
    for step in range(180):
        batch.step(actions, results.out)
        bare.step(actions, bare_results.out)
        assert np.array_equal(batch.ram(), bare.ram()), f"step {step}"
    assert batch.ram()[0, 0x10] >> 7 == batch.ram()[0, 0x11] >> 7 == 1
    batch.close()
    bare.close()


#: Mostly games of `POOLED`; the two of a pair may differ in height.
PAIRS = (
    *(("pong", "riverraid"), ("alien", "asteroids"), ("journey_escape", "breakout")),
    *(("double_dunk", "air_raid"), ("qbert", "tic_tac_toe_3d"), ("elevator_action", "pong")),
)


@pytest.mark.parametrize("number", long_except(range(len(KINDS)), every=2))
def test_games_drawn_anew(number: int) -> None:
    check_anew(PAIRS[number % len(PAIRS)], KINDS[number], number, 60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_games_drawn_anew_for_long(pair: tuple[str, str], kind: dict[str, Any]) -> None:
    check_anew(pair, kind, 1, 300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1120))
def test_many_programs_of_changing_kinds(seed: int) -> None:
    check_changing(seed, KINDS[seed % len(KINDS)], 400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_pictures_that_differ_slightly(seed: int) -> None:
    for frameskip in (1, 2, 3):
        check_program(seed, frameskip, 200)
