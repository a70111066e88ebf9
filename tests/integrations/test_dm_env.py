"""dm_env: the library's own checks, and steps that are those of the environment."""

from __future__ import annotations

import unittest

import dm_env
import numpy as np
import pytest
import torch
from dm_env import test_utils
from gymnasium.vector import AutoresetMode

import cule
from cule.wrappers.dm_env import DMEnv

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1, "num_threads": 1}


class TestInterface(test_utils.EnvironmentTestMixin, unittest.TestCase):
    """The library's checker."""

    def make_object_under_test(self) -> DMEnv:
        return DMEnv("breakout", seed=0, **SHORT)


def test_steps_are_those_of_the_environment(closing) -> None:
    ours = closing(DMEnv("seaquest", seed=4, **SHORT))
    theirs = closing(cule.AtariVectorEnv("seaquest", 1, **SHORT, autoreset_mode="Disabled"))
    rng = np.random.default_rng(0)
    step = ours.step(17)  # before the first reset: the action is ignored
    wanted, _ = theirs.reset(seed=4)
    ends = 0
    for _ in range(120):
        np.testing.assert_array_equal(step.observation, wanted[0])
        if step.last():
            ends += 1
            step = ours.step(0)
            assert step.first()
            assert step.reward is None
            wanted, _ = theirs.reset()
            continue
        action = int(rng.integers(18))
        step = ours.step(action)
        wanted, reward, terminated, truncated, _ = theirs.step(np.array([action]))
        assert step.reward == reward[0]
        assert step.discount == (0.0 if terminated[0] else 1.0)
        assert step.last() == bool(terminated[0] or truncated[0])
    assert ends >= 4


def test_specs(closing) -> None:
    env = closing(DMEnv("pong", obs_type="ram", num_threads=1))
    assert env.action_spec().num_values == 6
    assert env.observation_spec().shape == env.reset().observation.shape
    assert isinstance(env, dm_env.Environment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "SameStep"}, "autoreset_mode is 'SameStep'; for dm_env"),
        ({"output": "torch"}, "output is 'torch'; for dm_env it must be 'numpy'"),
        ({"continuous": True}, "continuous is True; for dm_env it must be False"),
        ({"num_envs": 2}, "num_envs is 2; for dm_env it must be 1"),
        ({"life_loss_info": True}, "life_loss_info is True; for dm_env it must be False"),
        (
            {"preset": "baselines", "fire_after_life_loss": True},
            "episodic_life and fire_after_life_loss are True; for dm_env",
        ),
    ],
)
def test_options_that_dm_env_fixes(options, message) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=message):
        DMEnv("pong", **options)


def test_what_dm_env_fixes_may_be_given(closing) -> None:
    for mode in ("Disabled", AutoresetMode.DISABLED):
        env = closing(DMEnv("pong", autoreset_mode=mode, num_envs=1, device=torch.device("cpu")))
        assert env.reset().first()


def test_actions_that_are_no_indices(closing) -> None:
    env = closing(DMEnv("pong", seed=0))
    env.reset()
    frames = int(env.env.episode_frames[0])
    for action in (None, 1.0, True, [1], [[1], [2, 3]], 2**70):
        with pytest.raises(cule.ActionShapeError):
            env.step(action)
    assert env.env.episode_frames[0] == frames
