"""PPO with an LSTM: memory while playing, learning and evaluating."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule.agents import PPO, PPOConfig, RecurrentPPO, RecurrentPPOConfig  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import RecurrentActorCritic, Sequences  # noqa: E402
from cule.watch.policies import PlayOptions, open_trained  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL  # noqa: E402

OPTIONS: dict[str, Any] = SMALL["ppo-lstm"].options


class HiddenCatch(Catch):
    """Catch whose ball is shown at the start of an episode only."""

    def _frames(self) -> Any:
        frames = super()._frames()
        paddles = frames[:, -1].clone()
        frames[self.state[0] > 0] = 0
        frames[:, -1] = paddles
        return frames


def make(num_envs: int = 16, **changes: Any) -> RecurrentPPO:
    """A small learner of `HiddenCatch`."""
    limit = changes.pop("limit", 0)
    config = RecurrentPPOConfig(**{**OPTIONS, "num_envs": num_envs, **changes})
    return RecurrentPPO(config, HiddenCatch(num_envs, stack=1, limit=limit))


def test_sequences_are_steps() -> None:
    """Outputs of a sequence are those of its steps, with blank memory where episodes begin."""
    torch.manual_seed(0)
    network = RecurrentActorCritic((3, 4, 4), 5, torso="mlp", memory_size=7)
    obs = torch.randint(0, 256, (6, 3, 3, 4, 4), dtype=torch.uint8)
    starts = torch.rand(6, 3) < 0.3
    first = torch.randn(3, 14)
    logits, values = network(Sequences(obs, starts, first))
    memory = first
    for t in range(6):
        memory = torch.where(starts[t].unsqueeze(1), 0.0, memory)
        wanted_logits, wanted_values, memory = network.step(obs[t], memory)
        torch.testing.assert_close(logits.view(6, 3, 5)[t], wanted_logits)
        torch.testing.assert_close(values.view(6, 3)[t], wanted_values)
    blank, _ = network(obs[0])
    torch.testing.assert_close(blank, network.step(obs[0], network.blank_memory(3))[0])
    logits.sum().backward()
    assert network.cell.weight_hh.grad is not None
    assert network.cell.weight_hh.grad.abs().sum() > 0


@pytest.mark.long
def test_what_is_hidden_is_remembered() -> None:
    """Without memory one cannot do better than stay in the middle: a fifth of the balls."""
    agent = make(total_steps=16_384)
    for _ in agent.train():
        pass
    found = agent.evaluate(episodes=40, env=HiddenCatch(16, stack=1, first_env=1000), seed=5)
    assert found.mean >= 0.3
    names = {field.name for field in dataclasses.fields(PPOConfig)}
    options = {name: value for name, value in OPTIONS.items() if name in names}
    config = PPOConfig(**{**options, "total_steps": 16_384})
    other = PPO(config, HiddenCatch(config.num_envs, stack=1))
    for _ in other.train():
        pass
    assert other.evaluate(episodes=40, env=HiddenCatch(16, stack=1, first_env=1000)).mean < 0


def test_first_updates_begin_at_the_policy_that_acted() -> None:
    """What learning recomputes is what acting found: ratios of 1, and so no divergence."""
    # Sequences of 8 steps begin within episodes of 3.
    limit = {"limit": 3, "max_num_frames_per_episode": 12}
    agent = make(num_epochs=1, num_minibatches=1, total_steps=16 * 16 * 3, **limit)
    with torch.no_grad():
        agent.network.policy.weight.mul_(100)
    divergences = [float(p.metrics["approx_kl"]) for p in agent.train()]
    assert len(divergences) == 3
    assert max(map(abs, divergences)) < 1e-6


def test_values_of_final_observations_have_the_memory_of_their_episode() -> None:
    agent = make(4, num_steps=8, limit=2, total_steps=32, max_num_frames_per_episode=8)
    agent.begin()
    found = []
    for _ in range(8):
        obs, memory = agent.buffer.observe().clone(), agent.memory.clone()
        agent.play_step()
        with torch.no_grad():
            found.append((obs, agent.network.step(obs, memory)[2], agent.memory.clone()))
    rollout = agent.buffer.rollout()
    assert rollout.ended.any()
    after = agent._next_values(rollout)
    values = rollout.extras["values"]
    for final, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
        for env, step in enumerate(steps.tolist()):
            if step < 0:
                continue
            memory = found[step][1][env : env + 1]
            with torch.no_grad():
                wanted = agent.network.step(final[env : env + 1], memory)[1]
            torch.testing.assert_close(after[step, env], wanted[0])
            assert not agent.memory[env].equal(memory[0])
    torch.testing.assert_close(after[:-1][~rollout.ended[:-1]], values[1:][~rollout.ended[:-1]])
    for step in range(8):  # blank after an episode, else what the network made
        ended = rollout.ended[step]
        assert not found[step][2][ended].any()
        torch.testing.assert_close(found[step][2][~ended], found[step][1][~ended])


@pytest.mark.ale
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_memory_is_blank_where_episodes_begin(mode: str) -> None:
    env = cule.AtariVectorEnv(
        "breakout",
        4,
        autoreset_mode=mode,
        output="torch",
        stack_num=1,
        frameskip=8,
        max_num_frames_per_episode=80,
        reward_clipping=False,
        img_height=12,
        img_width=12,
        num_threads=1,
    )
    config = RecurrentPPOConfig(
        **{**OPTIONS, "game": "breakout", "num_envs": 4, "num_steps": 32, "total_steps": 256},
        max_num_frames_per_episode=80,
        decorrelate_steps=0,
    )
    agent = RecurrentPPO(config, env)
    for _ in agent.train():
        extras = agent.buffer.rollout(with_obs=False).extras
        is_blank = (extras["memory"] == 0).all(-1)
        assert torch.equal(is_blank, extras["starts"])
        assert 8 <= int(is_blank.sum()) < 32
        assert agent.setup.is_finite
    env.close()


def test_a_run_may_continue_with_more_environments() -> None:
    """Without a buffer, as after a change of the number of processes."""
    agent = make(8, total_steps=512)
    for _ in agent.train():
        pass
    state = agent.state_dict()
    del state["extra"]["buffer"]
    other = make(16, total_steps=1024)
    other.load_state_dict(state)
    for _ in other.train():
        pass
    assert other.steps == 1024


def test_predictions_with_and_without_memory() -> None:
    agent = make(4, total_steps=64, num_steps=16)
    for _ in agent.train():
        pass
    obs = np.zeros((3, 1, 5, 5), np.uint8)
    memory = agent.new_memory(3)
    agent.predict(obs, memory=memory)
    once = memory.clone()
    assert once.any()
    agent.predict(obs, memory=memory)
    assert not torch.equal(memory, once)
    agent.predict(obs)
    with pytest.raises(
        InvalidArgumentError, match=r"shape \(3, 64\); it must be of shape \(2, 64\)"
    ):
        agent.predict(obs[:2], memory=memory)
    other = PPO(PPOConfig(network="mlp", num_envs=2), Catch(2))
    assert other.new_memory(2) is None
    with pytest.raises(InvalidArgumentError, match=r"memory is a tensor .* it must be None"):
        other.predict(np.zeros((2, 2, 5, 5), np.uint8), memory=memory)


def test_policies_of_watch_and_record_remember(tmp_path: Path) -> None:
    config = RecurrentPPOConfig(
        game="pong", num_envs=4, num_steps=16, stack_num=1, network="small", img_size=42
    )
    agent = RecurrentPPO(config)
    path = tmp_path / "a.pt"
    agent.save(path)
    env, policy = open_trained(PlayOptions(checkpoint=path, num_envs=4, greedy=True))
    with env:
        memory = agent.new_memory(4)
        generator = torch.Generator()
        obs, _ = env.reset(seed=0)
        for step in range(8):
            wanted = agent.act(obs, generator, greedy=True, memory=memory)
            assert policy.act(obs).tolist() == wanted.tolist()
            starts = np.array([step == 3, False, step == 5, False])
            policy.begin(starts)
            memory[torch.from_numpy(starts)] = 0
            obs, *_ = env.step(np.full(4, step % 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": 5}, "sequence_length is 5; it must be a divisor of num_steps, 16"),
        ({"num_minibatches": 64}, "num_minibatches is 64, which does not divide the 32 sequences"),
        ({"num_players": 2}, "num_players is 2; with an LSTM it must be 1"),
        ({"compile": True}, "compile is True; with an LSTM it must be False"),
        ({"target_kl": 0.1}, "target_kl is 0.1; with an LSTM it must be None"),
    ],
)
def test_what_does_not_go_with_memory_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make(**changes)


def test_networks_without_memory_are_refused() -> None:
    from cule.nets import ActorCritic

    with pytest.raises(InvalidArgumentError, match="ActorCritic without blank_memory and step"):
        RecurrentPPO(
            RecurrentPPOConfig(**OPTIONS),
            HiddenCatch(16, stack=1),
            network=lambda shape, actions: ActorCritic(shape, actions, torso="mlp"),
        )
