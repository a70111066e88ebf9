"""The mathematics of the learners, against slow loops in float64 and numbers worked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule import algos  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402

#: float32 against float64 over some tens of operations.
TOLERANCE = {"atol": 2e-5, "rtol": 2e-5}

REWARDS = [1.0, 0.0, -1.0, 2.0]
DISCOUNTS = [0.9, 0.9, 0.0, 0.9]
VALUES = [0.5, 1.0, -0.5, 0.25]
LAST_VALUE = 2.0


def column(numbers: list[Any]) -> Any:
    """A rollout of one environment."""
    return torch.tensor(numbers).unsqueeze(-1)


def golden(
    cut: list[bool], final: float = 0.0, discounts: list[float] = DISCOUNTS
) -> tuple[Any, ...]:
    """Rewards, discounts, values, next values and cuts of the worked example."""
    cuts = column(cut)
    finals = torch.full((4, 1), final)
    following = algos.shift_values(column(VALUES), torch.tensor([LAST_VALUE]), finals, cuts)
    return column(REWARDS), column(discounts), column(VALUES), following, cuts


def random_rollout(seed: int, rows: int = 13, environments: int = 7) -> dict[str, Any]:
    """Random rewards, ends, limits, values and policies; float32."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, environments)

    def normal(*size: int) -> Any:
        return torch.randn(size, generator=generator)

    terminated = torch.rand(shape, generator=generator) < 0.15
    truncated = (torch.rand(shape, generator=generator) < 0.15) & ~terminated
    return {
        "rewards": normal(*shape),
        "discounts": 0.97 * (~terminated),
        "values": normal(*shape),
        "last": normal(environments),
        "final": normal(*shape),
        "cut": terminated | truncated,
        "log_ratios": 0.7 * normal(*shape),
    }


def reference(rollout: dict[str, Any], recursion: Callable[..., Any]) -> Any:
    """Apply a float64 recursion to each environment by itself."""
    arrays = {key: value.double().numpy() for key, value in rollout.items() if key != "cut"}
    arrays["cut"] = rollout["cut"].numpy()
    environments = arrays["rewards"].shape[1]
    return np.stack(
        [recursion({k: v[..., i] for k, v in arrays.items()}) for i in range(environments)], -1
    )


def following(r: dict[str, Any], t: int) -> float:
    """The value of what followed step t."""
    if r["cut"][t]:
        return float(r["final"][t])
    return float(r["last"] if t + 1 == len(r["rewards"]) else r["values"][t + 1])


def shifted(rollout: dict[str, Any]) -> Any:
    return algos.shift_values(rollout["values"], rollout["last"], rollout["final"], rollout["cut"])


# --- Returns ------------------------------------------------------------------------------------


def test_n_step_by_hand() -> None:
    sums, products, steps = algos.n_step_returns(column(REWARDS), column(DISCOUNTS), 3)
    torch.testing.assert_close(sums, column([0.19, -0.9]))
    torch.testing.assert_close(products, column([0.0, 0.0]))
    assert steps.flatten().tolist() == [3, 3]


@pytest.mark.parametrize("n_step", [1, 2, 3, 5, 13])
def test_n_step_against_loops(n_step: int) -> None:
    rollout = random_rollout(n_step)
    limit = rollout["cut"] & (rollout["discounts"] > 0)
    sums, products, steps = algos.n_step_returns(
        rollout["rewards"], rollout["discounts"], n_step, limit
    )
    rewards, discounts = rollout["rewards"].double(), rollout["discounts"].double()
    for t in range(len(sums)):
        for e in range(sums.shape[1]):
            total, product, count = 0.0, 1.0, 0
            for k in range(n_step):
                total += product * float(rewards[t + k, e])
                product *= float(discounts[t + k, e])
                count += 1
                if limit[t + k, e]:
                    break
            assert float(sums[t, e]) == pytest.approx(total, abs=2e-5)
            assert float(products[t, e]) == pytest.approx(product, abs=2e-5)
            assert int(steps[t, e]) == count


def test_n_step_refuses_windows_that_do_not_fit() -> None:
    for n_step in (0, 5):
        with pytest.raises(InvalidArgumentError, match="n_step"):
            algos.n_step_returns(column(REWARDS), column(DISCOUNTS), n_step)


