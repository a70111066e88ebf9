"""Every learner learns: Catch, from random play (about -0.6) to a stated return."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS, AgentConfig  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.option_fields import field_docs  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL, class_of, collect, small_env, small_learner  # noqa: E402


def play(agent: Any, games: int = 100) -> float:
    env = Catch(20, continuous=agent.config.continuous, first_env=1000)
    return float(agent.evaluate(episodes=games, env=env, seed=7).mean)


def test_every_learner_is_tried() -> None:
    assert {class_of(name) for name in SMALL} == set(AGENTS.values())


@pytest.mark.parametrize("name", long_except(sorted(SMALL), "dqn", "ppo"))
def test_catch_is_learned(name: str) -> None:
    agent = small_learner(name)
    assert play(agent) < 0.0
    steps = [progress.steps for progress in agent.train()]
    assert steps == sorted(steps)
    assert SMALL[name].steps <= steps[-1] < SMALL[name].steps + 1000
    agent.check_finite()
    assert agent.updates > 50
    assert play(agent) >= SMALL[name].reaches


@pytest.mark.learn
@pytest.mark.parametrize("name", sorted(SMALL))
def test_large_catch_is_learned(name: str) -> None:
    steps = 12 * SMALL[name].steps
    agent = small_learner(name, env=small_env(name, size=10), total_steps=steps)
    for _ in agent.train():
        pass
    test_env = small_env(name, 20, size=10, first_env=1000)
    assert agent.evaluate(episodes=100, env=test_env, seed=7).mean >= 0.8


@pytest.mark.parametrize("name", long_except(sorted(SMALL), every=3))
def test_time_limits_are_bootstrapped_and_finite(name: str) -> None:
    # Every episode is cut off before the ball lands: no reward is ever seen.
    limit = {"max_num_frames_per_episode": 12}
    agent = small_learner(name, env=small_env(name, limit=3), total_steps=640, **limit)
    metrics: dict[str, Any] = {}
    for progress in agent.train():
        metrics = dict(progress.metrics)
    agent.check_finite()
    numbers = agent.statistics.read()
    assert numbers["truncations"] == numbers["episodes"] > 0
    assert numbers["episode_length"] == 3
    assert metrics
    assert all(math.isfinite(float(value)) for value in metrics.values())


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_what_is_replayed_is_what_was_acted_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, over ends and time limits of episodes."""
    env = small_env(name, limit=3, stack=4)
    env.limit = torch.tensor([3, 0]).repeat(8)
    changes: dict[str, Any] = {"learning_starts": 20_000} if name == "dqn" else {"num_steps": 20}
    agent: Any = small_learner(name, env=env, max_num_frames_per_episode=12, **changes)
    agent.begin()
    acting = "acting_values" if name == "dqn" else "choose"
    act, seen = getattr(agent, acting), []

    def look(obs: Any) -> Any:
        seen.append(obs.clone())
        return act(obs)

    monkeypatch.setattr(agent, acting, look)
    collect(agent, 20)
    if name == "dqn":
        replayed = agent.replay.sample_at(torch.arange(20 * 16)).obs.view(20, 16, 4, 5, 5)
    else:
        replayed = agent.buffer.rollout().obs
    assert torch.equal(replayed, torch.stack(seen))
    assert agent.statistics.read()["truncations"] > 0


@pytest.mark.parametrize("name", long_except(sorted(SMALL), every=3))
def test_one_frame_without_a_stack(name: str) -> None:
    agent = small_learner(name, env=small_env(name, size=36, stack=1), network="small")
    assert agent.obs_shape == (1, 36, 36)
    while not agent.updates:
        for _ in agent.train(steps=agent.steps + 1):
            pass
    agent.check_finite()
    obs = torch.randint(0, 256, (9, 1, 36, 36)).to(torch.uint8)
    stacked, plain = (
        agent.act(x, torch.Generator().manual_seed(0), greedy=True) for x in (obs, obs[:, 0])
    )
    assert torch.equal(stacked, plain)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_same_seed_same_weights(name: str) -> None:
    weights = []
    for _ in range(2):
        agent = small_learner(name, total_steps=640)
        for _ in agent.train():
            pass
        weights.append(torch.cat([p.detach().flatten() for p in agent.network.parameters()]))
    assert torch.equal(*weights)
    other = small_learner(name, total_steps=640, seed=2)
    first = torch.cat([p.detach().flatten() for p in other.network.parameters()])
    assert not torch.equal(first, weights[0])


