"""Acting overlaps learning: they share no state, so their order does not matter."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from cule.agents import ApexConfig  # noqa: E402
from cule.agents.parts import (  # noqa: E402
    actor_errors,
    graphs,
    memory,
)
from cule.errors import InvalidArgumentError  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.fake_cuda import fake_cuda  # noqa: E402
from tests.support.learners import collect, small_env, small_learner  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning")

APEX = ["apex-dqn", "apex-dpg"]


def overlapping(name: str, **changes: Any) -> Any:
    options = {"memory": 800, "sync_steps": 4, "samples_per_insert": 2.0, **changes}
    return small_learner(name, overlap=True, **options)


def everything(agent: Any) -> list[Any]:
    """All numbers of a learner."""
    parts = (
        agent.network.state_dict(),
        agent.optimizer.state_dict(),
        agent.generator.get_state(),
        agent.statistics.sums,
        agent.state_dict()["extra"],
        agent.steps,
        agent.updates,
    )
    return [
        leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in pytree.tree_leaves(parts)
    ]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        same = torch.equal(mine, other) if isinstance(mine, Tensor) else mine == other
        assert same


def play_first(agent: Any) -> None:
    """A round as it would be if all playing came before any learning."""
    config = agent.config
    batches = [agent.sample() for _ in range(agent.credit.updates_due(agent.replay))]
    agent.renew_actor(config.collect_steps)
    collect(agent, config.collect_steps)
    errors = []
    for batch in batches:
        errors.append(agent.learn_from(batch)[0])
        agent.count_update()
    for batch, found in zip(batches, errors, strict=True):
        memory.set_priorities(agent.replay, batch.ids, found)
    agent.credit.add(agent.replay, config.collect_steps * agent.num_envs)


@pytest.mark.parametrize("name", long_except(APEX, "apex-dqn"))
@pytest.mark.parametrize("collect_steps", long_except([1, 3], 3))
def test_order_does_not_show(name: str, collect_steps: int) -> None:
    # 800 transitions are 50 steps: the ring is overwritten while it is learned from.
    agent, other = (overlapping(name, collect_steps=collect_steps) for _ in range(2))
    other.begin()
    for _ in agent.train(steps=16 * 120):
        play_first(other)
    assert agent.updates > 40
    assert_same(everything(agent), everything(other))


@pytest.mark.parametrize("name", long_except(APEX, "apex-dqn"))
def test_it_is_not_the_run_without(name: str) -> None:
    agent, other = overlapping(name), overlapping(name)
    object.__setattr__(other.config, "overlap", False)
    for learner in (agent, other):
        for _ in learner.train(steps=16 * 60):
            pass
    # The updates that the last round pays for are still to come.
    behind = other.updates - agent.updates
    assert behind == math.floor(agent.credit.pending / agent.config.batch_size) >= 1
    assert not torch.equal(agent.replay.sample(64).obs, other.replay.sample(64).obs)


@pytest.mark.parametrize("name", long_except(APEX, "apex-dqn"))
def test_samples_are_those_that_steps_pay_for(name: str) -> None:
    agent = overlapping(name, samples_per_insert=1.3, collect_steps=2)
    started = 0
    for progress in agent.train(steps=16 * 200):
        if not started and agent.replay.num_valid >= agent.config.learning_starts:
            started = progress.steps - 2 * 16
    paid = 1.3 * (agent.steps - started)
    assert agent.updates * agent.config.batch_size + agent.credit.pending == pytest.approx(paid)
    assert agent.credit.pending < 1.3 * 2 * 16 + agent.config.batch_size


def test_weights_reach_the_actor_at_the_same_steps() -> None:
    changes = {}
    for collect_steps in (1, 3, 20):
        agent = overlapping("apex-dqn", sync_steps=20, collect_steps=collect_steps)
        before, changes[collect_steps] = None, []
        for progress in agent.train(steps=16 * 63):
            now = next(agent.actor.parameters()).clone()
            if before is not None and not torch.equal(now, before):
                changes[collect_steps].append(progress.steps // 16)
            before = now
    # In rounds with a step 20 n, counted from 0; updates follow from the round after 22 steps on.
    assert changes == {1: [41, 61], 3: [42, 63], 20: [80]}


@pytest.mark.parametrize("name", long_except(APEX, "apex-dqn"))
def test_a_resumed_run_goes_on(name: str, tmp_path: Path) -> None:
    agent, whole = overlapping(name), overlapping(name)
    for _ in agent.train(steps=16 * 70):
        pass
    assert agent.credit.pending >= agent.config.batch_size  # owed across the checkpoint
    agent.save(tmp_path / "run.pt")
    later = type(agent).load(tmp_path / "run.pt", env=small_env(name))
    for learner in (later, whole):
        for _ in learner.train(steps=16 * 100):
            pass
    assert_same(everything(later), everything(whole))


@pytest.mark.parametrize("name", long_except(APEX, "apex-dqn"))
def test_what_is_owed_waits_for_a_new_memory(name: str, tmp_path: Path) -> None:
    agent = overlapping(name)
    for _ in agent.train(steps=16 * 70):
        pass
    assert agent.credit.pending >= agent.config.batch_size
    agent.save(tmp_path / "run.pt", replay=False)
    later = type(agent).load(tmp_path / "run.pt", env=small_env(name))
    for _ in later.train(steps=agent.steps + 16 * 60):
        if later.updates > agent.updates:
            break
        owed = later.credit.pending
    assert later.replay.num_valid >= later.config.learning_starts
    assert owed >= agent.credit.pending
    assert (later.updates - agent.updates) * agent.config.batch_size + later.credit.pending >= owed


def test_actors_of_a_cluster_overlap_anyway() -> None:
    with pytest.raises(InvalidArgumentError, match="overlap is True; with num_actors 2"):
        ApexConfig(num_actors=2, cluster="local", overlap=True)


def test_a_part_that_fails_is_waited_for_as_well() -> None:
    def interrupted(values: Tensor) -> None:
        with actor_errors.concurrently(torch.cuda.Stream()) as acting, acting:
            values.add_(1)
            raise KeyboardInterrupt

    with fake_cuda():
        values = torch.zeros(3, device="cuda")
        with pytest.raises(KeyboardInterrupt):
            interrupted(values)
        assert (values + 1).tolist() == [2, 2, 2]


def test_acting_has_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cuda():
        streams = [torch.cuda.Stream() for _ in range(3)]
        by_turns = itertools.cycle(streams)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: next(by_turns))
        monkeypatch.setattr(graphs, "_side_stream", lambda index: streams[1])
        found = [graphs.separate_stream(torch.device("cuda")) for _ in range(4)]
    assert found == [streams[0], streams[2], streams[0], streams[2]]