def test_gae_by_hand() -> None:
    advantages, returns = algos.gae(*golden([False, False, True, False]), 0.95)
    expected = column([-0.205262, -1.8775, -0.5, 3.55])
    torch.testing.assert_close(advantages, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(returns, expected + column(VALUES), atol=1e-5, rtol=0)
    limited = golden([False, True, False, False], final=3.0, discounts=[0.9] * 4)
    advantages, _ = algos.gae(*limited, 0.95)
    torch.testing.assert_close(advantages, column([2.8535, 1.7, 2.76025, 3.55]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.95, 1.0])
def test_gae_against_the_sum_of_temporal_differences(gae_lambda: float) -> None:
    rollout = random_rollout(3)

    def recursion(r: dict[str, Any]) -> Any:
        rows = len(r["rewards"])
        out = np.zeros(rows)
        for t in range(rows):  # forwards: each advantage by itself, as a discounted sum
            weight = 1.0
            for k in range(t, rows):
                delta = r["rewards"][k] + r["discounts"][k] * following(r, k) - r["values"][k]
                out[t] += weight * delta
                weight *= gae_lambda * r["discounts"][k]
                if r["cut"][k]:
                    break
        return out

    advantages, returns = algos.gae(
        rollout["rewards"],
        rollout["discounts"],
        rollout["values"],
        shifted(rollout),
        rollout["cut"],
        gae_lambda,
    )
    expected = torch.from_numpy(reference(rollout, recursion)).float()
    torch.testing.assert_close(advantages, expected, **TOLERANCE)
    torch.testing.assert_close(returns, expected + rollout["values"], **TOLERANCE)


def test_vtrace_by_hand() -> None:
    rewards, discounts, values, next_values, cut = golden([False, False, True, False])
    target = column([0.5, 0.4, 0.2, 0.8])
    behaviour = column([0.25, 0.5, 0.2, 0.4])
    result = algos.vtrace((target / behaviour).log(), rewards, discounts, values, next_values, cut)
    torch.testing.assert_close(result.targets, column([0.532, -0.52, -1.0, 3.8]))
    torch.testing.assert_close(result.advantages, column([0.032, -1.52, -0.5, 3.55]))
    same = algos.vtrace(torch.zeros(4, 1), rewards, discounts, values, next_values, cut)
    torch.testing.assert_close(same.targets, column([0.19, -0.9, -1.0, 3.8]))


def test_vtrace_gives_constants() -> None:
    rewards, discounts, values, next_values, cut = golden([False, False, True, False])
    logits = torch.zeros(4, 1, requires_grad=True)
    result = algos.vtrace(logits, rewards, discounts, values.requires_grad_(), next_values, cut)
    assert not any(part.requires_grad for part in result)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_rollouts_without_steps_or_environments(shape: tuple[int, int]) -> None:
    none = torch.zeros(shape)
    cut = none.bool()
    results = (
        *algos.gae(none, none, none, none, cut, 0.9),
        *algos.vtrace(none, none, none, none, none, cut),
        algos.q_lambda_returns(none, none, none, cut, 0.9),
    )
    assert {result.shape for result in results} == {shape}


@pytest.mark.parametrize(
    ("rho_bar", "c_bar", "trace_lambda"), [(1, 1, 1), (2, 1, 1), (1.5, 0.7, 0.9)]
)
def test_vtrace_against_a_plain_recursion(
    rho_bar: float, c_bar: float, trace_lambda: float
) -> None:
    rollout = random_rollout(4)

    def recursion(r: dict[str, Any]) -> Any:
        rows = len(r["rewards"])
        targets, advantages = np.zeros(rows), np.zeros(rows)
        for t in reversed(range(rows)):
            ratio = math.exp(r["log_ratios"][t])
            rho, c = min(rho_bar, ratio), trace_lambda * min(c_bar, ratio)
            value_after = following(r, t)
            at_edge = r["cut"][t] or t + 1 == rows
            target_after = value_after if at_edge else targets[t + 1]
            delta = rho * (r["rewards"][t] + r["discounts"][t] * value_after - r["values"][t])
            targets[t] = r["values"][t] + delta
            targets[t] += r["discounts"][t] * c * (target_after - value_after)
            advantages[t] = rho * (
                r["rewards"][t] + r["discounts"][t] * target_after - r["values"][t]
            )
        return np.stack([targets, advantages], -1)

    result = algos.vtrace(
        rollout["log_ratios"],
        rollout["rewards"],
        rollout["discounts"],
        rollout["values"],
        shifted(rollout),
        rollout["cut"],
        rho_bar=rho_bar,
        c_bar=c_bar,
        trace_lambda=trace_lambda,
    )
    expected = torch.from_numpy(reference(rollout, recursion)).float()
    torch.testing.assert_close(result.targets, expected[:, 0], **TOLERANCE)
    torch.testing.assert_close(result.advantages, expected[:, 1], **TOLERANCE)


def test_vtrace_on_policy_is_gae_of_lambda_one() -> None:
    rollout = random_rollout(5)
    arguments = (
        rollout["rewards"],
        rollout["discounts"],
        rollout["values"],
        shifted(rollout),
        rollout["cut"],
    )
    result = algos.vtrace(torch.zeros_like(rollout["rewards"]), *arguments)
    _, returns = algos.gae(*arguments, 1.0)
    torch.testing.assert_close(result.targets, returns, **TOLERANCE)


def test_q_lambda_by_hand() -> None:
    following_values = column([1.0, -0.5, 0.25, 2.0])
    discounts = column([0.99, 0.99, 0.0, 0.99])
    cut = column([False, False, True, False])
    returns = algos.q_lambda_returns(column(REWARDS), discounts, following_values, cut, 0.65)
    torch.testing.assert_close(returns, column([0.820921, -0.81675, -1.0, 3.98]), atol=1e-6, rtol=0)


def test_q_lambda_against_a_mixture_of_n_step_returns() -> None:
    rollout = random_rollout(6)
    q_lambda = 0.65

    def recursion(r: dict[str, Any]) -> Any:
        rows = len(r["rewards"])
        out = np.zeros(rows)
        for t in range(rows):
            # The n-step returns up to the edge, the last with all that is left of the weight.
            total, product, weight = 0.0, 1.0, 1.0
            for k in range(t, rows):
                total += product * r["rewards"][k]
                product *= r["discounts"][k]
                n_step = total + product * following(r, k)
                at_edge = r["cut"][k] or k + 1 == rows
                out[t] += weight * (1.0 if at_edge else 1.0 - q_lambda) * n_step
                weight *= q_lambda
                if at_edge:
                    break
        return out

    returns = algos.q_lambda_returns(
        rollout["rewards"], rollout["discounts"], shifted(rollout), rollout["cut"], q_lambda
    )
    torch.testing.assert_close(
        returns, torch.from_numpy(reference(rollout, recursion)).float(), **TOLERANCE
    )


def test_reward_rules() -> None:
    rewards = torch.tensor([-3.0, -0.5, 0.0, 0.25, 7.0])
    assert algos.clip_rewards(rewards, "clip").tolist() == [-1, -0.5, 0, 0.25, 1]
    assert algos.clip_rewards(rewards, "sign").tolist() == [-1, -1, 0, 1, 1]
    assert algos.clip_rewards(rewards, "none") is rewards
    with pytest.raises(InvalidArgumentError, match="reward_rule"):
        algos.clip_rewards(rewards, "half")


# --- Losses -------------------------------------------------------------------------------------


def test_log_probabilities_and_entropy() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    actions = torch.tensor([0, 3, 1, 2, 2])
    raised = np.exp(logits.double().numpy())
    probabilities = raised / raised.sum(-1, keepdims=True)
    expected = np.log(probabilities[np.arange(5), actions.numpy()])
    np.testing.assert_allclose(algos.log_prob(logits, actions), expected, atol=1e-5)
    expected = -(probabilities * np.log(probabilities)).sum(-1)
    np.testing.assert_allclose(algos.entropy(logits), expected, atol=1e-5)


def test_ppo_policy_loss_against_a_loop() -> None:
    generator = torch.Generator().manual_seed(1)
    new, old, advantages = torch.randn(3, 64, generator=generator) * 0.3
    new = new.clone().requires_grad_()
    clip_range = 0.2
    result = algos.ppo_policy_loss(new, old, advantages, clip_range)
    total, kl, outside = 0.0, 0.0, 0
    gradients = np.zeros(64)
    for i in range(64):
        log_ratio = float(new[i].detach().double() - old[i].double())
        ratio, advantage = math.exp(log_ratio), float(advantages[i])
        clipped = min(max(ratio, 1 - clip_range), 1 + clip_range)
        total += min(ratio * advantage, clipped * advantage)
        kl += (ratio - 1) - log_ratio
        outside += abs(ratio - 1) > clip_range
        # The gradient is that of the unclipped term, or none where clipping makes it worse.
        if ratio * advantage <= clipped * advantage:
            gradients[i] = -ratio * advantage / 64
    assert float(result.loss.detach()) == pytest.approx(-total / 64, abs=1e-6)
    assert float(result.approx_kl) == pytest.approx(kl / 64, abs=1e-6)
    assert float(result.clip_fraction) == pytest.approx(outside / 64)
    assert 0 < outside < 64
    result.loss.backward()
    np.testing.assert_allclose(new.grad, gradients, atol=1e-6)


def test_value_loss_plain_and_clipped() -> None:
    values = torch.tensor([1.0, 2.0, -1.0])
    old = torch.tensor([0.0, 1.9, 0.0])
    returns = torch.tensor([0.5, 3.0, -4.0])
    assert float(algos.value_loss(values, returns)) == pytest.approx((0.25 + 1 + 9) / 3)
    # Clipped to 0.2 and -0.2 in rows 0 and 2: the larger error counts.
    clipped = algos.value_loss(values, returns, old, 0.2)
    assert float(clipped) == pytest.approx((0.25 + 1 + 3.8**2) / 3)
    with pytest.raises(InvalidArgumentError, match="old_values is None"):
        algos.value_loss(values, returns, clip_range=0.2)


def test_huber() -> None:
    errors = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 2.0])
    expected = [abs(e) - 0.5 if abs(e) > 1 else e * e / 2 for e in errors.tolist()]
    assert algos.huber(errors).tolist() == pytest.approx(expected)
    assert algos.huber(errors, 2.0).tolist() == pytest.approx([4.0, 0.5, 0.125, 0.0, 0.125, 2.0])


