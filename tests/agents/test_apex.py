"""Ape-X: priorities from acting, the ladder, and actor processes."""

from __future__ import annotations

import multiprocessing as mp
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule import algos  # noqa: E402
from cule.agents import ApexConfig, ApexDQN  # noqa: E402
from cule.agents.training.actors import ActorError, ActorGroup  # noqa: E402
from cule.agents.training.runner import Run, RunOptions  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import gather_actions  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL, small_learner  # noqa: E402


def catch_of_actor(config: Any, index: int) -> Catch:
    """Games of an actor process; a function that can be pickled."""
    return Catch(config.num_envs, first_env=100 * index)


def failing_env(config: Any, index: int) -> Catch:
    raise RuntimeError("no environment here")


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


def test_options_that_contradict_are_refused() -> None:
    for changes in (
        {"prioritized": False},
        {"num_atoms": 51},
        {"noisy": True},
        {"num_actors": -1},
        {"num_actors": 2, "exploration": "schedule"},
        {"num_actors": 2, "normalize_obs": True},
    ):
        with pytest.raises(InvalidArgumentError):
            ApexConfig(**changes)


def test_actor_processes_have_one_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ApexConfig()
    with pytest.raises(InvalidArgumentError, match="single learner"):
        ApexConfig(num_actors=2)


def make_with_actors(factory: Any, **changes: Any) -> ApexDQN:
    options = {
        **SMALL["apex-dqn"].options,
        "num_envs": 8,
        "num_actors": 2,
        "block_size": 20,
        "learning_starts": 640,
        "memory": 8_000,
        "total_steps": 4_000,
        **changes,
    }
    return ApexDQN(ApexConfig(**options), Catch(1), env_factory=factory)


@pytest.mark.long
def test_actor_processes_learn_catch() -> None:
    agent = make_with_actors(catch_of_actor)
    started_at = 0
    for progress in agent.train():
        started_at = started_at or (progress.steps if progress.updates else 0)
    assert agent.steps >= 4_000
    # Samples learned from are what the steps after the start pay for; the block with which it
    # started counts as well, and is at most 16 environments' 20 steps and a little.
    learned = agent.updates * 64 + agent.pending_samples
    assert 4.0 * (agent.steps - started_at) <= learned <= 4.0 * (agent.steps - started_at + 640)
    assert agent.statistics.read()["episodes"] > 500
    agent.check_finite()
    assert agent.evaluate(episodes=20, env=Catch(20, first_env=1000)).mean >= 0.3


@pytest.mark.long
def test_actors_of_a_resumed_run_keep_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[int] = []
    allow = ActorGroup.allow

    def noting(group: ActorGroup, steps: int) -> None:
        allowed.append(steps)
        allow(group, steps)

    monkeypatch.setattr(ActorGroup, "allow", noting)
    agent = make_with_actors(catch_of_actor, total_steps=1_001_000)
    agent.steps = 1_000_000
    for _ in agent.train():
        gauges = agent.gauges()
    assert 0 < max(allowed) == agent.steps - 1_000_000
    # The memory fills further during the call; a timestep holds 16 environments.
    assert gauges["replay_size"] > 0
    assert gauges["replay_span"] == gauges["replay_size"] / 16
    assert gauges["max_priority"] > 0


@pytest.mark.long
def test_actors_end_with_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_with_actors(catch_of_actor, num_actors=1)
    run = Run(agent, tmp_path / "run", RunOptions(eval_episodes=0, progress_bar=False))

    def fail(*_: Any) -> None:
        raise InvalidArgumentError("a round fails")

    monkeypatch.setattr(run, "_after_round", fail)
    before = set(mp.active_children())
    with pytest.raises(InvalidArgumentError, match="a round fails") as error:
        run.run()
    assert error.traceback  # whose frames live on
    assert set(mp.active_children()) == before


@pytest.mark.slow
def test_the_learner_says_that_its_actors_are_gone() -> None:
    agent = make_with_actors(failing_env, num_actors=1)
    with pytest.raises(ActorError, match="ended"), pytest.warns(RuntimeWarning, match="actor 0"):
        next(iter(agent.train()))


ORPHANS = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.catch import Catch
from tests.agents.test_apex import catch_of_actor, make_with_actors

if __name__ == "__main__":
    # Far more samples an insert than the learner can give: the actors will wait.
    agent = make_with_actors(catch_of_actor, total_steps=10**9, samples_per_insert=1e4)
    for progress in agent.train():
        print(progress.steps, flush=True)
"""


@pytest.mark.slow
def test_actors_end_with_a_killed_learner(tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    words = [sys.executable, str(script), str(Path(__file__).parents[2])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        assert learner.stdout.readline()
        children = Path(f"/proc/{learner.pid}/task/{learner.pid}/children").read_text().split()
        actors = [
            pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(actors) == 2
        learner.kill()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in actors):
        assert time.monotonic() < deadline
        time.sleep(0.05)
