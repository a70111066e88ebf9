"""One update of each learner: its loss, from its own data, by slow loops in float64."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from cule.errors import InvalidArgumentError  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import collect, small_env, small_learner  # noqa: E402

#: float32 networks against float64 ones.
CLOSE = {"rel": 1e-4, "abs": 1e-5}


def limited(name: str, **changes: Any) -> Any:
    """A learner whose even environments have episodes cut off after 3 steps, and the others 5 each."""
    env = Catch(changes.get("num_envs", 16))
    env.limit = torch.tensor([3, 0]).repeat(env.num_envs // 2)  # type: ignore[assignment]
    agent = small_learner(name, env=env, max_num_frames_per_episode=12, **changes)
    agent.begin()
    return agent


def outputs(network: Any, obs: Any) -> Any:
    """What the network in float64 makes of observations."""
    with torch.no_grad():
        return copy.deepcopy(network).double()(obs.double())


def outputs_of(agent: Any, rollout: Any) -> Any:
    """Logits, values, and values after the last step; with memory from one step to the next."""
    network = copy.deepcopy(agent.network).double()
    if "memory" not in rollout.extras:
        return (
            *outputs(network, rollout.obs.flatten(0, 1)),
            outputs(network, rollout.bootstrap_obs)[1],
        )
    memory, found = rollout.extras["memory"][0].double(), []
    with torch.no_grad():
        for obs, starts in zip(rollout.obs, rollout.extras["starts"], strict=True):
            memory = memory * ~starts.unsqueeze(1)
            *step, memory = network.step(obs.double(), memory)
            found.append(step)
        last = network.step(rollout.bootstrap_obs.double(), memory)[1]
    return *(torch.cat(part) for part in zip(*found, strict=True)), last


def final_value(agent: Any, rollout: Any, obs: Any, step: int, env: int) -> float:
    """The value of a final observation; with the memory that the step before it was played with."""
    if "memory" not in rollout.extras:
        return float(outputs(agent.network, obs[None])[1])
    network = copy.deepcopy(agent.network).double()
    before = rollout.extras["memory"][step, env].double()[None]
    with torch.no_grad():
        memory = network.step(rollout.obs[step, env].double()[None], before)[2]
        return float(network.step(obs.double()[None], memory)[1])


class Rollout:
    """A rollout as float64 arrays, with the value of what followed each step."""

    def __init__(self, agent: Any, envs: slice | None = None) -> None:
        rollout = agent.buffer.rollout(envs)
        self.shape = tuple(rollout.rewards.shape)
        self.rewards = rollout.rewards.double().numpy()
        self.discounts = rollout.discounts.double().numpy()
        self.ended = rollout.ended.numpy()
        self.actions = rollout.actions.numpy()
        self.log_probs = rollout.extras["log_probs"].double().numpy()
        self.old_values = rollout.extras["values"].double().numpy()
        logits, values, last = outputs_of(agent, rollout)
        log_probs = logits.log_softmax(-1).numpy().reshape(*self.shape, -1)
        t, e = np.indices(self.shape)
        self.new_log_probs = log_probs[t, e, self.actions]
        self.entropies = -(np.exp(log_probs) * log_probs).sum(-1)
        self.values = values.numpy().reshape(self.shape)
        self.final: dict[tuple[int, int], float] = {}
        for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
            for env, step in enumerate(steps.tolist()):
                if step >= 0:
                    self.final[step, env] = final_value(agent, rollout, obs[env], step, env)
        self.last = last.numpy()

    def value_after(self, values: Any, t: int, e: int) -> float:
        if (t, e) in self.final:
            return self.final[t, e]
        return float(self.last[e] if t + 1 == self.shape[0] else values[t + 1, e])

    def advantages(self, ratios: Any) -> Any:
        """Of the values of the rollout, with lambda 0.95; ratios clipped at 1."""
        found = np.zeros(self.shape)
        for e in range(self.shape[1]):
            after = 0.0
            for t in reversed(range(self.shape[0])):
                following = self.value_after(self.old_values, t, e)
                delta = self.rewards[t, e] + self.discounts[t, e] * following
                weight = min(ratios[t, e], 1.0)
                after = weight * (
                    (delta - self.old_values[t, e])
                    + (0.0 if self.ended[t, e] else 0.95 * self.discounts[t, e] * after)
                )
                found[t, e] = after
        return found


def test_a2c() -> None:
    agent = limited("a2c", num_steps=6)
    collect(agent, 6)
    r = Rollout(agent)
    assert r.final
    assert r.ended.sum() > len(r.final)
    policy, value = 0.0, 0.0
    for e in range(r.shape[1]):
        for t in range(r.shape[0]):
            ret, factor = 0.0, 1.0
            for k in range(t, r.shape[0]):
                ret += factor * r.rewards[k, e]
                factor *= r.discounts[k, e]
                if r.ended[k, e] or k + 1 == r.shape[0]:
                    ret += factor * r.value_after(r.values, k, e)
                    break
            policy -= (ret - r.values[t, e]) * r.new_log_probs[t, e]
            value += (r.values[t, e] - ret) ** 2
    metrics = agent.learn_once()
    assert float(metrics["policy_loss"]) == pytest.approx(policy / r.rewards.size, **CLOSE)
    assert float(metrics["value_loss"]) == pytest.approx(value / r.rewards.size, **CLOSE)
    assert float(metrics["entropy"]) == pytest.approx(r.entropies.mean(), **CLOSE)


@pytest.mark.parametrize(("name", "count"), [("vtrace", 8), ("vtrace-lstm", 13)])
def test_vtrace(name: str, count: int) -> None:
    agent = limited(name, num_steps=8, num_batches=4, num_envs=16)
    collect(agent, count)
    # Another policy than the one that acted.
    with torch.no_grad():
        agent.network.policy.weight.mul_(10.0)
        if name == "vtrace-lstm":
            agent.network.cell.weight_hh.mul_(1.5)
    envs = slice(4, 8)
    r = Rollout(agent, envs)
    assert r.final
    ratios = np.exp(r.new_log_probs - r.log_probs)
    assert ratios.min() < 0.9
    assert ratios.max() > 1.1
    policy, value = 0.0, 0.0
    for e in range(r.shape[1]):
        target_after = 0.0
        for t in reversed(range(r.shape[0])):
            after = r.value_after(r.values, t, e)
            if r.ended[t, e] or t + 1 == r.shape[0]:
                target_after = after
            clipped = min(1.0, ratios[t, e])
            delta = clipped * (r.rewards[t, e] + r.discounts[t, e] * after - r.values[t, e])
            target = r.values[t, e] + delta
            target += r.discounts[t, e] * clipped * (target_after - after)
            gain = r.rewards[t, e] + r.discounts[t, e] * target_after - r.values[t, e]
            policy -= clipped * gain * r.new_log_probs[t, e]
            value += (target - r.values[t, e]) ** 2
            target_after = target
    agent.next_batch.fill_(1)
    metrics = agent.learn_once()
    assert int(agent.next_batch) == 2
    assert float(metrics["policy_loss"]) == pytest.approx(policy / r.rewards.size, **CLOSE)
    assert float(metrics["value_loss"]) == pytest.approx(value / r.rewards.size, **CLOSE)
    assert float(metrics["ratio_mean"]) == pytest.approx(ratios.mean(), **CLOSE)


def test_ppo_with_one_minibatch() -> None:
    agent = limited("ppo", num_minibatches=1, num_epochs=1, clip_range=0.1)
    collect(agent, 16)
    with torch.no_grad():
        agent.network.policy.weight.mul_(300.0)
        agent.network.value.weight.mul_(1.5)
    r = Rollout(agent)
    assert r.final
    advantages = r.advantages(np.ones(r.shape))
    returns = advantages + r.old_values
    normed = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    ratios = np.exp(r.new_log_probs - r.log_probs)
    assert (np.abs(ratios - 1) > 0.1).any()
    policy = -np.minimum(ratios * normed, np.clip(ratios, 0.9, 1.1) * normed).mean()
    moved = r.old_values + np.clip(r.values - r.old_values, -0.1, 0.1)
    value = np.maximum((r.values - returns) ** 2, (moved - returns) ** 2).mean() / 2
    metrics = agent.learn_once()
    assert float(metrics["policy_loss"]) == pytest.approx(policy, **CLOSE)
    assert float(metrics["value_loss"]) == pytest.approx(value, **CLOSE)
    assert float(metrics["entropy"]) == pytest.approx(r.entropies.mean(), **CLOSE)
    assert float(metrics["clip_fraction"]) == pytest.approx((np.abs(ratios - 1) > 0.1).mean())
    kl = ((ratios - 1) - np.log(ratios)).mean()
    assert float(metrics["approx_kl"]) == pytest.approx(kl, **CLOSE)


def test_ppo_with_normalized_values() -> None:
    """The loss of values and their clip are in units of the deviation of returns."""
    agent = limited("ppo", num_minibatches=1, num_epochs=1, clip_range=0.1, normalize_values=True)
    agent.value_scale.update(torch.tensor(30.0), torch.tensor(8.0), agent.network.value)
    collect(agent, 16)
    with torch.no_grad():
        agent.network.value.weight.mul_(20.0)
    r = Rollout(agent)
    r.values, r.last = 30.0 + 8.0 * r.values, 30.0 + 8.0 * r.last
    r.final = {where: 30.0 + 8.0 * value for where, value in r.final.items()}
    returns = r.advantages(np.ones(r.shape)) + r.old_values
    moved = r.old_values + np.clip(r.values - r.old_values, -0.8, 0.8)
    assert (np.abs(r.values - r.old_values) > 0.8).any()
    value = np.maximum((r.values - returns) ** 2, (moved - returns) ** 2).mean() / 2 / 8.0**2
    metrics = agent.learn_once()
    assert float(metrics["value_loss"]) == pytest.approx(value, **CLOSE)
    # The second rollout has half the weight of both.
    mean, square = returns.mean(), returns.var(ddof=1) + returns.mean() ** 2
    mean, square = (30.0 + mean) / 2, (30.0**2 + 8.0**2 + square) / 2
    assert float(agent.value_scale.mean) == pytest.approx(mean, **CLOSE)
    assert float(agent.value_scale.std) == pytest.approx(math.sqrt(square - mean**2), **CLOSE)


def test_continuous_ppo_with_one_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"num_minibatches": 1, "num_epochs": 1, "clip_range": 0.1, "initial_sigma": 0.7}
    agent: Any = small_learner("ppo-continuous", **options)
    agent.begin()
    executed: list[Any] = []
    step_frames = agent.env.step_frames

    def step(actions: Any, out: Any = None) -> Any:
        executed.append(actions.clone())
        return step_frames(actions, out)

    monkeypatch.setattr(agent.env, "step_frames", step)
    collect(agent, 16)
    rollout = agent.buffer.rollout()
    raw, noise = (x.double() for x in (rollout.actions, rollout.extras["noise"]))
    old_means = outputs(agent.network, rollout.obs.flatten(0, 1))[0].view(16, 16, 3)
    torch.testing.assert_close(raw, old_means + 0.7 * noise, rtol=1e-4, atol=1e-5)
    old = torch.distributions.Normal(old_means, 0.7).log_prob(raw).sum(-1).numpy()
    for (radius, angle, fire), (x, y, z) in zip(
        torch.cat(executed).tolist(), raw.flatten(0, 1).tolist(), strict=True
    ):
        size = math.hypot(math.tanh(x), math.tanh(y))
        assert radius == pytest.approx(min(size, 1.0), abs=1e-5)
        assert math.cos(angle - math.atan2(math.tanh(y), math.tanh(x))) > 1 - 1e-6
        assert fire == pytest.approx((math.tanh(z) + 1) / 2, abs=1e-5)
    # Another policy than the one that acted; but the noise knows of its deviations.
    old_log_probs = agent.policy.behaviour_log_probs
    sigma = torch.tensor([0.6, 0.8, 0.9])

    def then_change(rollout: Any) -> Any:
        found = old_log_probs(rollout)
        np.testing.assert_allclose(found, old, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            agent.network.log_sigma.copy_(sigma.log())
            agent.network.policy.weight.mul_(10.0)
        return found

    monkeypatch.setattr(agent.policy, "behaviour_log_probs", then_change)
    changed = copy.deepcopy(agent.network)
    with torch.no_grad():
        changed.policy.weight.mul_(10.0)
    means, values = outputs(changed, rollout.obs.flatten(0, 1))
    normal = torch.distributions.Normal(means.view(16, 16, 3), sigma.double())
    ratios = np.exp(normal.log_prob(raw).sum(-1).numpy() - old)
    assert (np.abs(ratios - 1) > 0.1).mean() > 0.3
    values = values.view(16, 16).numpy()
    last = outputs(agent.network, rollout.bootstrap_obs)[1].numpy()
    advantages, after = np.zeros((16, 16)), np.zeros(16)
    for t in reversed(range(16)):
        following = last if t == 15 else values[t + 1]
        discounts = rollout.discounts[t].double().numpy()
        delta = rollout.rewards[t].double().numpy() + discounts * following - values[t]
        after = delta + 0.95 * discounts * np.where(rollout.ended[t].numpy(), 0.0, after)
        advantages[t] = after
    normed = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    policy = -np.minimum(ratios * normed, np.clip(ratios, 0.9, 1.1) * normed).mean()
    metrics = agent.learn_once()
    assert float(metrics["policy_loss"]) == pytest.approx(policy, **CLOSE)
    assert float(metrics["entropy"]) == pytest.approx(float(normal.entropy()[0, 0].sum()), **CLOSE)
    assert float(metrics["approx_kl"]) == pytest.approx(
        ((ratios - 1) - np.log(ratios)).mean(), **CLOSE
    )
    assert float(metrics["value_loss"]) == pytest.approx((advantages**2).mean() / 2, **CLOSE)


def test_first_ratios_of_a_continuous_policy_are_one() -> None:
    agent: Any = small_learner("ppo-continuous", learning_rate=0.0, initial_sigma=0.01)
    for _ in agent.train(steps=256):
        pass
    assert float(agent.metrics["clip_fraction"]) == 0.0
    assert float(agent.metrics["approx_kl"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("looks", long_except([True, False], False))
def test_ppo_stops_at_a_divergence(looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the later epochs were not there, weights and optimizer, with a look at it or without."""
    one, stopped, unbounded, three = (
        limited("ppo", num_epochs=epochs, target_kl=kl)
        for epochs, kl in ((1, None), (3, 0.0), (3, 1e9), (3, None))
    )
    if not looks:
        monkeypatch.setattr(stopped.setup, "can_sync", False)
    found = []
    for agent in (one, stopped, unbounded, three):
        for _ in range(2):
            collect(agent, 16)
            agent.generator.manual_seed(7)
            agent.buffer.generator.manual_seed(7)
            metrics = agent.learn_once()
        state = agent.optimizer.state_dict()["state"]
        found.append((dict(agent.network.state_dict()), state, metrics))
    for ours, theirs in ((found[1], found[0]), (found[2], found[3])):
        torch.testing.assert_close(ours[:2], theirs[:2], rtol=0, atol=0)
        assert {k: ours[2][k] for k in theirs[2]} == theirs[2]
    assert float(found[1][2]["epochs"]) == 1.0
    assert float(found[2][2]["epochs"]) == 3.0
    counted = limited("ppo", num_epochs=3, target_kl=0.0)
    monkeypatch.setattr(counted.setup, "can_sync", looks)
    assert [progress.updates for progress in counted.train(steps=512)][-1] == (8 if looks else 24)


