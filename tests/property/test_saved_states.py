"""Rows of `get_state`: whatever moment they are of, and wherever they go, the run is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.errors import InvalidStateError
from tests.support.cases import long_except
from tests.support.runs import (
    MIXED,
    assert_same,
    draw_actions,
    make,
    make_mixed,
    reset,
    step_all,
    take,
)

pytestmark = pytest.mark.ale

NUM_ENVS = sum(count for _, count in MIXED)
STEPS = 36
KINDS: list[dict[str, Any]] = [
    {"resets": "exact"},
    {"resets": "exact", "autoreset_mode": "SameStep", "episodic_life": True, "grayscale": False},
    {"resets": "exact", "frameskip": 1, "maxpool": False, "img_height": 105, "img_width": 80},
    {"resets": "cached", "num_reset_states": 3},
    {"resets": "exact", "obs_type": "ram"},
]


@pytest.mark.parametrize("kind", long_except(KINDS, KINDS[1], KINDS[3]), ids=str)
def test_every_moment(kind: dict[str, Any]) -> None:
    """Also right after a reset, and where episodes have just been truncated."""
    actions = draw_actions(0, STEPS, NUM_ENVS)
    env = make_mixed(**kind)
    first = reset(env, seed=3)
    states, results = [env.get_state()], [first]
    for row in actions:
        results += step_all(env, [row])
        states.append(env.get_state())
    after = [*step_all(env, actions[:6]), reset(env), *step_all(env, actions[:6])]
    other = make_mixed(num_threads=2, **kind)
    reset(other, seed=77)
    step_all(other, actions[:5])
    truncated = {k for k in range(1, STEPS + 1) if results[k]["truncated"].any()}
    assert truncated or kind.get("frameskip") == 1
    following_steps = {k + 1 for k in truncated if k < STEPS}
    for moment in sorted({0, 1, 2, 17, STEPS} | truncated | following_steps):
        target = (env, other)[moment % 2]
        target.set_state(states[moment])
        assert np.array_equal(target.get_state(), states[moment])
        following = slice(moment, min(moment + 8, STEPS))
        assert_same(results[1:][following], step_all(target, actions[following]))
    # The random streams are part of it: autoresets and unseeded resets are the same ones too.
    for target in (env, other):
        target.set_state(states[STEPS])
        assert_same(
            after, [*step_all(target, actions[:6]), reset(target), *step_all(target, actions[:6])]
        )
        target.close()


@pytest.mark.parametrize("game", ["journey_escape", "tic_tac_toe_3d", "qbert", "tetris"])
def test_permuted_consoles(game: str) -> None:
    """Rows in another order, some twice."""
    actions = draw_actions(1, 30, 5)
    env = make(game, 5)
    reset(env, seed=0)
    step_all(env, actions[:13])
    rows = env.get_state()
    expected = step_all(env, actions[13:])
    for order in ([4, 3, 2, 1, 0], [1, 1, 4, 0, 4]):
        env.set_state(rows[order])
        assert_same(take(expected, order), step_all(env, actions[13:][:, order]))
    env.set_state(rows)
    env.set_state(rows[[3]], [1])
    order = [0, 3, 2, 3, 4]
    assert_same(take(expected, order), step_all(env, actions[13:][:, order]))
    env.close()


@pytest.mark.parametrize("game", ["pitfall2", "montezuma_revenge", "qbert"])
def test_what_is_seen_after_restoring(game: str) -> None:
    """Screens, live numbers and observations are those of the saved moment."""
    env = make(game, 3)
    reset(env, seed=0)
    result = step_all(env, draw_actions(0, 9, 3))[-1]
    screens, rows = env.screens("rgb"), env.get_state()
    ram, lives, frames = np.array(env.ram), np.array(env.lives), np.array(env.episode_frames)
    step_all(env, draw_actions(1, 9, 3))
    other = make(game, 3)
    for target in (env, other):
        obs, info = target.reset(options={"states": rows})
        assert np.array_equal(obs, result["obs"])
        assert np.array_equal(info["episode_frame_number"], result["episode_frame_number"])
        assert np.array_equal(target.screens("rgb"), screens)
        assert np.array_equal(target.ram, ram)
        assert np.array_equal(target.lives, lives)
        assert np.array_equal(target.episode_frames, frames)
        target.close()


SCRIPT = """
import sys
import numpy as np
import cule

