"""Ape-X: priorities from acting, the ladder, and actor processes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


from cule import algos  # noqa: E402
from cule.agents import ApexConfig  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import gather_actions  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402


def test_first_priorities_are_errors_of_the_acting_network() -> None:
    # No updates: the acting network is the same all the time, so what replay gives for the stored
    # transitions must be what acting found out as it went.
    agent = small_learner("apex-dqn", learning_starts=20_000, num_envs=8)
    for _ in agent.train(steps=8 * 40):
        pass
    replay = agent.replay  # type: ignore[attr-defined]
    batch = replay.sample_at(torch.arange(8 * 38))
    actor = agent.actor  # type: ignore[attr-defined]
    best = actor(batch.next_obs).amax(-1)
    taken = gather_actions(actor(batch.obs), batch.actions)
    expected = algos.priorities_from_errors(batch.returns + batch.discounts * best - taken) ** 0.6
    live = batch.probabilities > 0
    assert int(live.sum()) == 8 * 37  # the newest row waits for the next acting pass
    assert not live[-8:].any()
    share = expected[live] / expected[live].sum()
    torch.testing.assert_close(batch.probabilities[live], share, rtol=1e-3, atol=1e-6)


def test_where_a_limit_cuts_the_row_itself_stands_in() -> None:
    # As the rest of the file, but episodes of 3 steps: each window is cut at its end or before.
    env = Catch(4, limit=3)
    agent = small_learner(
        "apex-dqn", env=env, num_envs=4, learning_starts=1000, max_num_frames_per_episode=12
    )
    for _ in agent.train(steps=4 * 12):
        pass
    replay = agent.replay  # type: ignore[attr-defined]
    actor = agent.actor  # type: ignore[attr-defined]
    batch = replay.sample_at(torch.arange(4 * 9))
    q_values = actor(batch.obs)
    # Rows 3k, 3k+1, 3k+2 of an episode end with row 3k+2, after 3, 2 and 1 steps; no reward comes.
    rows = torch.arange(4 * 8) // 4
    last = (rows // 3 * 3 + 2) * 4 + torch.arange(4 * 8) % 4
    best = q_values.amax(-1)[last.clamp(max=len(q_values) - 1)]
    taken = gather_actions(q_values, batch.actions)[: 4 * 8]
    expected = (0.99 ** (3 - rows % 3) * best - taken).abs() + 1e-6
    known = last < len(q_values)
    share = batch.probabilities[: 4 * 8] / expected.detach() ** 0.6
    share = share[known]
    torch.testing.assert_close(share, share[0].expand_as(share), rtol=1e-3, atol=0)


def test_actors_use_old_weights_until_they_are_sent() -> None:
    agent = small_learner("apex-dqn", learning_starts=64, sync_steps=20)
    changes = []
    before = None
    for progress in agent.train(steps=16 * 60):
        now = next(agent.actor.parameters()).clone()  # type: ignore[attr-defined]
        if before is not None and not torch.equal(now, before):
            changes.append(progress.steps // 16)
        before = now
    assert changes == [21, 41]


def test_ladder_of_all_environments() -> None:
    agent = small_learner("apex-dqn", num_envs=8)
    torch.testing.assert_close(agent.epsilon(), algos.epsilon_ladder(8))  # type: ignore[attr-defined]
    lonely = small_learner("apex-dqn", num_envs=1, num_actors=1, cluster="local")
    with pytest.raises(InvalidArgumentError, match="num_envs is 1; with a ladder"):
        next(lonely.train())


def test_options_that_contradict_are_refused() -> None:
    for changes in (
        {"prioritized": False},
        {"num_atoms": 51},
        {"noisy": True},
        {"num_actors": -1},
        {"num_actors": 2},
        {"num_actors": 2, "cluster": "local", "exploration": "schedule"},
        {"num_actors": 2, "cluster": "local", "normalize_obs": True},
    ):
        with pytest.raises(InvalidArgumentError):
            ApexConfig(**changes)


def test_actors_have_one_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ApexConfig()
    with pytest.raises(InvalidArgumentError, match="single learner"):
        ApexConfig(num_actors=2, cluster="local")


def test_actors_without_a_cluster_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="use --cluster local for this machine"):
        ApexConfig(num_actors=2)