@pytest.mark.parametrize("name", long_except(sorted(set(SMALL) - {"apex-dqn-overlap"}), every=3))
def test_a_limit_of_0_is_no_limit_of_gradients(name: str) -> None:
    weights = []
    for limit in (0.0, float("inf"), 1e-6):
        agent = small_learner(name, max_grad_norm=limit)
        while not agent.updates:
            for _ in agent.train(steps=agent.steps + 1):
                pass
        weights.append(torch.cat([p.detach().flatten() for p in agent.network.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("precision", "allows"), [("fp32", False), ("tf32", True), ("bf16", True)])
@pytest.mark.parametrize("warns", [False, True])
def test_float32_is_not_rounded_unless_asked(
    precision: str, allows: bool, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a torch that warns of the setting, as 2.9 does."""
    set_tf32 = torch._C._set_cublas_allow_tf32

    def warn_and_set(value: bool) -> None:
        warnings.warn(
            "Please use the new API settings to control TF32 behavior, such as "
            "torch.backends.cuda.matmul.fp32_precision='tf32'.",
            UserWarning,
            stacklevel=2,
        )
        set_tf32(value)

    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = not allows
        with monkeypatch.context() as patch:
            if warns:
                patch.setattr(torch._C, "_set_cublas_allow_tf32", warn_and_set)
            small_learner("a2c", precision=precision)
        assert [backend.allow_tf32 for backend in backends] == [allows, allows]
        torch.get_float32_matmul_precision()  # no error
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.allow_tf32 = value


@pytest.mark.parametrize("name", long_except(["ppo", "rainbow"], "ppo"))
def test_bfloat16_keeps_weights_in_float32(name: str) -> None:
    agent = small_learner(name, precision="bf16", total_steps=480)
    for _ in agent.train():
        pass
    agent.check_finite()
    assert all(p.dtype == torch.float32 for p in agent.network.parameters())


def test_actions_of_another_kind_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"are discrete; ppo .* continuous"):
        small_learner("ppo-continuous", env=Catch(16))
    for name, wanted in (("ppo", "discrete"), ("dqn", "discrete")):
        with pytest.raises(InvalidArgumentError, match=f"are continuous; {name} .* needs {wanted}"):
            small_learner(name, env=Catch(16, continuous=True))
    with pytest.raises(InvalidArgumentError, match="full_action_space True"):
        small_learner("ppo-continuous", full_action_space=True)
    with pytest.raises(InvalidArgumentError, match="initial_sigma is 0"):
        small_learner("ppo-continuous", initial_sigma=0.0)


def test_other_autoreset_modes_are_refused() -> None:
    env = Catch(16)
    env.metadata = {"autoreset_mode": "Disabled"}
    with pytest.raises(InvalidArgumentError, match="autoreset_mode"):
        small_learner("ppo", env=env)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_option_is_documented_and_checked(name: str) -> None:
    config_class = AGENTS[name].config_class
    docs = field_docs(config_class)
    for item in dataclasses.fields(config_class):
        assert docs[item.name].endswith("."), item.name
    for option, value in (("gamma", 1.5), ("num_envs", 0), ("reward_rule", "half"), ("seed", -1)):
        with pytest.raises(InvalidArgumentError, match=option):
            config_class(**{option: value})
    for item in dataclasses.fields(config_class):
        with pytest.raises(InvalidArgumentError, match=rf"^{item.name} is b'8'; .* of type"):
            config_class(**{item.name: b"8"})
    for option, value in (("num_envs", 2.5), ("seed", True), ("gamma", True), ("compile", 1)):
        with pytest.raises(InvalidArgumentError, match=f"{option} is .* of type"):
            config_class(**{option: value})
    config = config_class(total_steps=1e6, num_envs=np.int64(8), learning_rate=np.float32(0.5))
    values = (config.total_steps, config.num_envs, config.learning_rate)
    assert [(type(value), value) for value in values] == [(int, 10**6), (int, 8), (float, 0.5)]
    assert issubclass(config_class, AgentConfig)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch warns of itself
def test_a_compiled_network_gives_the_same() -> None:
    metrics = []
    for compile_it in (False, True):
        agent = small_learner("ppo", compile=compile_it, total_steps=512)
        for progress in agent.train():
            last = {key: float(value) for key, value in progress.metrics.items()}
        metrics.append(last)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-3, abs=1e-4)
