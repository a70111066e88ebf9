"""When learners do what: updates that steps pay for, copies of targets, exploration, rates."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule.agents import (  # noqa: E402
    DQN,
    ApexConfig,
    ApexDQN,
)
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import collect, small_learner  # noqa: E402


def test_target_is_copied_when_it_is_time() -> None:
    agent: Any = small_learner("dqn", target_interval=3, learning_starts=32)
    same = []
    for progress in agent.train(steps=16 * 12):
        if progress.updates:
            pairs = zip(agent.target.parameters(), agent.network.parameters(), strict=True)
            same.append((progress.updates, all(torch.equal(*pair) for pair in pairs)))
    assert same
    assert all(is_same == (updates % 3 == 0) for updates, is_same in same)


def test_target_goes_its_share_of_the_way() -> None:
    agent: Any = small_learner("dqn", target_interval=1, target_tau=0.25, learning_starts=32)
    for _ in agent.train(steps=16 * 2):
        before = [p.clone() for p in agent.target.parameters()]
    agent.update()
    triples = zip(before, agent.target.parameters(), agent.network.parameters(), strict=True)
    for old, now, learned in triples:
        torch.testing.assert_close(now, old + 0.25 * (learned - old))
    assert not torch.equal(before[0], next(agent.target.parameters()))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dqn", {"epsilon_steps": 64, "epsilon_end": 0.2}),
        ("apex-dqn", {}),
        ("apex-dqn", {"overlap": True}),
    ],
)
def test_progress_tells_of_exploration(name: str, changes: dict[str, Any]) -> None:
    """Epsilon decreases from the start of learning on: before, its steps would be wasted."""
    first = 16 * 3
    agent = small_learner(name, learning_starts=first, **changes)
    shown = [float(progress.metrics["epsilon"]) for progress in agent.train(steps=16 * 8)]
    ladder = sum(0.4 ** (1 + 7 * i / 15) for i in range(16)) / 16
    expected = [1.0] * 3 + [0.8, 0.6, 0.4, 0.2, 0.2] if name == "dqn" else [ladder] * 8
    assert shown == pytest.approx(expected)


@pytest.mark.parametrize(("ratio", "batch"), [(8.0, 32), (0.78, 512), (2.5, 48)])
def test_samples_per_insert_are_kept_exactly(ratio: float, batch: int) -> None:
    agent: Any = small_learner(
        "dqn", samples_per_insert=ratio, batch_size=batch, learning_starts=16
    )
    monkey_updates = 0

    def update() -> dict[str, Any]:
        nonlocal monkey_updates
        monkey_updates += 1
        return {}

    agent.update = update
    for _ in agent.train(steps=16 * 101):
        pass
    # Of 101 steps of 16 environments the first alone comes before the start.
    assert monkey_updates == math.floor(ratio * 16 * 101 / batch + 1e-9) or monkey_updates == (
        math.floor(ratio * 16 * 100 / batch + 1e-9)
    )
    assert isinstance(agent, DQN)


@pytest.mark.parametrize(
    ("batches", "length", "spacing"),
    long_except([(1, 5, 5.0), (4, 4, 1.0), (8, 8, 1.0), (4, 8, 0.5)], (4, 8, 0.5)),
)
def test_multi_batch_uses_each_step_equally(batches: int, length: int, spacing: float) -> None:
    agent: Any = small_learner(
        "vtrace", num_envs=8, num_batches=batches, num_steps=length, steps_per_update=spacing
    )
    uses = np.zeros((200, 8), int)

    def note(rollout: Any) -> dict[str, Any]:
        done = agent.buffer.num_steps_done
        uses[done - length : done, envs] += 1
        return {}

    read = agent.next_rollout

    def next_rollout() -> Any:
        nonlocal envs
        first = int(agent.next_batch) * agent.buffer.schedule.batch_envs
        envs = slice(first, first + agent.buffer.schedule.batch_envs)
        return read()

    envs = slice(0)
    agent.next_rollout, agent.minimise = next_rollout, note
    for _ in agent.train(steps=8 * 120):
        pass
    assert agent.updates == (120 - length) // spacing + (1 if spacing >= 1 else 1 / spacing)
    assert (uses[40:80] == length / (spacing * batches)).all()


@pytest.mark.parametrize("name", ["a2c", "ppo", "pqn"])
def test_the_learning_rate_does_not_fall_below_zero(name: str) -> None:
    agent = small_learner(name, total_steps=64, learning_rate_schedule="linear")
    for _ in agent.train(steps=640):
        pass
    assert float(agent.optimizer.param_groups[0]["lr"]) == 0.0


@pytest.mark.parametrize("name", long_except(["a2c", "vtrace", "ppo"], "a2c"))
def test_the_entropy_factor_changes_linearly(name: str) -> None:
    agent: Any = small_learner(name, total_steps=1500, entropy_coef=0.4, entropy_coef_end=0.1)
    steps = []
    for progress in agent.train(steps=2500):
        done = min(progress.steps / 1500, 1.0)
        steps.append(progress.steps)
        agent.anneal()  # as the next round will
        assert float(agent.entropy_coef) == pytest.approx(0.4 - 0.3 * done)
    assert max(steps) >= 2500


def test_the_clip_range_changes_linearly() -> None:
    """Both that of ratios and that of values, which `update` reads."""
    agent: Any = small_learner("ppo", total_steps=2048, clip_range=0.3, clip_range_end=0.0)
    shown = [float(progress.metrics["clip_fraction"]) for progress in agent.train()]
    assert shown[0] < 0.5
    assert float(agent.clip_range) == pytest.approx(0.3 * 256 / 2048)
    agent.anneal()
    assert float(agent.clip_range) == 0.0
    collect(agent, 16)
    before = [p.clone() for p in agent.network.parameters()]
    agent.entropy_coef.zero_()
    metrics = agent.learn_once()
    assert float(metrics["clip_fraction"]) > 0.5  # of any change
    assert not torch.equal(before[0], next(agent.network.parameters()))


@pytest.mark.parametrize("on_device", long_except([False, True], True))
def test_an_adaptive_rate_follows_the_divergence(
    on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("torch.optim.adam")
    monkeypatch.setattr(module, "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])
    agent: Any = small_learner("ppo", adaptive_kl=0.01, learning_rate=1e-3, total_steps=10**5)
    assert agent.config.learning_rate_schedule == "constant"
    group = agent.optimizer.param_groups[0]
    if on_device:
        group["lr"], group["capturable"] = torch.tensor(1e-3), True
    rate, changes = 1e-3, set()
    for progress in agent.train(steps=256 * 20):
        kl = float(progress.metrics["approx_kl"])
        factor = 1 / 1.5 if kl > 0.02 else 1.5 if kl < 0.005 else 1.0
        rate = min(max(rate * factor, 1e-6), 1e-2)
        assert float(group["lr"]) == pytest.approx(rate, rel=1e-4)
        assert float(progress.metrics["learning_rate"]) == pytest.approx(rate, rel=1e-4)
        changes.add(factor)
    assert {1.0, 1.5} <= changes
    assert isinstance(group["lr"], torch.Tensor) == on_device


def test_rates_scaled_by_environments() -> None:
    for scale, factor in (("none", 1.0), ("sqrt", 2.0), ("linear", 4.0)):
        agent = small_learner("ppo", num_envs=64, lr_scale=scale, learning_rate=1e-3)
        assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(factor * 1e-3)
    next(iter(agent.train()))
    assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(4e-3)
    actors = ApexDQN(
        ApexConfig(num_envs=8, num_actors=8, cluster="auto", lr_scale="linear", network="mlp"),
        Catch(1),
    )
    assert actors.optimizer.param_groups[0]["lr"] == pytest.approx(4 * 6.25e-5)
