"""Observations of sprites: what the hardware drew of players, missiles and ball.

That the rows are exact is shown over random logs by tests/cpp/sprites.cpp; here, that they are
those of the newest frame's picture.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.envs.errors import CallOrderError
from cule.envs.plan import SPRITE_COLUMNS
from cule.errors import InvalidArgumentError, InvalidStateError
from cule.games import load_games
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

X, Y, W, H, VISIBLE, OBJECT, PIXELS, COLOR, COPIES, SHAPE, RUNS = range(len(SPRITE_COLUMNS))

#: Games that change a colour between two pixels of a cell of the playfield.
COLORS_WITHIN_CELLS = {
    "adventure",
    "hero",
    "kung_fu_master",
    "name_this_game",
    "road_runner",
    "seaquest",
    "space_invaders",
    "tetris",
    "tic_tac_toe_3d",
    "trondead",
    "up_n_down",
    "video_cube",
    "yars_revenge",
    "zaxxon",
}

#: Games whose first screens show the playfield alone.
WITHOUT_SPRITES = {"basic_math", "hangman"}


def uneven_cells(picture: Any) -> Any:
    """Cells of four pixels that hold several colours: no playfield is finer; ``[H, 40]``."""
    cells = picture.reshape(len(picture), -1, 4)
    return (cells != cells[..., :1]).any(axis=-1)


def box_cells(rows: Any, height: int) -> Any:
    """Cells that a box of a row reaches into; ``[H, 40]``."""
    inside = np.zeros((height, 160), bool)
    for row in rows[rows[:, RUNS] > 0]:
        inside[row[Y] : row[Y] + row[H], row[X] : row[X] + row[W]] = True
    return inside.reshape(height, 40, 4).any(axis=-1)


def actions_of(env: cule.AtariVectorEnv, steps: int) -> Any:
    random = np.random.default_rng(7)
    return random.integers(env.single_action_space.n, size=(steps, env.num_envs))


@pytest.mark.parametrize("game", long_except(sorted(load_games()), every=12))
def test_rows_are_those_of_the_picture(game: str) -> None:
    """What is finer than the playfield is in a box, and boxes hold what their rows say."""
    options = {"obs_type": "sprites", "stack_num": 1, "max_sprites": 1024}
    env = cule.AtariVectorEnv(game, 1, num_threads=1, **options)
    obs, _ = env.reset(seed=3)
    uneven = single = 0
    for actions in actions_of(env, 60):
        obs, _, terminated, truncated, _ = env.step(actions)
        if (terminated | truncated).any():
            continue
        (picture,) = env.screens("index")
        rows = obs[0, 0]
        rows = rows[rows[:, RUNS] > 0]
        uneven += int((uneven_cells(picture) & ~box_cells(rows, len(picture))).sum())
        assert (rows[:, RUNS] == 1).all()
        assert (rows[:, VISIBLE] <= rows[:, PIXELS]).all()
        assert (rows[:, PIXELS] <= rows[:, W] * rows[:, H]).all()
        for row in rows[rows[:, VISIBLE] == rows[:, PIXELS]]:
            assert row[COLOR] in picture[row[Y], row[X] : row[X] + row[W]]
            single += 1
    assert (uneven > 0) == (game in COLORS_WITHIN_CELLS)
    assert (single > 0) == (game not in WITHOUT_SPRITES)


def test_what_has_no_row() -> None:
    """The last row stands for all runs that have none."""
    every = cule.AtariVectorEnv("space_invaders", 2, obs_type="sprites", num_threads=1)
    few = cule.AtariVectorEnv("space_invaders", 2, obs_type="sprites", max_sprites=9, num_threads=1)
    assert few.objects_layout.columns == SPRITE_COLUMNS
    every.reset(seed=0)
    few.reset(seed=0)
    for actions in actions_of(every, 30):
        all_rows, *_ = every.step(actions)
        rows, *_ = few.step(actions)
    assert rows.shape == (2, 4, 9, len(SPRITE_COLUMNS))
    for frame, whole in zip(rows.reshape(-1, 9, 11), all_rows.reshape(-1, 64, 11), strict=True):
        whole = whole[whole[:, RUNS] > 0]
        assert len(whole) > 30
        assert np.array_equal(whole[:, Y], np.sort(whole[:, Y]))
        assert np.array_equal(frame[:8], whole[:8])
        rest, last = whole[8:], frame[8]
        assert last[RUNS] == len(rest)
        assert last[OBJECT] == -1
        assert not last[[COLOR, COPIES, SHAPE]].any()
        assert last[PIXELS] == rest[:, PIXELS].sum()
        assert last[VISIBLE] == rest[:, VISIBLE].sum()
        assert last[X] == rest[:, X].min()
        assert last[X] + last[W] == (rest[:, X] + rest[:, W]).max()
        assert last[Y] + last[H] == (rest[:, Y] + rest[:, H]).max()


def test_play_is_that_of_images() -> None:
    """What is observed changes nothing else; stacks, ends and snapshots are those of images."""
    options = {"autoreset_mode": "SameStep", "max_num_frames_per_episode": 200, "num_threads": 2}
    ours = cule.AtariVectorEnv("tetris", 3, obs_type="sprites", stack_num=2, **options)
    plain = cule.AtariVectorEnv("tetris", 3, **options)
    before, _ = ours.reset(seed=1)
    plain.reset(seed=1)
    assert not before[:, 0].any()
    assert before[:, 1].any()
    ends = 0
    for actions in actions_of(ours, 120):
        obs, *result, info = ours.step(actions)
        _, *wanted, _ = plain.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(result, wanted, strict=True))
        assert np.array_equal(ours.ram, plain.ram)
        ended = result[1] | result[2]
        ends += ended.sum()
        assert not obs[ended, 0].any()
        if ended.any():
            assert info["final_obs"][ended, 1].any(axis=(1, 2)).all()
        assert np.array_equal(obs[~ended, 0], before[~ended, 1])
        before = obs
    assert ends
    states = ours.get_state()
    out = np.zeros((3, 64, len(SPRITE_COLUMNS)), np.int16)
    assert ours.step_frames(np.zeros(3, int), out=out).frame is out
    assert out.any()
    back, _ = ours.reset(options={"states": states})
    assert np.array_equal(back, obs)
    assert np.array_equal(ours.step_frames(np.zeros(3, int)).frame, out)
    fewer = cule.AtariVectorEnv("tetris", 3, obs_type="sprites", stack_num=2, max_sprites=9)
    fewer.reset(seed=0)
    with pytest.raises(InvalidStateError, match="with max_sprites=64; this environment has max_"):
        fewer.reset(options={"states": states})


def test_one_environment_and_the_interface() -> None:
    env = gymnasium.make("cule/Freeway-v5", obs_type="sprites")
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    ale = env.unwrapped.ale
    for _ in range(20):
        obs, *_ = env.step(env.action_space.sample())
        assert obs.shape == (64, len(SPRITE_COLUMNS))
        assert np.array_equal(obs, ale.getSprites())
    assert ale.getSprites(3)[2, RUNS] == (obs[:, RUNS] > 0).sum() - 2
    ale.restoreState(ale.cloneState())
    with pytest.raises(CallOrderError, match="call act"):
        ale.getSprites()
    ale.act(0)
    assert ale.getSprites().any()
    with pytest.raises(ValueError, match=r"max_sprites is 0; it must be in 1\.\.1024"):
        ale.getSprites(0)


def test_several_players() -> None:
    """What is finer than the playfield is in a box."""
    env = cule.MultiAgentVectorEnv("boxing", 1, obs_type="sprites", stack_num=1, num_threads=1)
    env.reset(seed=0)
    for _ in range(20):
        obs, *_ = env.step(env.action_space.sample())
        (picture,) = env.screens("index")
        assert uneven_cells(picture).any()
        assert not (uneven_cells(picture) & ~box_cells(obs[0, 0], len(picture))).any()


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"max_sprites is 0; it must be in 1\.\.1024"):
        cule.AtariVectorEnv("pong", 1, obs_type="sprites", max_sprites=0)
    with pytest.raises(InvalidArgumentError, match="for objects_layout it must be 'objects' or"):
        _ = cule.AtariVectorEnv("pong", 1, num_threads=1).objects_layout
