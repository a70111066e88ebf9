"""PPO with random network distillation: novelty, its units, its returns, and what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule import algos  # noqa: E402
from cule.agents import RNDPPO, RNDPPOConfig  # noqa: E402
from cule.agents.ppo import Samples  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import Novelty  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import collect, small_learner  # noqa: E402

GAMMA = 0.9  # of novelty


def learner(num_envs: int = 4, **changes: Any) -> Any:
    """A small learner that has begun, of Catch with truncated episodes."""
    options = {"num_envs": num_envs, "num_steps": 6, "intrinsic_gamma": GAMMA, **changes}
    agent = small_learner("ppo-rnd", env=Catch(num_envs, limit=3), **options)
    agent.begin()
    return agent


def following_frames(agent: Any) -> Any:
    """The frame after each step, ``[T, N, 1, H, W]``, from the observations of the rollout."""
    rollout = agent.buffer.rollout()
    return torch.cat([rollout.obs[1:], rollout.bootstrap_obs[None]])[:, :, -1:]


@pytest.mark.parametrize("parts", [4096, 5], ids=["whole", "parts"])
def test_intrinsic_rewards(parts: int) -> None:
    """They are errors of the following frames over the running deviation of discounted sums."""
    agent = learner(forward_batch=parts)
    sums = np.zeros(4)
    mean = square = 0.0
    seen = []
    for count in range(1, 4):
        collect(agent, 6)
        rollout = agent.buffer.rollout()
        seen.append(rollout.obs[:, :, -1].double().numpy().reshape(-1, 5, 5))
        found = agent.intrinsic_rewards(rollout.bootstrap_obs)
        # Statistics begin with the weight of one frame of mean 0 and deviation 255.
        frames = np.concatenate(seen)
        total = len(frames) + 1
        pixel_mean = frames.sum(0) / total
        variance = ((frames**2).sum(0) + 255.0**2) / total - pixel_mean**2
        pixels = (following_frames(agent).double().numpy() - pixel_mean) / np.sqrt(variance + 1e-2)
        inputs = torch.from_numpy(np.clip(pixels, -5, 5) * 255).float().flatten(0, 1)
        networks = agent.novelty
        with torch.no_grad():
            differences = networks.predictor(inputs) - networks.target(inputs)
        novelty = differences.square().mean(1).view(6, 4).double().numpy()
        rows = []
        for row in novelty:
            sums = GAMMA * sums + row
            rows.append(sums)
        weight = 1 / count
        deviation = np.std(rows, ddof=1)
        mean += weight * (np.mean(rows) - mean)
        square += weight * (deviation**2 + np.mean(rows) ** 2 - square)
        expected = novelty / max(np.sqrt(square - mean**2), 1e-2)
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-3)


def test_novelty_goes_on_where_an_episode_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both advantages are what their definitions say, and learned from with their factors."""
    agent = learner(num_epochs=1, num_minibatches=1, extrinsic_coef=3.0, intrinsic_coef=0.5)
    collect(agent, 6)
    rollout = agent.buffer.rollout()
    assert rollout.ended.any()
    intrinsic = torch.rand(6, 4)
    monkeypatch.setattr(RNDPPO, "intrinsic_rewards", lambda *_: intrinsic)
    given: list[Any] = []
    monkeypatch.setattr(
        RNDPPO, "minimise", lambda _agent, samples, _stopped: given.append(samples) or {}
    )
    values = rollout.extras["values"]
    after = agent.values_of(rollout.bootstrap_obs)
    finals = {
        (int(step), env): agent.values_of(obs[env : env + 1])[0, 0]
        for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True)
        for env, step in enumerate(steps)
        if step >= 0
    }
    agent.learn()
    (samples,) = given
    advantages, returns = torch.zeros(6, 4), torch.zeros(6, 4, 2)
    for env in range(4):
        carried = [0.0, 0.0]
        for t in reversed(range(6)):
            following = after[env] if t == 5 else values[t + 1, env]
            ends = bool(rollout.ended[t, env])
            value = finals.get((t, env), 0.0) if ends else following[0]
            delta = rollout.rewards[t, env] + rollout.discounts[t, env] * value - values[t, env, 0]
            traced = 0.0 if ends else float(rollout.discounts[t, env]) * 0.95 * carried[0]
            novelty = intrinsic[t, env] + GAMMA * following[1] - values[t, env, 1]
            carried = [float(delta) + traced, float(novelty) + GAMMA * 0.95 * carried[1]]
            advantages[t, env] = 3.0 * carried[0] + 0.5 * carried[1]
            returns[t, env] = torch.tensor(carried) + values[t, env]
    found = torch.cat([samples.advantages[:, None], samples.returns], 1)
    expected = torch.cat([advantages.view(-1, 1), returns.view(-1, 2)], 1)
    by_advantage = [rows[rows[:, 0].argsort()] for rows in (found, expected)]
    torch.testing.assert_close(*by_advantage)


