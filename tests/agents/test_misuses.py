"""Natural misuses of learners and replay memories end in errors that say what was meant."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule.agents import (
    PPO,
    DQNConfig,
    PPOConfig,
    RecurrentPPO,
    RecurrentPPOConfig,
    RunOptions,
    load,
    start_run,
)
from cule.datasets import Recorder, open_dataset
from cule.errors import CheckpointError
from cule.replay import (
    PrioritizedReplay,
    ReplayOptions,
    SharedPrioritizedReplay,
    TrajectoryBuffer,
    UniformReplay,
)
from tests.support.catch import Catch
from tests.support.learners import SMALL, small_learner

CONFIG = PPOConfig(game="pong", num_envs=2, num_steps=8, network="small", decorrelate_steps=0)


def test_a_run_of_something_else(tmp_path: Path) -> None:
    options = RunOptions(out=str(tmp_path))
    with pytest.raises(cule.InvalidArgumentError, match="agent_class is 'ppo'"):
        start_run("ppo", CONFIG, options)  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match="config is 3; it must be PPOConfig"):
        start_run(PPO, 3, options)  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match=r"options is .* it must be RunOptions"):
        start_run(PPO, CONFIG, {"out": str(tmp_path)})  # type: ignore[arg-type]


def test_a_network_by_name() -> None:
    with pytest.raises(cule.InvalidArgumentError, match=r"network is 'mlp'; .* of the config"):
        PPO(CONFIG, network="mlp")  # type: ignore[arg-type]


def test_a_network_that_needs_the_axis_of_one_frame() -> None:
    class OneFrame(torch.nn.Module):
        def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
            super().__init__()
            self.filters = torch.nn.Conv2d(1, num_actions + 1, obs_shape[1:])

        def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.filters(obs.float()).flatten(1)
            return found[:, 1:], found[:, 0]

    config = PPOConfig(num_envs=2, num_steps=8, img_size=12, stack_num=1, decorrelate_steps=0)
    with pytest.raises(cule.InvalidArgumentError, match=r"cannot read .* \[B, 12, 12\]"):
        PPO(config, network=OneFrame)


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


def numbers(dtype: str, count: int = 3) -> np.ndarray[Any, Any]:
    """Observations ``[count, 2, 5, 5]``."""
    return np.arange(count * 50).reshape(count, 2, 5, 5).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_predictions_for_arrays_of_any_layout(dtype: str) -> None:
    env = Catch(2)
    env.single_observation_space.dtype = np.dtype(dtype)
    agent = PPO(PPOConfig(network="mlp"), env)
    frozen = numbers(dtype)
    frozen.setflags(write=False)
    expected = agent.predict(torch.from_numpy(numbers(dtype)), greedy=True).tolist()
    arrays: list[Any] = [frozen, list(frozen), np.asfortranarray(frozen)]
    arrays += [frozen.astype(np.dtype(dtype).newbyteorder()), frozen[::-1].copy()[::-1]]
    arrays += [frozen.tolist()] if dtype == "float32" else []
    for array in arrays:
        assert agent.predict(array, greedy=True).tolist() == expected


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (None, "a NoneType of object"),
        ({"obs": 1}, "a dict of object"),
        ("pong", "a str of <U4"),
        ([[1, 2], [3]], "a list;"),
        (numbers("object"), "a ndarray of object"),
        (numbers("str"), "a ndarray of <U21"),
        (numbers("int8"), "a ndarray of int8"),
        (numbers("uint8").tolist(), r"a list of int64, shape \(3, 2, 5, 5\)"),
        (np.uint8(3), "a Tensor of torch.uint8"),
        (torch.from_numpy(numbers("uint8")).to_sparse(), r"a Tensor .*torch\.sparse_coo"),
        (torch.zeros((3, 2, 5, 5), dtype=torch.uint8, device="meta"), "a Tensor .* on meta"),
    ],
)
def test_predictions_for_what_is_no_observation(obs: Any, words: str) -> None:
    agent = PPO(PPOConfig(network="mlp"), Catch(2))
    with pytest.raises(cule.InvalidArgumentError, match=rf"obs is {words}.*shape \(n, 2, 5, 5\)"):
        agent.predict(obs)
    with pytest.raises(cule.InvalidArgumentError, match="greedy is 'no'; it must be True or False"):
        agent.predict(numbers("uint8"), greedy="no")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_no_observation() -> None:
    obs = torch.nested.nested_tensor([torch.zeros(2, 5, 5), torch.zeros(2, 5, 4)])
    with pytest.raises(cule.InvalidArgumentError, match="obs is a Tensor; it must be"):
        PPO(PPOConfig(network="mlp"), Catch(2)).predict(obs)


@pytest.mark.parametrize(
    "buffer", [UniformReplay, PrioritizedReplay, TrajectoryBuffer, SharedPrioritizedReplay]
)
def test_a_buffer_of_an_environment(buffer: Any) -> None:
    env = cule.AtariVectorEnv("pong", 2, output="torch")
    with pytest.raises(cule.InvalidArgumentError, match=r"Options\.for_env\(env"):
        buffer(env)
    with pytest.raises(cule.InvalidArgumentError, match=r"PrioritizedOptions\.for_env"):
        PrioritizedReplay(ReplayOptions())  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match="env is None, which has no num_envs"):
        ReplayOptions.for_env(None)  # type: ignore[arg-type]


def test_a_step_of_the_wrong_method() -> None:
    env = cule.AtariVectorEnv("pong", 2, output="torch")
    replay = UniformReplay(ReplayOptions.for_env(env, capacity=20_000))
    obs, _ = env.reset(seed=0)
    replay.start(obs[:, -1])
    step: Any = env.step(np.zeros(2, np.int64))
    with pytest.raises(cule.InvalidArgumentError, match=r"env\.step_frames"):
        replay.append(torch.zeros(2, dtype=torch.int64), step)
    step = SimpleNamespace(frame=replay.next_frame())
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


@pytest.mark.parametrize("name", SMALL)
def test_steps_and_states_of_another_kind(name: str) -> None:
    agent = small_learner(name)
    for steps in ("100", float("nan"), True):
        with pytest.raises(cule.InvalidArgumentError, match=r"^steps is .* a number or None"):
            next(agent.train(steps=steps))
    for state in ({}, None, agent.network.state_dict()):
        with pytest.raises(cule.InvalidArgumentError, match=r"^state is .* state_dict of a learn"):
            agent.load_state_dict(state)


@pytest.mark.parametrize("path", [None, 3, True, b"a", "", "a\0b", "\ud800"])
def test_what_is_no_path(path: Any) -> None:
    """To read from a number would be to read from a file that is open."""
    env = cule.AtariVectorEnv("pong", 1, autoreset_mode="SameStep", reward_clipping=False)
    recorder, agent = Recorder(env), PPO(PPOConfig(network="mlp"), Catch(2))
    recorder.reset(seed=0)
    replay = UniformReplay(ReplayOptions.for_env(env, capacity=2000))
    saves = (recorder.save, replay.save, agent.save)
    for call in (*saves, open_dataset, replay.load, PPO.load, load):
        with pytest.raises(cule.InvalidArgumentError, match=r"path is .*; it must be the path"):
            call(path)
    env.close()


@pytest.mark.parametrize("num_envs", [-1, None, True, 1.5])
def test_memory_of_no_number_of_environments(num_envs: Any) -> None:
    agent = RecurrentPPO(RecurrentPPOConfig(network="mlp", num_minibatches=2), Catch(2))
    with pytest.raises(cule.CuleError, match="num_envs is"):
        agent.new_memory(num_envs)
    assert len(agent.new_memory(0)) == 0
