"""PPO and V-trace with an LSTM: memory while playing, learning and evaluating."""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule import algos  # noqa: E402
from cule.agents import PPO, PPOConfig, VTrace, VTraceConfig  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import RecurrentActorCritic, Sequences  # noqa: E402
from cule.watch.policies import PlayOptions, open_trained  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL, class_of, collect  # noqa: E402

#: The learners that remember.
BOTH = pytest.mark.parametrize("name", ["ppo-lstm", "vtrace-lstm"])


class HiddenCatch(Catch):
    """Catch whose ball is shown at the start of an episode only."""

    def _frames(self) -> Any:
        frames = super()._frames()
        paddles = frames[:, -1].clone()
        frames[self.state[0] > 0] = 0
        frames[:, -1] = paddles
        return frames


def config_of(name: str, **changes: Any) -> Any:
    """The options of a small learner, some of them changed."""
    return class_of(name).config_class(**{**SMALL[name].options, **changes})


#: Episodes of 3 steps in even environments, which are cut off, and of 4 in the others.
LIMITS: dict[str, Any] = {
    "limit": torch.tensor([3, 0]).repeat(8),
    "max_num_frames_per_episode": 12,
}


def make(name: str, num_envs: int = 16, *, limit: Any = 0, **changes: Any) -> Any:
    """A small learner of `HiddenCatch`."""
    env = HiddenCatch(num_envs, stack=1, limit=limit)
    return class_of(name)(config_of(name, num_envs=num_envs, **changes), env)  # type: ignore[call-arg]


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
@pytest.mark.parametrize(
    ("name", "plain", "plain_config", "steps"),
    [("ppo-lstm", PPO, PPOConfig, 16_384), ("vtrace-lstm", VTrace, VTraceConfig, 25_600)],
)
def test_what_is_hidden_is_remembered(name: str, plain: Any, plain_config: Any, steps: int) -> None:
    """Without memory one cannot do better than stay in the middle: a fifth of the balls."""
    agent = make(name, total_steps=steps)
    for _ in agent.train():
        pass
    found = agent.evaluate(episodes=40, env=HiddenCatch(16, stack=1, first_env=1000), seed=5)
    assert found.mean >= 0.3
    names = {field.name for field in dataclasses.fields(plain_config)}
    options = {key: value for key, value in SMALL[name].options.items() if key in names}
    config = plain_config(**{**options, "total_steps": steps})
    other = plain(config, HiddenCatch(config.num_envs, stack=1))
    for _ in other.train():
        pass
    assert other.evaluate(episodes=40, env=HiddenCatch(16, stack=1, first_env=1000)).mean < 0


def test_first_updates_begin_at_the_policy_that_acted() -> None:
    """What learning recomputes is what acting found: ratios of 1, and so no divergence."""
    # Sequences of 8 steps begin within episodes of 3.
    limit: dict[str, Any] = {"limit": 3, "max_num_frames_per_episode": 12}
    agent = make("ppo-lstm", num_epochs=1, num_minibatches=1, total_steps=16 * 16 * 3, **limit)
    with torch.no_grad():
        agent.network.policy.weight.mul_(100)
    divergences = [float(p.metrics["approx_kl"]) for p in agent.train()]
    assert len(divergences) == 3
    assert max(map(abs, divergences)) < 1e-6