def test_value_losses_are_averaged() -> None:
    """The loss of values ``[B, 2]`` is the mean over both heads and the valid samples."""
    values, returns = torch.rand(5, 2), torch.rand(5, 2)
    valid = torch.tensor([True, False, True, True, False])
    found = algos.value_loss(values, returns, valid=valid)
    expected = (values - returns)[valid].square().mean()
    torch.testing.assert_close(found, expected)


def test_what_has_been_seen_is_less_novel() -> None:
    """The predictor learns the frames that it is given, and not others; the target stays."""
    torch.manual_seed(0)
    agent = learner(predictor_share=1.0)
    collect(agent, 6)
    agent.intrinsic_rewards(agent.buffer.rollout().bootstrap_obs)
    target = [parameter.clone() for parameter in agent.novelty.target.parameters()]
    seen, other = agent.buffer.obs_at(torch.arange(12)), torch.randint(0, 256, (12, 2, 5, 5))
    before = [float(agent.novelty(obs).mean().detach()) for obs in (seen, other)]
    losses = [float(agent.learn_frames(seen)) for _ in range(60)]
    after = [float(agent.novelty(obs).mean().detach()) for obs in (seen, other)]
    assert losses[0] == pytest.approx(before[0])
    assert after[0] < 0.2 * before[0]
    assert after[1] / before[1] > 2 * after[0] / before[0]
    assert all(map(torch.equal, target, agent.novelty.target.parameters()))


def test_the_predictor_reads_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = learner(predictor_share=0.3)
    sizes: list[int] = []
    forward = Novelty.forward
    monkeypatch.setattr(
        Novelty, "forward", lambda self, obs: sizes.append(len(obs)) or forward(self, obs)
    )
    agent.learn_frames(torch.zeros(20, 2, 5, 5, dtype=torch.uint8))
    agent.learn_frames(torch.zeros(1, 2, 5, 5, dtype=torch.uint8))
    assert sizes == [6, 1]


def test_only_the_newest_frame_is_read() -> None:
    agent = learner()
    obs = torch.randint(0, 256, (3, 2, 5, 5), dtype=torch.uint8)
    changed = obs.clone()
    changed[:, 0] = 0
    assert torch.equal(agent.novelty(obs), agent.novelty(changed))


@pytest.mark.parametrize("stack_num", [1, 4])
@pytest.mark.parametrize(
    ("obs_type", "network"),
    [("image", "small"), ("ram", "vector"), ("objects", "relations"), ("objects", "objects")],
)
def test_observations_of_every_type(obs_type: str, network: str, stack_num: int) -> None:
    config = RNDPPOConfig(
        game="breakout",
        obs_type=obs_type,  # type: ignore[arg-type]
        network=network,
        stack_num=stack_num,
        num_envs=4,
        num_steps=8,
        num_minibatches=2,
        total_steps=64,
    )
    agent = RNDPPO(config)
    assert [progress.steps for progress in agent.train()] == [32, 64]
    assert 0 < float(agent.metrics["novelty_loss"]) < 100


def test_next_step_leaves_out_ignored_actions() -> None:
    """Steps that reset an environment are no samples of either value."""
    agent = learner()
    samples = Samples(
        torch.zeros(4, 2, 5, 5, dtype=torch.uint8),
        torch.zeros(4, dtype=torch.int64),
        *(torch.zeros(4), torch.zeros(4, 2), torch.zeros(4), torch.zeros(4, 2)),
        torch.tensor([True, True, False, True]),
    )
    wrong = samples._replace(returns=torch.tensor([[0.0, 0], [0, 0], [99, 99], [0, 0]]))
    agent.setup.autoreset_mode = "NextStep"
    start = {name: value.clone() for name, value in agent.network.state_dict().items()}
    losses = []
    for batch in (samples, wrong):
        agent.network.load_state_dict(start)
        losses.append(agent.minimise(batch, torch.zeros((), dtype=torch.bool))["value_loss"])
    assert torch.equal(*losses)


@pytest.mark.parametrize("name", ["continuous", "normalize_values"])
def test_options_that_are_refused(name: str) -> None:
    options: dict[str, Any] = {name: True}
    with pytest.raises(InvalidArgumentError, match=f"{name} is True; with ppo-rnd it must be"):
        RNDPPOConfig(game="pong", **options)
