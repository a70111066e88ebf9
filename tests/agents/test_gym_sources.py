"""Gymnasium vector environments as sources: floats, images, every autoreset mode."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

torch = pytest.importorskip("torch")

from cule.agents import (  # noqa: E402
    A2C,
    DQN,
    PPO,
    PQN,
    A2CConfig,
    ApexConfig,
    ApexDQN,
    DQNConfig,
    PPOConfig,
    PQNConfig,
)
from cule.agents.parts.gym_env import GymFrameEnv  # noqa: E402
from cule.agents.parts.rollout import next_values  # noqa: E402
from cule.agents.ppo import Samples  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import collect, small_learner  # noqa: E402

MODES = list(AutoresetMode)


class Counter(gymnasium.Env[Any, Any]):
    """Shows (number of the episode, steps so far, last action); episodes end by both ways.

    Episode k has 2 + k % 3 steps; every other one is truncated. Rewards are the action.
    """

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(5)
    episode = -1

    def reset(self, **keywords: Any) -> Any:
        super().reset(**keywords)
        self.episode, self.steps = self.episode + 1, 0
        return np.array([self.episode, 0, -1], np.float64), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        ends = self.steps == 2 + self.episode % 3
        cut = ends and self.episode % 2 == 1
        obs = np.array([self.episode, self.steps, action], np.float64)
        return obs, float(action), ends and not cut, cut, {}


def make(env: Any, num_envs: int, mode: AutoresetMode) -> Any:
    return SyncVectorEnv([env] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_those_of_the_environment(mode: AutoresetMode) -> None:
    """Frames, final frames, returns and lengths, against a loop over one environment."""
    env = GymFrameEnv(make(Counter, 2, mode))
    is_next_step = mode == AutoresetMode.NEXT_STEP
    assert env.metadata["autoreset_mode"] == ("NextStep" if is_next_step else "SameStep")
    obs, _ = env.reset(seed=0)
    assert obs.dtype == torch.float32
    single = Counter()
    single.reset()
    total, length, resets = 0.0, 0, False
    for step in range(40):
        action = step % 5
        found = env.step_frames(torch.tensor([action, action]))
        if resets and is_next_step:
            frame, reward, terminated, truncated = single.reset()[0], 0.0, False, False
            total, length = 0.0, 0
        else:
            if resets:
                total, length = 0.0, 0
            frame, reward, terminated, truncated, _ = single.step(action)
            total, length = total + reward, length + 1
        first, resets = resets and is_next_step, terminated or truncated
        for i in range(2):
            assert found.reward[i] == reward
            assert bool(found.terminated[i]) == terminated
            assert bool(found.truncated[i]) == truncated
            if resets:
                assert found.final_frame[i].tolist() == frame.tolist()
                assert found.episode_return[i] == total
                assert found.episode_length[i] == length
        if resets and not is_next_step:
            frame, first = single.reset()[0], True
        assert found.frame.tolist() == [frame.tolist()] * 2
        assert found.first.tolist() == [first] * 2


#: Settings with which CartPole is learned in seconds, and steps.
CARTPOLE: dict[type[Any], tuple[Any, int]] = {
    PPO: (
        PPOConfig(num_steps=32, learning_rate=2.5e-3, clip_range=0.2, num_minibatches=4, seed=1),
        30_000,
    ),
    A2C: (
        A2CConfig(
            num_envs=8,
            num_steps=16,
            learning_rate=2e-3,
            rmsprop_eps=1e-10,
            gae_lambda=0.95,
            seed=1,
        ),
        40_000,
    ),
    PQN: (
        PQNConfig(num_steps=32, num_minibatches=4, learning_rate=1e-3, exploration_fraction=0.5),
        60_000,
    ),
    DQN: (
        DQNConfig(
            learning_rate=1e-3,
            memory=20_000,
            learning_starts=1_000,
            epsilon_steps=10_000,
            target_interval=250,
            samples_per_insert=16.0,
            batch_size=64,
        ),
        20_000,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("agent_class", CARTPOLE)
def test_cartpole_is_learned(agent_class: Any, mode: AutoresetMode) -> None:
    config, steps = CARTPOLE[agent_class]
    config = dataclasses.replace(config, network="mlp", total_steps=steps)
    env = gymnasium.make_vec(
        "CartPole-v1", 8, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    agent = agent_class(config, env)
    assert agent.setup.obs_dtype == torch.float32
    for _ in agent.train():
        pass
    test = gymnasium.make_vec(
        "CartPole-v1", 10, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    assert agent.evaluate(episodes=10, env=test).mean > 100.0  # random: 22


def test_ignored_steps_are_not_learned_from() -> None:
    """With NextStep the loss is that of the steps whose action counted."""
    rewards: list[float] = []
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        config = PPOConfig(
            num_steps=24, num_minibatches=1, num_epochs=1, network="mlp", reward_rule="none"
        )
        agent: Any = PPO(config, make(Counter, 4, mode))
        agent.begin()
        collect(agent, 24)
        rollout = agent.buffer.rollout()
        used = agent.setup.only_valid(rollout.valid)
        assert (used is None) == (mode == AutoresetMode.SAME_STEP)
        if used is not None:
            assert 0 < int((~used).sum()) < used.numel() / 2
            # The contents of an ignored step have no effect.
            state = {k: v.clone() for k, v in agent.network.state_dict().items()}
            results = []
            for noise in (0.0, 5.0):
                agent.network.load_state_dict(state)
                obs, actions = rollout.obs.flatten(0, 1), rollout.actions.flatten()
                valid = rollout.valid.flatten()
                advantages = torch.linspace(-1, 1, len(valid)) + noise * ~valid
                returns = torch.ones(len(valid)) + noise * ~valid
                old = rollout.extras["log_probs"].flatten() - noise * ~valid
                stop = torch.zeros((), dtype=torch.bool)
                samples = Samples(obs, actions, advantages, returns, old, returns, valid)
                metrics = agent.minimise(samples, stop)
                results.append({k: float(v) for k, v in metrics.items()})
            assert results[0] == pytest.approx(results[1], rel=1e-5, abs=1e-7)
        rewards.append(float(rollout.rewards.sum()))
    assert all(rewards)


@pytest.mark.parametrize("local_norm", [False, True])
def test_minibatches_without_steps_that_count_keep_weights_finite(local_norm: bool) -> None:
    """Such as those of one sample, some of which are ignored steps."""
    sizes = {"num_steps": 8, "num_minibatches": 16, "total_steps": 32}
    config = PPOConfig(network="mlp", num_envs=2, local_norm=local_norm, **sizes)
    agent = PPO(config, make(Counter, 2, AutoresetMode.NEXT_STEP))
    for _ in agent.train():
        assert all(p.isfinite().all() for p in agent.network.parameters())


@pytest.mark.parametrize("name", ["a2c", "ppo", "pqn", "vtrace"])
def test_truncated_episodes_have_the_value_of_their_final_observation(name: str) -> None:
    """With NextStep, where it is the observation of the next, ignored step."""
    changes = {"num_envs": 4, "num_steps": 16}
    if name == "vtrace":
        changes["num_batches"] = 1
    agent: Any = small_learner(name, env=Catch(4), **changes)
    wrapped = type(agent)(agent.config, make(Counter, 4, AutoresetMode.NEXT_STEP))
    wrapped.begin()
    collect(wrapped, 16)
    rollout = wrapped.buffer.rollout()
    values = wrapped.values_of(rollout.obs.flatten(0, 1)).view(16, 4)
    following = next_values(rollout, values, wrapped.values_of, wrapped.setup)
    cut = rollout.ended & (rollout.discounts > 0)
    assert cut[:-1].any()
    for t, e in cut[:-1].nonzero().tolist():
        assert rollout.obs[t + 1, e, 1] == 2 + rollout.obs[t, e, 0] % 3  # the last step
        assert following[t, e] == values[t + 1, e]
        assert not rollout.valid[t + 1, e]


class Picture(gymnasium.Env[Any, Any]):
    """Colour images with the channels last."""

    observation_space = gymnasium.spaces.Box(0, 255, (36, 40, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **keywords: Any) -> Any:
        super().reset(**keywords)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


def test_images_are_bytes_with_channels_first() -> None:
    config = PPOConfig(num_envs=2, num_steps=4, network="nips", total_steps=16, normalize_obs=True)
    agent: Any = PPO(config, make(Picture, 2, AutoresetMode.NEXT_STEP))
    assert agent.obs_shape == (3, 36, 40)
    assert agent.setup.obs_dtype == torch.uint8
    for _ in agent.train():
        pass
    assert agent.buffer.rollout().obs.shape == (4, 2, 3, 36, 40)
    assert agent.buffer.rollout().obs.dtype == torch.uint8


def test_a_resumed_run_begins_new_episodes(tmp_path: Path) -> None:
    config = PPOConfig(num_steps=8, network="mlp", total_steps=256)
    agent: Any = PPO(config, make(Counter, 8, AutoresetMode.NEXT_STEP))
    for _ in agent.train(steps=128):
        pass
    agent.save(tmp_path / "at.pt")
    again: Any = PPO.load(tmp_path / "at.pt", make(Counter, 8, AutoresetMode.NEXT_STEP))
    assert [progress.steps for progress in again.train()] == [192, 256]


def test_what_does_not_fit_is_refused() -> None:
    class Words(Counter):
        observation_space = gymnasium.spaces.Text(3)

    with pytest.raises(InvalidArgumentError, match="they must be a Box"):
        GymFrameEnv(make(Words, 2, AutoresetMode.NEXT_STEP))
    agent: Any = PPO(PPOConfig(network="mlp"), make(Counter, 8, AutoresetMode.SAME_STEP))
    with pytest.raises(InvalidArgumentError, match="need environments to evaluate in"):
        agent.evaluate(episodes=10)
    with pytest.raises(InvalidArgumentError, match="'vector' or 'mlp'"):
        PPO(PPOConfig(), make(Counter, 8, AutoresetMode.SAME_STEP))
    with pytest.raises(InvalidArgumentError, match="for Ape-X it must be 'SameStep'"):
        ApexDQN(ApexConfig(network="mlp"), make(Counter, 8, AutoresetMode.NEXT_STEP))
