"""Values in units of the deviation of returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule import FrameStep  # noqa: E402
from cule.agents.parts.rollout import ValueScale  # noqa: E402
from cule.agents.run.checkpoint import (  # noqa: E402
    load_state,
    read_checkpoint,
)
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402

POINTS = 500.0


class RichCatch(Catch):
    """Catch with many points a ball, as Atari games have."""

    def step_frames(self, actions: Any, out: Any = None) -> FrameStep:
        step = super().step_frames(actions, out)
        return step._replace(
            reward=POINTS * step.reward, episode_return=POINTS * step.episode_return
        )


def rich_learner(**changes: Any) -> Any:
    options = {"reward_rule": "none", "clip_values": False, "total_steps": 8_192, **changes}
    return small_learner("ppo", env=RichCatch(16), **options)


@pytest.mark.long
def test_large_values_are_learned_in_units_of_their_deviation() -> None:
    """Without, the gradient of values uses up the norm to which gradients are clipped."""
    scores = []
    for agent in (rich_learner(normalize_values=True), rich_learner()):
        for _ in agent.train():
            pass
        scores.append(agent.evaluate(episodes=100, env=RichCatch(50)).mean)
        if agent.config.normalize_values:
            assert float(agent.value_scale.std) == pytest.approx(POINTS, rel=0.5)
    assert scores[0] > 0.5 * POINTS
    assert scores[1] < 0.0


def test_new_units_do_not_change_values() -> None:
    agent: Any = rich_learner(normalize_values=True)
    obs = torch.randint(0, 256, (64, 2, 5, 5), dtype=torch.uint8)
    for mean, std in ((30.0, 500.0), (-800.0, 2.0), (0.0, 0.0)):
        before = agent.values_of(obs)
        agent.value_scale.update(torch.tensor(mean), torch.tensor(std), agent.network.value)
        torch.testing.assert_close(agent.values_of(obs), before, rtol=1e-4, atol=1e-2)


def test_units_are_finite_without_rewards() -> None:
    scale = ValueScale()
    for _ in range(300):
        scale.update(torch.zeros(()), torch.zeros(()), None)
    values = torch.tensor([0.0, 0.5])
    assert float(scale.std) == pytest.approx(0.01)
    torch.testing.assert_close(scale.values(scale.outputs(values)), values)


def test_units_forget_old_rollouts() -> None:
    """Returns grow while a game is learned."""
    scale = ValueScale()
    for mean, std, count in ((1.0, 1.0, 50), (100.0, 20.0, 800)):
        for _ in range(count):
            scale.update(torch.tensor(mean), torch.tensor(std), None)
    assert float(scale.mean) == pytest.approx(100.0, rel=1e-2)
    assert float(scale.std) == pytest.approx(20.0, rel=5e-2)


def test_units_are_in_checkpoints(tmp_path: Path) -> None:
    agent: Any = rich_learner(normalize_values=True)
    for _ in agent.train(steps=1024):
        pass
    agent.save(tmp_path / "at.pt")
    again = rich_learner(normalize_values=True)
    load_state(again, read_checkpoint(tmp_path / "at.pt"))
    assert float(agent.value_scale.std) != 1.0
    for mine, theirs in zip(agent.value_scale.buffers(), again.value_scale.buffers(), strict=True):
        assert torch.equal(mine, theirs)