def test_explained_variance() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert float(algos.explained_variance(returns, returns)) == pytest.approx(1.0)
    assert float(algos.explained_variance(torch.zeros(4), returns)) == pytest.approx(0.0)
    normed = algos.normalize(returns, returns.mean(), returns.std())
    assert float(normed.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(normed.std()) == pytest.approx(1.0)


def test_targets() -> None:
    sums, products = torch.tensor([1.0, -1.0]), torch.tensor([0.9, 0.0])
    target_q = torch.tensor([[1.0, 5.0, 2.0], [3.0, 4.0, 5.0]])
    online_q = torch.tensor([[0.0, 1.0, 2.0], [9.0, 1.0, 2.0]])
    assert algos.q_targets(sums, products, target_q).tolist() == pytest.approx([5.5, -1.0])
    double = algos.q_targets(sums, products, target_q, online_q)
    assert double.tolist() == pytest.approx([2.8, -1.0])


# --- Distributions ------------------------------------------------------------------------------


def test_projection_by_hand() -> None:
    support = algos.atoms(-2.0, 2.0, 5)
    probs = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1]])
    moved = algos.project_distribution(probs, torch.tensor([0.5]), torch.tensor([0.9]), support)
    torch.testing.assert_close(moved, torch.tensor([[0.03, 0.15, 0.32, 0.32, 0.18]]))
    ended = algos.project_distribution(probs, torch.tensor([3.0]), torch.tensor([0.0]), support)
    torch.testing.assert_close(ended, torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]]))