@pytest.mark.parametrize(("spacing", "batches"), [(0.5, 4), (1.0, 4), (3.0, 2)])
def test_updates_of_batches_begin_with_the_memory_of_their_first_step(
    spacing: float, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights that stay, what an update recomputes is what acting found, at any time."""
    agent = make(
        "vtrace-lstm",
        steps_per_update=spacing,
        num_batches=batches,
        learning_rate=0.0,
        normalize_obs=False,
        total_steps=16 * 40,
        **LIMITS,
    )
    with torch.no_grad():
        agent.network.policy.weight.mul_(100)
    minimise, first_steps = agent.minimise, []

    def checked(rollout: Any) -> Any:
        extras = rollout.extras
        logits, values, after = agent.outputs_of(rollout)
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(8, -1)
        torch.testing.assert_close(log_probs, extras["log_probs"], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(values, extras["values"])
        continues = ~rollout.ended[:-1]
        assert torch.equal(after[:-1][continues], values[1:][continues])
        first_steps.append(extras["starts"][0])
        return minimise(rollout)

    monkeypatch.setattr(agent, "minimise", checked)
    ratios = [float(progress.metrics["ratio_mean"]) for progress in agent.train()]
    assert max(abs(ratio - 1) for ratio in ratios) < 1e-4
    assert len(first_steps) == agent.updates >= 11
    begun = torch.stack(first_steps)
    assert begun.any()
    assert not begun.all()


def test_gradients_are_those_of_steps_one_by_one() -> None:
    """Of a batch in the middle, after the weights have changed."""
    agent = make("vtrace-lstm", learning_rate=0.0, max_grad_norm=0.0, **LIMITS)
    agent.begin()
    collect(agent, 13)
    network, config = agent.network, agent.config
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.3)
    rollout = agent.buffer.rollout(slice(4, 8))
    memory, found = rollout.extras["memory"][0], []
    assert memory.any()
    for obs, starts in zip(rollout.obs, rollout.extras["starts"], strict=True):
        memory = torch.where(starts.unsqueeze(1), 0.0, memory)
        logits, values, memory = network.step(obs, memory)
        found.append((logits, values))
    logits, values = (torch.stack(outputs) for outputs in zip(*found, strict=True))
    log_probs = torch.distributions.Categorical(logits=logits).log_prob(rollout.actions)
    targets, advantages = algos.vtrace(
        log_probs.detach() - rollout.extras["log_probs"],
        rollout.rewards,
        rollout.discounts,
        values.detach(),
        agent.outputs_of(rollout)[2],
        rollout.ended,
    )
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    loss = -(advantages * log_probs).mean() - config.entropy_coef * entropy
    loss = loss + config.value_coef * (values - targets).square().mean()
    parameters = list(network.parameters())
    expected = torch.autograd.grad(loss, parameters)
    agent.next_batch.fill_(1)
    agent.learn_once()
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert gradient.any()
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


@BOTH
def test_values_of_final_observations_have_the_memory_of_their_episode(name: str) -> None:
    limit: dict[str, Any] = {"limit": 2, "max_num_frames_per_episode": 8}
    agent = make(name, 4, num_steps=8, total_steps=32, **limit)
    agent.begin()
    found = []
    for _ in range(8):
        obs, memory = agent.buffer.observe().clone(), agent.memory.clone()
        agent.play_step()
        with torch.no_grad():
            found.append((obs, agent.network.step(obs, memory)[2], agent.memory.clone()))
    rollout = agent.buffer.rollout(with_obs=name == "vtrace-lstm")
    assert rollout.ended.any()
    values = rollout.extras["values"]
    with torch.no_grad():
        last = agent.network.step(agent.buffer.observe(), agent.memory)[1]
    if name == "vtrace-lstm":
        after = agent.outputs_of(rollout)[2]
    else:
        after = agent.values_after(rollout, values, lambda _: last)
    for final, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
        for env, step in enumerate(steps.tolist()):
            if step < 0:
                continue
            memory = found[step][1][env : env + 1]
            with torch.no_grad():
                wanted = agent.network.step(final[env : env + 1], memory)[1]
            torch.testing.assert_close(after[step, env], wanted[0])
            assert not agent.memory[env].equal(memory[0])
    following = torch.cat([values[1:], last.unsqueeze(0)])
    torch.testing.assert_close(after[~rollout.ended], following[~rollout.ended])
    for step in range(8):  # blank after an episode, else what the network made
        ended = rollout.ended[step]
        assert not found[step][2][ended].any()
        torch.testing.assert_close(found[step][2][~ended], found[step][1][~ended])


@pytest.mark.ale
@BOTH
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_memory_is_blank_where_episodes_begin(name: str, mode: str) -> None:
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
    config = config_of(
        name,
        game="breakout",
        num_envs=4,
        num_steps=32,
        total_steps=256,
        max_num_frames_per_episode=80,
        decorrelate_steps=0,
    )
    agent: Any = class_of(name)(config, env)  # type: ignore[call-arg]
    for _ in agent.train():
        extras = agent.buffer.rollout(with_obs=False).extras
        is_blank = (extras["memory"] == 0).all(-1)
        assert torch.equal(is_blank, extras["starts"])
        assert 8 <= int(is_blank.sum()) < 32
        assert agent.setup.is_finite
    env.close()


@BOTH
def test_a_run_continues_exactly(name: str) -> None:
    """From a state in the middle of episodes, with the memory of each."""
    agent = make(name, total_steps=16 * 40, **LIMITS)
    for _ in agent.train(16 * 18):
        pass
    assert agent.memory.any()
    assert not agent.starts.all()
    state = copy.deepcopy(agent.state_dict())
    other = make(name, total_steps=16 * 40, **LIMITS)
    other.load_state_dict(state)
    for learner in (agent, other):
        for _ in learner.train():
            pass
    for ours, theirs in zip(agent.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(agent.memory, other.memory)


@BOTH
def test_a_run_may_continue_with_more_environments(name: str) -> None:
    """Without a buffer, as after a change of the number of processes."""
    agent = make(name, 8, total_steps=512)
    for _ in agent.train():
        pass
    state = agent.state_dict()
    del state["extra"]["buffer"]
    other = make(name, 16, total_steps=1024)
    other.load_state_dict(state)
    for _ in other.train():
        pass
    assert other.steps == 1024


@BOTH
def test_predictions_with_and_without_memory(name: str) -> None:
    agent = make(name, 4, total_steps=64, num_steps=16)
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
        InvalidArgumentError, match=r"shape \(3, 64\); it must be a .* of shape \(2, 64\)"
    ):
        agent.predict(obs[:2], memory=memory)
    for bad in (memory.numpy(), memory.double(), [0.0]):
        with pytest.raises(InvalidArgumentError, match=r"memory is .*, from new_memory"):
            agent.predict(obs, memory=bad)
    other = PPO(PPOConfig(network="mlp", num_envs=2), Catch(2))
    assert other.new_memory(2) is None
    with pytest.raises(InvalidArgumentError, match=r"memory is .* it must be None"):
        other.predict(np.zeros((2, 2, 5, 5), np.uint8), memory=memory)
    with pytest.raises(InvalidArgumentError, match=r"memory is \[1\]; it must be None"):
        other.predict(np.zeros((2, 2, 5, 5), np.uint8), memory=[1])  # type: ignore[arg-type]


@BOTH
def test_policies_of_watch_and_record_remember(name: str, tmp_path: Path) -> None:
    agent = class_of(name)(config_of(name, game="pong", num_envs=4, network="small", img_size=42))  # type: ignore[call-arg]
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
    ("name", "option", "value", "message"),
    [
        ("ppo-lstm", "sequence_length", 5, "; it must be a divisor of num_steps, 16"),
        ("ppo-lstm", "num_minibatches", 64, ", which does not divide the 32 sequences"),
        ("ppo-lstm", "num_players", 2, "; with an LSTM it must be 1"),
        ("ppo-lstm", "compile", True, "; with an LSTM it must be False"),
        ("ppo-lstm", "continuous", True, "; with an LSTM it must be False"),
        ("ppo-lstm", "normalize_values", True, "; with an LSTM it must be False"),
        ("ppo-lstm", "target_kl", 0.1, "; with an LSTM it must be None"),
        ("vtrace-lstm", "num_players", 2, "; with an LSTM it must be 1"),
        ("vtrace-lstm", "compile", True, "; with an LSTM it must be False"),
        ("vtrace-lstm", "num_batches", 3, "; it must divide num_envs, 16"),
    ],
)
def test_what_does_not_go_with_memory_is_refused(
    name: str, option: str, value: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{option} is {value}{message}"):
        make(name, **{option: value})


@BOTH
def test_networks_without_memory_are_refused(name: str) -> None:
    from cule.nets import ActorCritic

    class Odd(RecurrentActorCritic):
        def blank_memory(self, count: int) -> Any:
            return torch.ones(count, 2 * self.memory_size)

    for network, message in (
        (ActorCritic, "ActorCritic without blank_memory and step"),
        (Odd, r"blank_memory made a tensor of shape \(16, 256\); it must make zeros"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            class_of(name)(  # type: ignore[call-arg]
                config_of(name, num_envs=16),
                HiddenCatch(16, stack=1),
                network=partial(network, torso="mlp"),
            )
