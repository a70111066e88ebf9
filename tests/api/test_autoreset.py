"""The three autoreset modes, one by one.

Episodes are cut after 40 frames, ten steps, so that every console ends in the tenth step.
"""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import cule
from cule.errors import NotResetError
from tests.support.api import MakeEnv, actions_for

pytestmark = pytest.mark.ale

LIMIT = {"max_num_frames_per_episode": 40}
STEPS = 10


def run_to_the_last_step(env: cule.AtariVectorEnv) -> list[np.ndarray]:
    """Everything before the step in which all end; returns the actions from that step on."""
    env.reset(seed=0)
    plan = actions_for(env, 0, STEPS + 5)
    for actions in plan[: STEPS - 1]:
        _, _, terminated, truncated, _ = env.step(actions)
        assert not terminated.any()
        assert not truncated.any()
    return plan[STEPS - 1 :]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_mode_is_announced(make_env: MakeEnv, mode: AutoresetMode) -> None:
    for given in (mode, mode.value):
        env = make_env(autoreset_mode=given)
        assert env.autoreset_mode is mode
        assert env.metadata["autoreset_mode"] is mode
        assert env.config.autoreset_mode is mode


def test_next_step(make_env: MakeEnv) -> None:
    env, other = make_env(**LIMIT), make_env(**LIMIT)
    rest = run_to_the_last_step(env)
    run_to_the_last_step(other)
    for target in (env, other):
        obs, _, terminated, truncated, info = target.step(rest[0])
        assert truncated.all()
        assert not terminated.any()
        assert "final_obs" not in info
    # The action of the step that resets is ignored.
    results = env.step(rest[1])
    others = other.step((rest[1] + 1) % env.single_action_space.n)
    obs, reward, terminated, truncated, info = results
    assert np.array_equal(obs, others[0])
    assert not reward.any()
    assert not terminated.any()
    assert not truncated.any()
    assert (info["episode_frame_number"] < 40).all()
    assert not obs[:, :3].any()  # the stack of a first observation: zeros, then the frame
    assert obs[:, 3].any(axis=(1, 2)).all()


def test_same_step(make_env: MakeEnv) -> None:
    same, following = (
        make_env(**LIMIT, autoreset_mode="SameStep"),
        make_env(**LIMIT, autoreset_mode="NextStep"),
    )
    rest = run_to_the_last_step(same)
    run_to_the_last_step(following)
    last = following.step(rest[0])
    first = following.step(rest[1])
    obs, reward, terminated, truncated, info = same.step(rest[0])
    assert truncated.all()
    assert not terminated.any()
    assert np.array_equal(obs, first[0])
    assert np.array_equal(reward, last[1])
    assert np.array_equal(info["final_obs"], last[0])
    for key in ("lives", "frame_number", "episode_frame_number"):
        assert np.array_equal(info[key], first[4][key])
        assert np.array_equal(info["final_info"][key], last[4][key])
        assert info["final_info"][f"_{key}"].all()
    assert info["_final_info"].all()
    assert (info["final_info"]["episode_length"] == STEPS).all()
    info = same.step(rest[1])[4]
    assert "final_obs" not in info
    assert "final_info" not in info


def test_same_step_where_only_some_end(make_env: MakeEnv) -> None:
    env = make_env("breakout", 4, autoreset_mode="SameStep", episodic_life=True)
    env.reset(seed=0)
    for _ in range(400):
        obs, _, terminated, _, info = env.step(np.full(4, 3))
        if terminated.any() and not terminated.all():
            break
    else:
        pytest.fail("no life was lost")
    assert np.array_equal(info["_final_info"], terminated)
    final = info["final_info"]
    assert (final["lives"][terminated] == 4).all()
    assert not final["lives"][~terminated].any()
    assert (info["lives"] == 5).all()
    assert not np.array_equal(info["final_obs"][terminated], obs[terminated])


def test_disabled(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3, **LIMIT, autoreset_mode="Disabled")
    rest = run_to_the_last_step(env)
    last_obs, _, _, truncated, _ = env.step(rest[0])
    assert truncated.all()
    states = env.get_state()
    with pytest.raises(NotResetError):
        env.step(rest[1])
    assert np.array_equal(env.get_state(), states)

    mask = np.array([True, False, True])
    obs, info = env.reset(options={"reset_mask": mask})
    assert np.array_equal(obs[1], last_obs[1])
    assert (info["episode_frame_number"] < 40).tolist() == mask.tolist()
    with pytest.raises(NotResetError):  # console 1 has still ended
        env.step(rest[1])
    env.reset(options={"reset_mask": ~mask})
    assert not env.step(rest[1])[3].any()


def test_game_over_is_termination(make_env: MakeEnv) -> None:
    env = make_env("breakout", 2, autoreset_mode="NextStep")
    env.reset(seed=0)
    for _ in range(3000):
        terminated, truncated, info = env.step(np.ones(2, np.int64))[2:]  # FIRE, and nothing else
        if terminated.any():
            break
    else:
        pytest.fail("no game ended")
    assert (info["lives"][terminated] == 0).all()
    assert not truncated.any()
    info = env.step(np.ones(2, np.int64))[4]
    assert (info["lives"][terminated] == 5).all()