def test_projection_against_floor_and_ceiling() -> None:
    generator = torch.Generator().manual_seed(2)
    support = algos.atoms(-10.0, 10.0, 51)
    probs = torch.randn(32, 51, generator=generator).softmax(-1)
    rewards = torch.randn(32, generator=generator) * 4
    discounts = torch.rand(32, generator=generator)
    rewards[:4], discounts[:4] = torch.tensor([0.0, 0.4, 12.0, -12.0]), 1.0  # on atoms; clipped
    discounts[4:8] = 0.0
    projected = algos.project_distribution(probs, rewards, discounts, support)
    for row in range(32):
        expected = np.zeros(51)
        for atom in range(51):
            z = -10.0 + atom * 0.4
            moved = min(max(float(rewards[row]) + float(discounts[row]) * z, -10.0), 10.0)
            place = round((moved + 10.0) / 0.4, 5)  # 5 digits: so that an atom is met exactly
            low, high = math.floor(place), math.ceil(place)
            if low == high:
                expected[low] += float(probs[row, atom])
            else:
                expected[low] += (high - place) * float(probs[row, atom])
                expected[high] += (place - low) * float(probs[row, atom])
        np.testing.assert_allclose(projected[row], expected, atol=2e-5)
    torch.testing.assert_close(projected.sum(-1), torch.ones(32))


