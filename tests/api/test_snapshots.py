"""Snapshots of one environment for many, observations after them, and those of other options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cule
from tests.support.api import MakeEnv, actions_for

pytestmark = pytest.mark.ale


def played(env: cule.AtariVectorEnv, steps: int = 30) -> tuple[Any, dict[str, Any]]:
    """Reset an environment and play; the last observations and infos."""
    env.reset(seed=0)
    for actions in actions_for(env, 0, steps):
        obs, _, _, _, info = env.step(actions)
    return obs, info


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("options", [{}, {"obs_type": "ram"}, {"resets": "cached"}])
def test_one_snapshot_for_many_and_their_observations(
    make_env: MakeEnv, mode: str, options: dict[str, Any]
) -> None:
    env = make_env("breakout", 3, autoreset_mode=mode, **options)
    obs, info = played(env)
    row = env.get_state([1])
    for states in (row, row[0]):
        env.set_state(states)
        seen, numbers = env.observe()
        for index in range(3):
            np.testing.assert_array_equal(seen[index], obs[1])
            assert numbers["frame_number"][index] == info["frame_number"][1]
        env.step(np.zeros(3, np.int64))
    env.set_state(row, [0, 2])
    env.reset(options={"states": row})
    np.testing.assert_array_equal(env.observe()[0][2], obs[1])


def test_observe_moves_nothing(make_env: MakeEnv) -> None:
    env = make_env(num_envs=2)
    with pytest.raises(cule.NotResetError):
        env.observe()
    played(env)
    before = env.get_state()
    first, second = env.observe()[0], env.observe()[0]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(env.get_state(), before)


def test_observe_of_an_asynchronous_batch(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4, batch_size=2)
    seen = {}
    obs, info = env.reset(seed=0)
    seen |= dict(zip(info["env_id"].tolist(), obs, strict=True))
    with pytest.raises(cule.CallOrderError, match="observe while 2"):
        env.observe()
    obs, _, _, _, info = env.recv()
    seen |= dict(zip(info["env_id"].tolist(), obs, strict=True))
    obs, info = env.observe()
    assert info["env_id"].tolist() == [0, 1, 2, 3]
    for index in range(4):
        np.testing.assert_array_equal(obs[index], seen[index])


def test_the_number_of_snapshots_is_checked(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3)
    env.reset(seed=0)
    with pytest.raises(
        cule.InvalidArgumentError, match=r"shape \(2, \d+\); it must have shape \(3, "
    ):
        env.set_state(env.get_state([0, 1]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"img_height": 96}, "img_height=96; this environment has img_height=84"),
        (
            {"img_height": 42, "img_width": 168 // 2, "stack_num": 8},
            "img_height=42 and stack_num=8",
        ),
        ({"img_height": 42, "img_width": 160}, "img_height=42 and img_width=160"),
        ({"grayscale": False}, "grayscale=False; this environment has grayscale=True"),
        ({"stack_num": 1}, "stack_num=1"),
        ({"obs_type": "ram"}, "obs_type='ram'"),
        ({"resets": "cached"}, "resets='cached'; this environment has resets='exact'"),
    ],
)
def test_snapshots_of_other_options_name_them(
    make_env: MakeEnv, options: dict[str, Any], words: str
) -> None:
    env, other = make_env(num_envs=2), make_env(num_envs=2, num_reset_states=2, **options)
    env.reset(seed=0)
    other.reset(seed=0)
    before = env.get_state()
    for restore in (
        lambda: env.set_state(other.get_state()),
        lambda: env.reset(options={"states": other.get_state()}),
    ):
        with pytest.raises(cule.InvalidStateError, match=words):
            restore()
    np.testing.assert_array_equal(env.get_state(), before)
