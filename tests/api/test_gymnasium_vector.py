"""Gymnasium's checks and its wrappers for vector environments, around `AtariVectorEnv`.

`make test-integrations` runs this file with an older Gymnasium as well.
"""

from __future__ import annotations

import gc
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker
from gymnasium.wrappers import vector as wrappers

import cule
from tests.support.api import MakeEnv

pytestmark = pytest.mark.ale

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1}

OPTIONS: list[dict[str, Any]] = [
    {},
    {"autoreset_mode": "SameStep", "episode_info": True},
    {"autoreset_mode": "Disabled", "obs_type": "ram"},
    {"grayscale": False, "stack_num": 2, "continuous": True},
    {"resets": "cached", "repeat_action_probability": 0.25, "preset": "machado"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_checks_of_gymnasium(make_env: MakeEnv, options: dict[str, Any]) -> None:
    """Those of its checker that hold for vector environments too."""
    env = make_env("breakout", 3, **options)
    env_checker.check_reset_seed_determinism(env)
    env_checker.check_reset_options(env)
    env_checker.check_reset_return_type(env)
    outcomes = []
    for _ in range(2):
        env.action_space.seed(1)
        outcomes.append([env.reset(seed=5), *(env.step(env.action_space.sample()) for _ in "abc")])
    assert env_checker.data_equivalence(*outcomes, exact=True)
    if hasattr(env_checker, "check_returned_data_not_reused"):  # not in Gymnasium 1.2
        env_checker.check_returned_data_not_reused(make_env("breakout", 1, **options))
    env_checker.check_space_limit(env.single_observation_space, "observation")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_vector_environments_return(make_env: MakeEnv, options: dict[str, Any]) -> None:
    """Spaces, types, and the rules of each autoreset mode, over the ends of episodes."""
    env = make_env("pong", 3, **{**SHORT, **options})
    mode = env.metadata["autoreset_mode"]
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert isinstance(mode, gymnasium.vector.AutoresetMode)
    for space, single in (
        (env.observation_space, env.single_observation_space),
        (env.action_space, env.single_action_space),
    ):
        assert space == gymnasium.vector.utils.batch_space(single, env.num_envs)
    obs, info = env.reset(seed=0)
    env.action_space.seed(0)
    ended, ends = np.zeros(3, bool), 0
    for _ in range(60):
        assert obs in env.observation_space
        for key, value in info.items():
            rows = value.values() if isinstance(value, dict) else (value,)
            assert all(len(row) == 3 for row in rows), key
        if mode is gymnasium.vector.AutoresetMode.DISABLED and ended.any():
            obs, info = env.reset(options={"reset_mask": ended})
            ended[:] = False
            continue
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert reward.shape == (3,)
        assert terminated.dtype == truncated.dtype == np.bool_
        if mode is gymnasium.vector.AutoresetMode.NEXT_STEP:
            assert not np.any([reward[ended], terminated[ended], truncated[ended]])
        ended = terminated | truncated
        ends += int(ended.sum())
        assert ("final_obs" in info) == (
            mode is gymnasium.vector.AutoresetMode.SAME_STEP and ended.any()
        )
    assert ends >= 3


@pytest.mark.parametrize(
    ("wrapper", "shape"),
    [
        (wrappers.DictInfoToList, (3, 4, 84, 84)),
        (wrappers.FlattenObservation, (3, 4 * 84 * 84)),
        (lambda env: wrappers.ReshapeObservation(env, (4, 84 * 84)), (3, 4, 84 * 84)),
        (lambda env: wrappers.RescaleObservation(env, np.uint8(0), np.uint8(1)), (3, 4, 84, 84)),
        (lambda env: wrappers.DtypeObservation(env, np.float32), (3, 4, 84, 84)),
        (wrappers.NormalizeObservation, (3, 4, 84, 84)),
        (wrappers.NormalizeReward, (3, 4, 84, 84)),
        (lambda env: wrappers.ClipReward(env, -1, 1), (3, 4, 84, 84)),
        (wrappers.RecordEpisodeStatistics, (3, 4, 84, 84)),
    ],
)
def test_wrappers_for_vector_environments(make_env: MakeEnv, wrapper: Any, shape: tuple) -> None:
    env = wrapper(make_env("pong", 3, **SHORT))
    obs, _ = env.reset(seed=0)
    assert obs.shape == shape
    for _ in range(30):
        obs, reward, *_ = env.step(env.action_space.sample())
        assert obs.shape == shape
        assert np.shape(reward) == (3,)


def test_wrappers_to_torch(make_env: MakeEnv) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat", reason="Gymnasium's conversion needs it")
    env = wrappers.NumpyToTorch(make_env("pong", 3, **SHORT))
    obs, _ = env.reset(seed=0)
    obs, _, terminated, *_ = env.step(torch.zeros(3, dtype=torch.int64))
    assert isinstance(obs, torch.Tensor)
    assert isinstance(terminated, torch.Tensor)


def test_an_environment_that_cannot_be_made_leaves_nothing_to_close() -> None:
    """Gymnasium closes what is collected; pytest turns an error there into a failure."""
    for arguments in (("nothing", 2), ("pong", 0)):
        with pytest.raises(cule.CuleError):
            cule.AtariVectorEnv(*arguments)
    gc.collect()


@pytest.mark.parametrize("final_info", [None, False, True])
def test_info_of_make_vec_is_that_of_ale_py(final_info: bool | None) -> None:
    """With SameStep it has `final_obs` and, unless it is asked for, no `final_info`."""
    options: dict[str, Any] = {} if final_info is None else {"final_info": final_info}
    env = gymnasium.make_vec(
        "cule/Pong-v5", 2, autoreset_mode="SameStep", max_num_frames_per_episode=20, **options
    )
    env.reset(seed=0)
    for _ in range(20):
        *_, truncated, info = env.step(np.zeros(2, np.int64))
        if truncated.any():
            break
    assert "final_obs" in info
    assert ("final_info" in info) == ("_final_info" in info) == bool(final_info)
    env.close()
    env = cule.AtariVectorEnv("pong", 2, autoreset_mode="SameStep", **options)
    assert env.config.final_info == (final_info is not False)
    env.close()