def test_distributional_values_and_loss() -> None:
    support = algos.atoms(-1.0, 1.0, 3)
    logits = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 0.0, 50.0]]])
    torch.testing.assert_close(algos.expected_values(logits, support), torch.tensor([[0.0, 1.0]]))
    loss = algos.categorical_loss(torch.zeros(2, 3), torch.tensor([[1.0, 0, 0], [0.2, 0.3, 0.5]]))
    torch.testing.assert_close(loss, torch.full((2,), math.log(3)))
    for arguments in ((0.0, 0.0, 5), (-1.0, 1.0, 1)):
        with pytest.raises(InvalidArgumentError):
            algos.atoms(*arguments)


def test_quantile_huber_loss_against_a_loop() -> None:
    generator = torch.Generator().manual_seed(4)
    quantiles, targets = (torch.randn(3, n, generator=generator) * 2 for n in (4, 5))
    fractions = torch.rand(3, 4, generator=generator)
    for kappa in (0.5, 1.0, 3.0):
        found = algos.quantile_huber_loss(quantiles, fractions, targets, kappa)
        for b in range(3):
            total = 0.0
            for tau, quantile in zip(fractions[b].tolist(), quantiles[b].tolist(), strict=True):
                for target in targets[b].tolist():
                    u = target - quantile
                    size = abs(u)
                    huber = u * u / 2 if size <= kappa else kappa * (size - kappa / 2)
                    total += abs(tau - (u < 0)) * huber / kappa / 5
            assert float(found[b]) == pytest.approx(total, rel=1e-5)


def test_quantile_huber_loss_finds_quantiles() -> None:
    """With a small kappa its minimum is at the quantiles of the targets."""
    targets = torch.arange(1000).float().expand(1, -1) / 1000
    fractions = torch.tensor([[0.1, 0.5, 0.9]])
    quantiles = torch.full((1, 3), 0.3, requires_grad=True)
    for _ in range(2000):
        loss = algos.quantile_huber_loss(quantiles, fractions, targets, 1e-3).sum()
        (gradient,) = torch.autograd.grad(loss, quantiles)
        quantiles = (quantiles - 0.01 * gradient).detach().requires_grad_()
    np.testing.assert_allclose(quantiles.detach(), fractions, atol=0.01)


# --- Priorities and exploration -----------------------------------------------------------------


def test_priorities() -> None:
    assert algos.priorities_from_errors(torch.tensor([-2.0, 0.0])).tolist() == pytest.approx(
        [2, 1e-6]
    )


def test_epsilon_ladder() -> None:
    ladder = algos.epsilon_ladder(8)
    expected = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    np.testing.assert_allclose(ladder, expected, rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="num_envs"):
        algos.epsilon_ladder(1)
    sigmas = algos.sigma_ladder(5, 0.05, 0.8)
    np.testing.assert_allclose(sigmas, [0.05, 0.1, 0.2, 0.4, 0.8], rtol=1e-6)
    assert [algos.linear_schedule(1.0, 0.0, x) for x in (-1, 0, 0.25, 2)] == [1.0, 1.0, 0.75, 0.0]


def test_samples_follow_the_policy() -> None:
    generator = torch.Generator().manual_seed(3)
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    draws = algos.sample_categorical(probabilities.log().expand(100_000, 4), generator)
    shares = torch.bincount(draws, minlength=4) / 100_000
    # Four standard deviations of a share of 100,000 draws are below 0.0064.
    torch.testing.assert_close(shares, probabilities, atol=0.0064, rtol=0)


def test_epsilon_greedy_explores_as_often_as_asked() -> None:
    generator = torch.Generator().manual_seed(4)
    q_values = torch.tensor([0.0, 3.0, 1.0, 2.0]).expand(100_000, 4)
    draws = algos.epsilon_greedy(q_values, 0.2, generator)
    shares = torch.bincount(draws, minlength=4) / 100_000
    torch.testing.assert_close(shares, torch.tensor([0.05, 0.85, 0.05, 0.05]), atol=0.0064, rtol=0)
    ladder = torch.zeros(100_000)
    ladder[::2] = 1.0
    draws = algos.epsilon_greedy(q_values, ladder, generator)
    assert (draws[1::2] == 1).all()
    assert float((draws[::2] == 1).float().mean()) == pytest.approx(0.25, abs=0.01)


