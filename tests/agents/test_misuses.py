"""Natural misuses of learners and replay memories end in errors that say what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule.agents import PPO, DQNConfig, PPOConfig
from cule.errors import CheckpointError
from cule.replay import (
    PrioritizedReplay,
    ReplayOptions,
    SharedPrioritizedReplay,
    TrajectoryBuffer,
    UniformReplay,
)
from tests.support.learners import small_learner

CONFIG = PPOConfig(game="pong", num_envs=2, num_steps=8, network="small", decorrelate_steps=0)


@pytest.mark.parametrize("config", ["pong", DQNConfig(), None])
def test_another_config(config: Any) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=r"PPO needs a PPOConfig"):
        PPO(config)


def test_observations_that_a_network_cannot_read() -> None:
    agent = PPO(CONFIG)
    generator = torch.Generator()
    for obs in (
        np.zeros((2, 4, 84, 84), np.uint8),
        torch.zeros(2, 4, 42, 42, dtype=torch.uint8),
        torch.zeros(2, 4, 84, 84),
        torch.zeros(4, 84, 84, dtype=torch.uint8),
    ):
        with pytest.raises(cule.InvalidArgumentError, match=r"shape \(n, 4, 84, 84\), on cpu"):
            agent.act(obs, generator)  # type: ignore[arg-type]


@pytest.mark.parametrize("continuous", [False, True])
def test_predictions_have_the_kind_of_their_observations(continuous: bool) -> None:
    config = PPOConfig(
        game="pong", num_envs=2, num_steps=8, network="small", decorrelate_steps=0,
        continuous=continuous, full_action_space=False,
    )  # fmt: skip
    agent, other = PPO(config), PPO(config)
    with cule.AtariVectorEnv("pong", 3, continuous=continuous) as env:
        obs, _ = env.reset(seed=0)
        actions = agent.predict(obs)
        env.step(actions)
    assert isinstance(actions, np.ndarray)
    assert actions.shape == ((3, 3) if continuous else (3,))
    tensor = other.predict(torch.from_numpy(obs))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), actions)
    single = agent.predict(obs[0], greedy=True)
    np.testing.assert_array_equal(single, agent.predict(obs[:1], greedy=True)[0])
    with pytest.raises(cule.InvalidArgumentError, match="obs is a Tensor"):
        agent.predict(obs[:, :2])


@pytest.mark.parametrize(
    "buffer", [UniformReplay, PrioritizedReplay, TrajectoryBuffer, SharedPrioritizedReplay]
)
def test_a_buffer_of_an_environment(buffer: Any) -> None:
    env = cule.AtariVectorEnv("pong", 2, output="torch")
    with pytest.raises(cule.InvalidArgumentError, match=r"Options\.for_env\(env"):
        buffer(env)


def test_a_step_of_the_wrong_method() -> None:
    env = cule.AtariVectorEnv("pong", 2, output="torch")
    replay = UniformReplay(ReplayOptions.for_env(env, capacity=20_000))
    obs, _ = env.reset(seed=0)
    replay.start(obs[:, -1])
    step: Any = env.step(np.zeros(2, np.int64))
    with pytest.raises(cule.InvalidArgumentError, match=r"env\.step_frames"):
        replay.append(torch.zeros(2, dtype=torch.int64), step)


def test_an_agent_is_loaded_from_the_folder_of_a_run_and_not_from_weights(tmp_path: Path) -> None:
    agent = small_learner("a2c")
    (tmp_path / "checkpoints").mkdir()
    agent.save(tmp_path / "checkpoints" / "latest.pt")
    again = type(agent).load(tmp_path, agent.setup.env)
    assert all(map(torch.equal, again.network.parameters(), agent.network.parameters()))
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds weights, which can only be played"):
        type(agent).load(weights)