def test_pqn_with_one_minibatch() -> None:
    agent = limited("pqn", num_minibatches=1, num_epochs=1, learning_rate=1e-9)
    collect(agent, 16)
    rollout = agent.buffer.rollout()
    q_values = outputs(agent.network, rollout.obs.flatten(0, 1)).numpy()
    q_values = q_values.reshape(*rollout.rewards.shape, -1)
    last = outputs(agent.network, rollout.bootstrap_obs).numpy().max(-1)
    loss = 0.0
    rows, environments = rollout.rewards.shape
    for e in range(environments):
        after = 0.0
        for t in reversed(range(rows)):
            best = last[e] if t + 1 == rows else q_values[t + 1, e].max()
            mixed = best if t + 1 == rows else 0.65 * after + 0.35 * best
            for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
                if int(steps[e]) == t:
                    mixed = float(outputs(agent.network, obs[e : e + 1]).max())
            after = float(rollout.rewards[t, e]) + float(rollout.discounts[t, e]) * mixed
            loss += 0.5 * (q_values[t, e, int(rollout.actions[t, e])] - after) ** 2
    metrics = agent.learn_once()
    assert float(metrics["q_loss"]) == pytest.approx(loss / (rows * environments), **CLOSE)


def filled(**changes: Any) -> Any:
    """A DQN whose memory holds some steps, with a target network of its own."""
    agent = limited("dqn", n_step=3, learning_starts=20_000, gamma=0.9, **changes)
    for _ in agent.train(steps=16 * 40):
        pass
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in agent.target.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return agent


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_dqn_values(double: bool, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = filled(double=double, dueling=True, loss=loss, prioritized=True, reward_rule="none")
    batch = agent.replay.sample(32)
    weights = torch.linspace(0.1, 1.0, 32)
    batch = batch._replace(weights=weights, returns=batch.returns * 3.0)
    monkeypatch.setattr(agent, "sample", lambda: batch)
    given: list[Any] = []
    monkeypatch.setattr(agent.replay, "update_priorities", lambda *x: given.append(x))
    q_values = outputs(agent.network, batch.obs).numpy()
    online = outputs(agent.network, batch.next_obs).numpy()
    target = outputs(agent.target, batch.next_obs).numpy()
    total, errors = 0.0, []
    for i in range(32):
        best = online[i].argmax() if double else target[i].argmax()
        y = float(batch.returns[i]) + float(batch.discounts[i]) * target[i, best]
        error = y - q_values[i, int(batch.actions[i])]
        size = abs(error)
        each = size - 0.5 if loss == "huber" and size > 1 else 0.5 * size**2
        total += float(weights[i]) * each
        errors.append(size)
    metrics = agent.update()
    assert max(errors) > 1.0
    assert float(metrics["loss"]) == pytest.approx(total / 32, **CLOSE)
    ((ids, priorities),) = given
    assert torch.equal(ids, batch.ids)
    np.testing.assert_allclose(priorities, np.array(errors) + 1e-6, atol=1e-4)


def test_dqn_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = filled(double=True, dueling=True, num_atoms=11, v_min=-2.0, v_max=2.0, prioritized=True)
    batch = agent.replay.sample(32)
    monkeypatch.setattr(agent, "sample", lambda: batch)
    given: list[Any] = []
    monkeypatch.setattr(agent.replay, "update_priorities", lambda *x: given.append(x))
    support = np.linspace(-2, 2, 11)
    logits = outputs(agent.network, batch.obs)
    online = (outputs(agent.network, batch.next_obs).softmax(-1).numpy() * support).sum(-1)
    target = outputs(agent.target, batch.next_obs).softmax(-1).numpy()
    losses = []
    for i in range(32):
        projected = np.zeros(11)
        for z, mass in zip(support, target[i, online[i].argmax()], strict=True):
            moved = float(batch.returns[i]) + float(batch.discounts[i]) * z
            place = round((min(max(moved, -2.0), 2.0) + 2.0) / 0.4, 6)
            low, high = math.floor(place), math.ceil(place)
            projected[low] += mass * (1.0 if low == high else high - place)
            projected[high] += mass * (place - low)
        log_probs = logits[i, int(batch.actions[i])].log_softmax(-1).numpy()
        losses.append(-(projected * log_probs).sum())
    metrics = agent.update()
    weights = batch.weights.double().numpy()
    assert float(metrics["loss"]) == pytest.approx((weights * losses).mean(), **CLOSE)
    np.testing.assert_allclose(given[0][1], np.array(losses) + 1e-6, rtol=1e-4)


@pytest.mark.parametrize("double", [False, True])
def test_iqn(double: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of samples whose fractions are drawn once more, in loops."""
    agent: Any = small_learner("iqn", double=double, learning_starts=20_000)
    batch, network, target, fractions = one_batch(agent, monkeypatch)
    with torch.no_grad():
        chooser = network if double else target
        best = chooser(batch.next_obs.double(), fractions(32)).mean(1).argmax(-1)
        after = target(batch.next_obs.double(), fractions(8))
        asked = fractions(8)
        given = network(batch.obs.double(), asked)
    total = 0.0
    for i in range(32):
        for m in range(8):
            for k in range(8):
                y = float(batch.returns[i]) + float(batch.discounts[i]) * after[i, k, best[i]]
                u = float(y - given[i, m, int(batch.actions[i])])
                huber = u * u / 2 if abs(u) <= 1 else abs(u) - 0.5
                total += abs(float(asked[i, m]) - (u < 0)) * huber / 8
    metrics = agent.update()
    assert float(metrics["loss"]) == pytest.approx(total / 32, rel=1e-3)


def test_munchausen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss against soft targets, in loops, of a network with two streams."""
    options = {"munchausen": 0.7, "munchausen_temperature": 0.1, "munchausen_min": -0.11}
    options |= {"dueling": True, "n_step": 3, "num_target_quantiles": 5}
    agent: Any = small_learner("iqn", **options, learning_starts=20_000)
    batch, network, target, fractions = one_batch(agent, monkeypatch)
    with torch.no_grad():
        sampled = fractions(5)
        before = target(batch.obs.double(), sampled).mean(1)
        after = target(batch.next_obs.double(), sampled)
        asked = fractions(8)
        given = network(batch.obs.double(), asked)
    total, clipped = 0.0, 0
    for i in range(32):
        action = int(batch.actions[i])
        bonus = 0.1 * float((before[i] / 0.1).log_softmax(0)[action])
        clipped += bonus < -0.11
        policy = (after[i].mean(0) / 0.1).softmax(0)
        for k in range(5):
            follows = sum(
                float(policy[a]) * (float(after[i, k, a]) - 0.1 * math.log(float(policy[a])))
                for a in range(3)
            )
            y = float(batch.returns[i]) + 0.7 * max(bonus, -0.11)
            y += float(batch.discounts[i]) * follows
            for m in range(8):
                u = y - float(given[i, m, action])
                huber = u * u / 2 if abs(u) <= 1 else abs(u) - 0.5
                total += abs(float(asked[i, m]) - (u < 0)) * huber / 5
    assert 0 < clipped < 32
    metrics = agent.update()
    assert float(metrics["loss"]) == pytest.approx(total / 32, rel=1e-3)


def test_noisy_quantiles_keep_epsilon() -> None:
    agent: Any = small_learner("iqn", noisy=True, epsilon_end=0.25, epsilon_steps=1)
    before = [p.clone() for p in agent.network.parameters()]
    for _ in agent.train(steps=2_000):
        pass
    assert agent.updates > 0
    assert agent.epsilon() == 0.25
    after = agent.network.parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert small_learner("rainbow").epsilon() == 0.0  # type: ignore[attr-defined]


def test_iqn_refuses_options_that_do_not_fit() -> None:
    for changes, text in (
        ({"num_atoms": 51}, "num_atoms is 51; with IQN it must be 1"),
        ({"munchausen": 0.9, "double": True}, "double is True; with munchausen it must be False"),
        ({"munchausen": 1.1}, "munchausen is 1.1"),
        ({"munchausen_min": 0.1}, "munchausen_min is 0.1; it must be at most 0"),
        ({"munchausen_min": math.nan}, "munchausen_min is nan"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            small_learner("iqn", **changes)


def one_batch(agent: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any, Any]:
    """A batch for the next update, both networks in float64, and what draws the same fractions."""
    for _ in agent.train(steps=16 * 20):
        pass
    batch = agent.replay.sample(32)
    monkeypatch.setattr(agent, "sample", lambda: batch)
    network, target = (copy.deepcopy(n).double() for n in (agent.network, agent.target))
    draws = copy_of(agent.generator)

    def fractions(count: int) -> Any:
        return torch.rand((32, count), generator=draws).double()

    return batch, network, target, fractions


def copy_of(generator: Any) -> Any:
    """A generator that will draw the same."""
    again = torch.Generator()
    again.set_state(generator.get_state())
    return again


def test_dpg(monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = small_learner("apex-dpg", learning_starts=20_000)
    for _ in agent.train(steps=16 * 20):
        pass
    batch = agent.replay.sample(16)
    monkeypatch.setattr(agent.replay, "sample", lambda _: batch)
    network, target = (copy.deepcopy(n).double() for n in (agent.network, agent.target))

    def disc(raw: Any) -> Any:
        x, y = math.tanh(raw[0]), math.tanh(raw[1])
        size = max(math.hypot(x, y), 1.0)
        return [x / size, y / size, (math.tanh(raw[2]) + 1) / 2]

    total = 0.0
    with torch.no_grad():
        for i in range(16):
            after = target.features(batch.next_obs[i : i + 1].double())
            chosen = torch.tensor([disc(target.raw_actions(after)[0].tolist())])
            value = float(target.values(after, chosen))
            y = float(batch.returns[i]) + float(batch.discounts[i]) * value
            radius, angle, fire = batch.actions[i].tolist()
            done = torch.tensor([[radius * math.cos(angle), radius * math.sin(angle), fire]])
            features = network.features(batch.obs[i : i + 1].double())
            error = y - float(network.values(features, done))
            total += 0.5 * float(batch.weights[i]) * error**2
    metrics = agent.update()
    assert float(metrics["critic_loss"]) == pytest.approx(total / 16, rel=1e-3, abs=1e-5)


def test_spectral_norms_are_resumed_exactly(tmp_path: Path) -> None:
    """The vectors of the power iteration are in checkpoints, and the target network has its own."""
    options = {"network": "btr_small", "learning_starts": 64, "batch_size": 16}
    whole: Any = small_learner("btr", **options)
    *_, expected = whole.train(steps=16 * 9)
    half: Any = small_learner("btr", **options)
    for _ in half.train(steps=16 * 7):
        pass
    half.save(tmp_path / "half.pt")
    again: Any = type(half).load(tmp_path / "half.pt", small_env("btr"))
    *_, resumed = again.train(steps=16 * 9)
    assert again.updates > half.updates > 0
    assert resumed.metrics == expected.metrics
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name]), name
    vectors = [name for name in whole.network.state_dict() if name.endswith("._u")]
    assert len(vectors) == 12