def test_continuous_actions() -> None:
    raw = torch.randn(1000, 3, generator=torch.Generator().manual_seed(5)) * 3
    action = algos.disc_from_raw(raw)
    assert float(action[:, :2].norm(dim=-1).max()) <= 1.0 + 1e-6
    assert float(action[:, 2].min()) >= 0.0
    assert float(action[:, 2].max()) <= 1.0
    polar = algos.polar_from_disc(action)
    assert float(polar[:, 0].max()) <= 1.0
    assert float(polar[:, 1].abs().max()) <= math.pi + 1e-6
    torch.testing.assert_close(algos.disc_from_polar(polar), action, atol=1e-5, rtol=0)
    straight = algos.polar_from_disc(torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]))
    np.testing.assert_allclose(straight, [[1, math.pi / 2, 0], [1, math.pi, 1]], atol=1e-6)
    for function in (algos.disc_from_raw, algos.clip_to_disc):
        still = torch.zeros(1, 3, requires_grad=True)
        function(still).sum().backward()
        assert still.grad is not None
        assert torch.isfinite(still.grad).all()


def test_gaussian_policies() -> None:
    """Against torch's own distribution in float64, from the numbers and from their noise."""
    torch.manual_seed(4)
    means, noise = torch.randn(50, 3), torch.randn(50, 3)
    log_sigma = torch.tensor([-2.0, 0.1, 0.7])
    raw = means + log_sigma.exp() * noise
    normal = torch.distributions.Normal(means.double(), log_sigma.double().exp())
    expected = normal.log_prob(raw.double()).sum(-1)
    for found in (
        algos.gaussian_log_prob(means, log_sigma, raw),
        algos.noise_log_prob(noise, log_sigma),
    ):
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)
    entropy = algos.gaussian_entropy(log_sigma)
    torch.testing.assert_close(entropy.double(), normal.entropy()[0].sum(), atol=1e-5, rtol=1e-5)


def test_ratios_before_squashing_are_those_of_executed_actions() -> None:
    """One policy's mean of a function of radius, angle and fire, from draws of another."""
    generator = torch.Generator().manual_seed(5)
    means, sigmas = torch.tensor([[0.9, -0.8, 0.2], [0.6, -1.1, -0.1]]), torch.tensor([1.0, 0.9])
    draws, log_probs = [], []
    for mean, sigma in zip(means, sigmas, strict=True):
        raw = mean + sigma * torch.randn(200_000, 3, generator=generator)
        draws.append(raw)
        log_sigma = sigma.log().expand(3)
        log_probs.append([algos.gaussian_log_prob(mean, log_sigma, x) for x in draws])
    raw = draws[0]
    new = algos.gaussian_log_prob(means[1], sigmas[1].log().expand(3), raw)
    ratios = (new - log_probs[0][0]).exp().double()
    one, other = (algos.polar_from_raw(x).double() for x in draws)
    at_the_edge = float((one[:, 0] > 0.999).double().mean())
    assert 0.2 < at_the_edge < 0.8  # where squashing cannot be undone

    def pays(action: Any) -> Any:
        return action[:, 0] * (action[:, 1] + 2.0 * action[:, 2] + 1.0)

    samples = ratios * pays(one)
    error = float(samples.std() + pays(other).std()) / 200_000**0.5
    assert float(samples.mean()) == pytest.approx(float(pays(other).mean()), abs=4 * error)
    assert abs(float(pays(one).mean() - pays(other).mean())) > 20 * error


def test_action_gradients_are_clipped_elementwise() -> None:
    actions = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.0, 1.0]], requires_grad=True)
    gradients = torch.tensor([[5.0, -0.5, -3.0], [0.1, 1.0, 2.0]])
    algos.action_gradient_loss(actions, gradients).backward()
    assert actions.grad is not None
    # Descending the loss moves each action along its clipped derivative, over the batch.
    expected = torch.tensor([[-0.5, 0.25, 0.5], [-0.05, -0.5, -0.5]])
    torch.testing.assert_close(actions.grad, expected)


def test_random_actions_fill_the_disc_evenly() -> None:
    generator = torch.Generator().manual_seed(6)
    actions = algos.random_disc_actions(20_000, generator, torch.device("cpu"))
    radius = actions[:, :2].norm(dim=-1)
    assert float(radius.max()) <= 1.0 + 1e-6
    # A quarter of the disc lies within half its radius; four deviations of 20,000 draws.
    assert float((radius < 0.5).float().mean()) == pytest.approx(0.25, abs=0.0125)
    assert float(actions[:, 2].mean()) == pytest.approx(0.5, abs=0.01)
