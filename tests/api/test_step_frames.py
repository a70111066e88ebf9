"""Steps without stacking: the contract of learners that keep their own ring of frames."""

from __future__ import annotations

import numpy as np
import pytest

from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidArgumentError
from tests.support.api import MakeEnv, actions_for

pytestmark = pytest.mark.ale


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_frames_are_what_step_stacks(make_env: MakeEnv, mode: str) -> None:
    keywords = {"autoreset_mode": mode, "max_num_frames_per_episode": 60}
    stacked, plain = make_env("breakout", 3, **keywords), make_env("breakout", 3, **keywords)
    obs, _ = stacked.reset(seed=0)
    plain.reset(seed=0)
    ended = np.zeros(3, bool)
    returns, lengths = np.zeros(3), np.zeros(3, int)
    for actions in actions_for(stacked, 0, 40):
        obs, reward, terminated, truncated, info = stacked.step(actions)
        result = plain.step_frames(actions)
        assert np.array_equal(result.frame, obs[:, -1])
        assert np.array_equal(np.clip(result.reward, -1, 1), reward)
        assert np.array_equal(result.terminated, terminated)
        assert np.array_equal(result.truncated, truncated)
        done = terminated | truncated
        reset_row = ended if mode == "NextStep" else np.zeros(3, bool)
        returns[reset_row], lengths[reset_row] = 0, 0
        returns += result.reward
        lengths += ~reset_row
        assert np.array_equal(result.first, done if mode == "SameStep" else ended)
        if done.any():
            final = info["final_obs"][:, -1] if mode == "SameStep" else obs[:, -1]
            assert np.array_equal(result.final_frame[done], final[done])
            assert np.array_equal(result.episode_return[done], returns[done])
            assert np.array_equal(result.episode_length[done], lengths[done])
        if mode == "SameStep":
            returns[done], lengths[done] = 0, 0
        ended = done
    assert (result.frame.shape, result.reward.dtype) == ((3, 84, 84), np.float32)
    assert (result.episode_return.dtype, result.episode_length.dtype) == (np.float32, np.int32)


def test_rewards_are_not_clipped(make_env: MakeEnv) -> None:
    env = make_env("ms_pacman", 2)
    env.reset(seed=0)
    rewards = np.concatenate([env.step_frames(a).reward for a in actions_for(env, 0, 150)])
    assert rewards.max() >= 10


def test_lost_lives_are_told(make_env: MakeEnv) -> None:
    env = make_env("breakout", 2)
    env.reset(seed=0)
    lives = env.lives.copy()
    losses = 0
    for _ in range(400):
        result = env.step_frames(np.ones(2, np.int64))
        lost = env.lives < lives
        assert np.array_equal(result.life_lost, lost & (env.lives > 0))
        losses += int(result.life_lost.sum())
        lives = env.lives.copy()
    assert losses > 1
    assert not result.first.any()


def test_out_takes_the_frames(make_env: MakeEnv) -> None:
    env, other = make_env(), make_env()
    env.reset(seed=0)
    other.reset(seed=0)
    ring = np.zeros((20, 2, 84, 84), np.uint8)
    wide = np.zeros((2, 3, 84, 84), np.uint8)
    for row, actions in enumerate(actions_for(env, 0, 20)):
        target = ring[row] if row % 2 else wide[:, 1]
        result = env.step_frames(actions, out=target)
        assert result.frame is target
        assert np.array_equal(target, other.step_frames(actions).frame)
    assert not wide[:, [0, 2]].any()
    assert not ring[::2].any()


def test_out_takes_tensors(make_env: MakeEnv) -> None:
    torch = pytest.importorskip("torch")
    env, other = make_env(output="torch"), make_env()
    env.reset(seed=0)
    other.reset(seed=0)
    ring = torch.zeros((5, 2, 84, 84), dtype=torch.uint8)
    for row, actions in enumerate(actions_for(env, 0, 5)):
        result = env.step_frames(torch.from_numpy(actions), out=ring[row])
        assert isinstance(result.reward, torch.Tensor)
        assert np.array_equal(ring[row].numpy(), other.step_frames(actions).frame)


def test_shapes_of_other_observations(make_env: MakeEnv) -> None:
    for keywords, shape in (
        ({"obs_type": "ram"}, (2, 128)),
        ({"grayscale": False, "img_height": 96}, (2, 96, 84, 3)),
    ):
        env = make_env(**keywords)
        env.reset(seed=0)
        result = env.step_frames(np.zeros(2, np.int64))
        assert result.frame.shape == result.final_frame.shape == shape


def test_bad_out_is_refused(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    states = env.get_state()
    read_only = np.zeros((2, 84, 84), np.uint8)
    read_only.flags.writeable = False
    for out, error in (
        (np.zeros((2, 84, 83), np.uint8), InvalidArgumentError),
        (np.zeros((2, 84, 84), np.float32), ArgumentTypeError),
        (np.zeros((2, 84, 168), np.uint8)[:, :, ::2], InvalidArgumentError),
        (read_only, ArgumentTypeError),
        ([0], ArgumentTypeError),
    ):
        with pytest.raises(error, match="out"):
            env.step_frames(np.zeros(2, np.int64), out=out)
    assert np.array_equal(env.get_state(), states)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_lost_life_ends_on_the_frame_itself(make_env: MakeEnv, output: str) -> None:
    keywords = {"life_loss_info": True, "autoreset_mode": "SameStep", "output": output}
    env = make_env("breakout", 2, **keywords)
    env.reset(seed=0)
    lost = 0
    for _ in range(200):
        result = env.step_frames(np.ones(2, np.int64))
        for console in range(2):
            if result.terminated[console] and not result.first[console]:
                lost += 1
                final, frame = result.final_frame[console], result.frame[console]
                assert np.array_equal(np.asarray(final), np.asarray(frame))
    assert lost > 0


def test_rows_that_overlap_are_refused(make_env: MakeEnv) -> None:
    env = make_env(num_envs=2)
    env.reset(seed=0)
    one = np.zeros((1, 84, 84), np.uint8)
    rows = np.lib.stride_tricks.as_strided(one, (2, 84, 84), (0, 84, 1))
    with pytest.raises(InvalidArgumentError, match="overlap"):
        env.step_frames(np.zeros(2, np.int64), out=rows)
