"""What bounds the precision and the size of updates: heads, pixel statistics, epsilon of RMSProp."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule import nets  # noqa: E402
from cule.agents import AGENTS, PRESETS, AgentConfig  # noqa: E402
from cule.agents.parts.optim import make_rmsprop  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402

OBS_SHAPE = (4, 10, 10)


def outputs_of_heads(kind: str) -> list[Any]:
    """What a network returns for random observations, under autocast to bfloat16."""
    torch.manual_seed(0)
    obs = torch.randint(0, 256, (64, *OBS_SHAPE), dtype=torch.uint8)
    with torch.autocast("cpu", torch.bfloat16):
        if kind == "dpg":
            network: Any = nets.DeterministicActorCritic(OBS_SHAPE, torso="mlp")
            features = network.features(obs)
            assert features.dtype == torch.bfloat16  # the torso is rounded
            return [network.raw_actions(features), network.values(features, torch.rand(64, 3))]
        if kind == "actor-critic":
            return list(nets.ActorCritic(OBS_SHAPE, 6, torso="mlp")(obs))
        if kind == "gaussian":
            return list(nets.GaussianActorCritic(OBS_SHAPE, torso="mlp")(obs))
        if kind == "pqn":
            return [nets.NormalizedQNetwork(OBS_SHAPE, 6, torso="mlp")(obs)]
        network = nets.QNetwork(
            OBS_SHAPE,
            6,
            torso="mlp",
            dueling="dueling" in kind,
            noisy="noisy" in kind,
            num_atoms=51 if "atoms" in kind else 1,
        )
        nets.sample_noise(network)
        return [network(obs)]


@pytest.mark.parametrize(
    "kind",
    [
        "actor-critic",
        "gaussian",
        "dpg",
        "pqn",
        "q",
        "q-dueling",
        "q-noisy",
        "q-dueling-noisy-atoms",
    ],
)
def test_heads_are_not_rounded_to_bfloat16(kind: str) -> None:
    """Values of 8 bits would be multiples of 1/16 from 8 on."""
    for output in outputs_of_heads(kind):
        assert output.dtype == torch.float32
        rounded = output.bfloat16().float()
        assert float((output != rounded).float().mean()) > 0.95


@pytest.mark.parametrize("name", ["ppo", "ppo-continuous"])
def test_the_first_ratios_are_one_with_pixel_statistics(name: str) -> None:
    """At a learning rate of 0, in every round."""
    agent: Any = small_learner(name, normalize_obs=True, learning_rate=0.0, total_steps=256 * 4)
    moved = []
    for progress in agent.train():
        assert float(progress.metrics["clip_fraction"]) == 0.0
        assert float(progress.metrics["approx_kl"]) == pytest.approx(0.0, abs=1e-6)
        moved.append(agent.network.statistics.mean.clone())
    assert not torch.equal(moved[0], moved[1])


@pytest.mark.parametrize(
    ("name", "num_steps"), [("ppo", 16), ("a2c", 5), ("vtrace", 8), ("pqn", 4)]
)
def test_pixel_statistics_are_those_of_all_frames(name: str, num_steps: int) -> None:
    """The frames of a learner are counted once, after the rollout that they are in."""
    env = Catch(16)
    agent: Any = small_learner(
        name, env=env, num_envs=16, num_steps=num_steps, normalize_obs=True, forward_batch=40
    )
    agent.begin()
    shown = [env._frames()]  # the first count twice: before the first rollout and in it
    statistics = agent.network.statistics
    assert float(statistics.count) == 1 + 16
    shown += [env._frames()]
    play_step = agent.play_step
    counts = []

    def recorded() -> None:
        counts.append(float(statistics.count))
        play_step()
        shown.append(env._frames())

    agent.play_step = recorded
    for _ in agent.train(steps=16 * num_steps * 3):
        pass
    assert counts == [1 + 16 * (1 + num_steps * (t // num_steps)) for t in range(num_steps * 3)]
    frames = torch.cat(shown[:-1]).float()
    total = len(frames) + 1
    mean = frames.sum(0) / total
    square = (frames.square().sum(0) + 255.0**2) / total
    torch.testing.assert_close(statistics.mean, mean, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(statistics.variance, square - mean.square(), rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize(
    "name",
    long_except(["dqn", "rainbow", "iqn", "apex-dqn", "apex-dqn-overlap", "apex-dpg"], "dqn"),
)
def test_pixel_statistics_before_learning_are_kept(name: str) -> None:
    """A memory holds old frames, whose values must not change with the statistics."""
    env = Catch(16, continuous=name == "apex-dpg")
    agent: Any = small_learner(name, env=env, normalize_obs=True)
    agent.begin()
    statistics = agent.network.statistics
    shown = []
    step_frames = env.step_frames

    def recorded(*arguments: Any, **keywords: Any) -> Any:
        step = step_frames(*arguments, **keywords)
        shown.append((agent.updates, step.frame.clone()))
        return step

    env.step_frames = recorded  # type: ignore[method-assign]
    for _ in agent.train(steps=1600):
        pass
    frames = torch.cat([frame for updates, frame in shown if updates == 0]).float()
    total = len(frames) + 1
    assert 300 <= float(statistics.count) == total < 16 * len(shown)
    torch.testing.assert_close(statistics.mean, frames.sum(0) / total, rtol=1e-4, atol=1e-3)
    copies = [agent.target, *([agent.actor] if hasattr(agent, "actor") else [])]
    assert all(copied.statistics is statistics for copied in copies)


@pytest.mark.parametrize("shape", [(3, 6, 5), (1, 6, 5), (7,)])
def test_normalized_observations(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    statistics = nets.PixelStatistics(shape)
    frames = torch.randint(0, 40, (100, *shape[-2:]), generator=generator).to(torch.uint8)
    statistics.update(frames)
    obs = torch.randint(0, 256, (9, *shape), generator=generator).to(torch.uint8)
    if shape[0] == 1:
        obs = obs[:, 0]  # no stack
    wanted = (obs.double() - statistics.mean) / (statistics.variance.double() + 1e-2).sqrt()
    assert wanted.abs().max() > 5.0
    torch.testing.assert_close(statistics(obs) / 255.0, wanted.clamp(-5.0, 5.0).float())
    assert torch.equal(statistics(obs.float()), statistics(obs))


def test_epsilon_is_under_the_root() -> None:
    """As in TensorFlow: it bounds the steps of parameters with small gradients."""
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = make_rmsprop([parameter], learning_rate=0.5, alpha=0.99, eps=1e-5)
    square = 0.0
    for gradient in (1e-6, -3e-6, 2e-5):
        before = parameter.item()
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        square = 0.99 * square + 0.01 * gradient**2
        step = -0.5 * gradient / math.sqrt(square + 1e-5)
        assert parameter.item() - before == pytest.approx(step, rel=1e-2)


@pytest.mark.parametrize(
    ("preset", "eps"),
    [("a2c", 1e-5), ("vtrace", 1e-10), ("vtrace-impala", 0.01), ("dqn-nature", 0.01)],
)
def test_presets_with_rmsprop_convert_epsilon(preset: str, eps: float) -> None:
    chosen = PRESETS[preset]
    options = {**chosen.options, "num_envs": 20, "network": "mlp", "memory": 50_000}
    config_class = AGENTS[chosen.algorithm].config_class
    known = config_class.__dataclass_fields__
    config: AgentConfig = config_class(**{k: v for k, v in options.items() if k in known})
    agent = AGENTS[chosen.algorithm](config, Catch(20))
    assert agent.optimizer.param_groups[0]["eps"] == pytest.approx(math.sqrt(eps))