with np.load(sys.argv[1]) as saved:
    rows, actions = saved["rows"], saved["actions"]
groups = [(name, int(count)) for name, count in (word.split(":") for word in sys.argv[3:])]
env = cule.AtariVectorEnv(
    groups, rows.shape[0], num_threads=1, max_num_frames_per_episode=50,
    repeat_action_probability=0.25, noop_max=8, full_action_space=True,
)
env.set_state(rows)
results = [env.step(row) for row in actions]
np.savez(
    sys.argv[2],
    obs=[r[0] for r in results], reward=[r[1] for r in results],
    truncated=[r[3] for r in results], frame_number=[r[4]["frame_number"] for r in results],
    ram=np.array(env.ram), rows=env.get_state(),
)
"""


def test_another_process(tmp_path: Path) -> None:
    actions = draw_actions(4, 30, NUM_ENVS)
    env = make_mixed()
    reset(env, seed=8)
    step_all(env, actions[:11])
    np.savez(tmp_path / "in.npz", rows=env.get_state(), actions=actions[11:])
    groups = [f"{game}:{count}" for game, count in MIXED]
    files = [str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run([sys.executable, "-c", SCRIPT, *files, *groups], check=True)
    expected = step_all(env, actions[11:])
    with np.load(files[1]) as got:
        for name in ("obs", "reward", "truncated", "frame_number"):
            assert np.array_equal(got[name], np.stack([result[name] for result in expected])), name
        assert np.array_equal(got["ram"], env.ram)
        assert np.array_equal(got["rows"], env.get_state())
    env.close()


def check_rejected(env: cule.AtariVectorEnv, rows: np.ndarray, indices: Any = None) -> None:
    """The snapshots are rejected, and nothing has changed."""
    before = env.get_state()
    with pytest.raises(InvalidStateError):
        env.set_state(rows, indices)
    assert np.array_equal(env.get_state(), before)


def test_corrupted_rows() -> None:
    env = make("qbert", 3)
    reset(env, seed=0)
    rows = env.get_state()
    step_all(env, draw_actions(0, 5, 3))
    rng = np.random.default_rng(0)
    places = [*range(32), env.state_size - 1, *rng.integers(0, env.state_size, 60)]
    for place in places:
        bad = rows.copy()
        bad[rng.integers(3), place] ^= np.uint8(1 << rng.integers(8))
        check_rejected(env, bad)
    for bad in (np.zeros_like(rows), np.full_like(rows, 255)):
        check_rejected(env, bad)
    swapped = rows.copy()
    half = env.state_size // 2
    swapped[0, half:] = env.get_state([0])[0, half:]
    check_rejected(env, swapped)
    env.set_state(rows)
    env.close()


def test_rows_of_other_environments() -> None:
    """Another game of the same size, other observations, another resets option."""
    env = make("pong", 2)
    reset(env, seed=0)
    for game, keywords in (
        ("boxing", {}),
        ("pong", {"resets": "cached", "num_reset_states": 2}),
        ("pong", {"img_height": 42, "img_width": 168 // 2, "stack_num": 8}),
    ):
        other = make(game, 2, **keywords)
        reset(other, seed=0)
        rows = other.get_state()
        if rows.shape[1] == env.state_size:
            check_rejected(env, rows)
            check_rejected(env, np.concatenate([env.get_state([0]), rows[:1]]))
        else:
            with pytest.raises(cule.CuleError):
                env.set_state(rows)
        other.close()
    env.close()
