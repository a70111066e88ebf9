"""Stable-Baselines3: the VecEnv adapter, and learners that run through it."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor, VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import tile_images

import cule
from cule.wrappers.sb3 import SB3VecEnv

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1, "num_threads": 1}


def test_steps_are_those_of_the_environment(closing) -> None:
    ours = closing(SB3VecEnv("breakout", 3, **SHORT, reward_clipping=False))
    theirs = closing(
        cule.AtariVectorEnv(
            "breakout", 3, **SHORT, reward_clipping=False, autoreset_mode="SameStep"
        )
    )
    assert ours.seed(7) == [7, 8, 9]
    wanted, wanted_info = theirs.reset(seed=7)
    np.testing.assert_array_equal(ours.reset(), wanted)
    assert [info["lives"] for info in ours.reset_infos] == wanted_info["lives"].tolist()
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(80):
        actions = rng.integers(ours.action_space.n, size=3)
        obs, rewards, dones, infos = ours.step(actions)
        wanted, reward, terminated, truncated, info = theirs.step(actions)
        np.testing.assert_array_equal(obs, wanted)
        np.testing.assert_array_equal(rewards, reward)
        np.testing.assert_array_equal(dones, terminated | truncated)
        assert rewards.dtype == np.float32
        for index, own in enumerate(infos):
            for key in ("env_id", "lives", "frame_number", "episode_frame_number"):
                assert own[key] == info[key][index]
            assert ("episode" in own) == ("terminal_observation" in own) == dones[index]
            if not dones[index]:
                continue
            ends += 1
            final = info["final_info"]
            assert own["episode"]["r"] == final["episode_return"][index]
            assert own["episode"]["l"] == final["episode_length"][index]
            assert own["TimeLimit.truncated"] == (truncated[index] and not terminated[index])
            np.testing.assert_array_equal(own["terminal_observation"], info["final_obs"][index])
    assert ends >= 9


def test_a_lost_life_that_is_reported_as_an_end(closing) -> None:
    """Its last observation is the one of the step, and there is no statistic of an episode."""
    env = closing(SB3VecEnv("breakout", 2, life_loss_info=True, num_threads=1))
    env.seed(0)
    env.reset()
    lost = 0
    for _ in range(300):
        obs, _, dones, infos = env.step(np.array([0, 0]))
        for index in np.flatnonzero(dones):
            if infos[index]["lives"] > 0 and "episode" not in infos[index]:
                lost += 1
                np.testing.assert_array_equal(infos[index]["terminal_observation"], obs[index])
        if lost:
            break
        env.step(np.array([1, 1]))
    assert lost


def test_check_env_of_the_single_environment() -> None:
    env = cule.AtariEnv("pong", obs_type="grayscale")
    check_env(env, warn=False)
    env.close()


def test_ppo_learns_through_it(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT, preset="baselines"))
    model = PPO("CnnPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    assert model.get_env() is env  # nothing was put around it, such as a transposition
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(256)
    assert any((p != old).any() for p, old in zip(model.policy.parameters(), before, strict=True))
    assert len(model.ep_info_buffer) >= 8
    assert {entry["l"] for entry in model.ep_info_buffer} == {25}


def test_dqn_takes_its_final_observations(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT))
    model = DQN("CnnPolicy", env, buffer_size=200, learning_starts=50, batch_size=8, device="cpu")
    model.learn(160)
    assert model.replay_buffer.dones[:75].sum() >= 4
    assert model.replay_buffer.timeouts[:75].sum() == model.replay_buffer.dones[:75].sum()


def test_evaluation_reads_unclipped_returns(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT))
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, device="cpu")
    returns, lengths = evaluate_policy(model, env, 4, return_episode_rewards=True)
    assert len(returns) == 4
    assert set(lengths) == {25}
    assert env.env_is_wrapped(Monitor) == [True, True]
    assert env.env_is_wrapped(cule.AtariEnv) == [False, False]


def test_wrappers_of_the_library_go_around_it(closing) -> None:
    env = VecNormalize(VecCheckNan(SB3VecEnv("pong", 2, **SHORT)), norm_obs=False)
    with pytest.warns(UserWarning, match="already wrapped"):  # its statistics are there already
        env = closing(VecMonitor(env))
    env.seed(0)
    assert env.reset().shape == (2, 4, 84, 84)
    for _ in range(26):
        _, _, dones, infos = env.step(np.zeros(2, np.int64))
        if dones.any():
            assert infos[0]["episode"]["l"] == 25


def test_pictures(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT, render_mode="rgb_array"))
    env.reset()
    images = env.get_images()
    assert [image.shape for image in images] == [(210, 160, 3)] * 2
    np.testing.assert_array_equal(env.render(), tile_images(images))
    plain = closing(SB3VecEnv("pong", 2, **SHORT))
    plain.reset()
    assert plain.get_images() == [None, None]


def test_attributes(closing) -> None:
    env = closing(SB3VecEnv("breakout", 3, **SHORT))
    env.reset()
    assert env.get_attr("lives", [0, 2]) == [5, 5]
    assert env.get_attr("render_mode") == [None] * 3
    assert env.get_attr("action_set", 1) == [env.env.action_set]
    assert not env.has_attr("nothing")
    with pytest.raises(cule.InvalidArgumentError, match="attr_name is 'lives'"):
        env.set_attr("lives", 3)
    with pytest.raises(cule.InvalidArgumentError, match=r"SB3VecEnv\.env\.reset"):
        env.env_method("reset")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"autoreset_mode": "NextStep"}, "autoreset_mode is 'NextStep'"),
        ({"output": "torch"}, "output is 'torch'"),
        ({"batch_size": 1}, "batch_size is 1"),
    ],
)
def test_what_the_library_fixes(options: dict, words: str) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=words):
        SB3VecEnv("pong", 2, **options)


def test_what_the_library_fixes_may_be_given(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, autoreset_mode="SameStep", output="numpy"))
    assert env.reset().shape == (2, 4, 84, 84)


def test_reset_has_no_options(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT))
    env.set_options({"mode": 1})
    with pytest.raises(cule.InvalidArgumentError, match=r"set_options\(\) gave"):
        env.reset()
    env.set_options()
    assert env.reset().shape == (2, 4, 84, 84)


@pytest.mark.parametrize("seed", [2**40, 2**70, "x", 1.5])
def test_a_seed_that_is_refused_is_not_kept(closing, seed) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT))
    with pytest.raises(cule.InvalidArgumentError, match="seed"):
        env.seed(seed)
    env.reset()


def test_random_seeds_are_those_that_environments_take(closing) -> None:
    env = closing(SB3VecEnv("pong", 2, **SHORT))
    set_random_seed(0)
    seeds = [env.seed() for _ in range(20)]
    env.reset()
    set_random_seed(0)
    assert seeds == [env.seed() for _ in range(20)]
    assert len({first for first, _ in seeds}) == 20
    assert max(second for _, second in seeds) < 2**31


def test_names_of_sb3s_own_functions(closing) -> None:
    ours = closing(SB3VecEnv("pong", n_envs=2, seed=7, **SHORT))
    theirs = closing(SB3VecEnv("pong", 2, **SHORT))
    theirs.seed(7)
    assert ours.num_envs == 2
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    with pytest.raises(cule.InvalidArgumentError, match="one of them must be left out"):
        SB3VecEnv("pong", 2, n_envs=2)
    assert (
        closing(SB3VecEnv([("pong", 1), ("breakout", 2)], **SHORT, full_action_space=True)).num_envs
        == 3
    )
