"""Ape-X on a Ray cluster of three nodes on this machine."""

from __future__ import annotations

import csv
import errno
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="ray is not installed; make test-integrations runs this")

import torch  # noqa: E402

from cule import cli  # noqa: E402
from cule.agents import ApexConfig  # noqa: E402
from cule.agents.cluster.connection import check_nodes, connect, disconnect  # noqa: E402
from cule.agents.cluster.group import BLOCKS_AHEAD, ActorError, ClusterGroup  # noqa: E402
from cule.agents.parts.memory import memory_gauges  # noqa: E402
from cule.errors import CapacityError, ClusterError, InvalidArgumentError  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.ray_nodes import node_options, nodes  # noqa: E402
from tests.support.run_cluster import OPTIONS, CatchApex  # noqa: E402

#: Of Ray itself: its processes and files live longer than the objects that own them.
pytestmark = pytest.mark.filterwarnings("ignore")

SCRIPT = Path(__file__).parents[1] / "support" / "run_cluster.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with nodes(2, 2, 2) as made:
        yield made


class Numbered(Catch):
    """Games whose frames hold the number of the frame since the start, and the actor."""

    def __init__(self, num_envs: int, actor: int) -> None:
        super().__init__(num_envs, stack=1)
        self.actor, self.clock = actor, -1

    def _frames(self) -> Any:
        frames = torch.zeros(self.num_envs, 5, 5, dtype=torch.uint8)
        digits = [self.clock % 256, self.clock // 256, self.actor]
        frames[:, 0, :3] = torch.tensor(digits, dtype=torch.uint8)
        return frames

    def reset(self, *, seed: Any = None) -> Any:
        self.clock = 0
        return super().reset(seed=seed)

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        self.clock += 1
        return super().step_frames(actions, out)


def numbered_of_actor(config: Any, index: int) -> Numbered:
    return Numbered(config.num_envs, index)


def broken_of_actor(config: Any, index: int) -> Catch:
    raise InvalidArgumentError(f"actor {index} has no games")


def make_agent(cluster: Any, factory: Any = None, **changes: Any) -> Any:
    options = {**OPTIONS, "cluster": cluster.address, "total_steps": 8_000, **changes}
    stack = 1 if factory is numbered_of_actor else 2
    agent = CatchApex(ApexConfig(**options), Catch(1, stack=stack))
    if factory is not None:
        agent.env_factory = factory
    return agent


def stored_frames(shard: Any) -> dict[int, Any]:
    """Frames of all transitions that can be sampled, by ring that has some; ``[timesteps, N, 5, 5]``."""

    def read(shard: Any) -> dict[int, Any]:
        found = {}
        filled = {number: ring for number, ring in shard.rings.items() if ring.num_valid}
        for number, ring in filled.items():
            batch = ring.sample_at(torch.arange(ring.num_valid))
            found[number] = batch.obs.reshape(-1, ring.options.num_envs, 5, 5).numpy()
        return found

    return ray.get(shard.__ray_call__.remote(read))


def clocks_of(frames: Any) -> Any:
    """Numbers of frames; int ``[timesteps, N]``."""
    digits = frames[:, :, 0, :2].astype(int)
    return digits[..., 0] + 256 * digits[..., 1]


def settle(group: ClusterGroup) -> None:
    """Wait until all requested blocks have arrived, without requesting more."""
    for actor in group.actors:
        actor.held = BLOCKS_AHEAD
    while any(actor.playing or actor.inserting for actor in group.actors):
        group.pump(wait=True)


def requested_steps(group: ClusterGroup) -> int:
    """Steps of the blocks that have not arrived."""
    blocks = sum(len(a.playing) + (a.inserting is not None) for a in group.actors)
    return blocks * group.block_transitions


def scores_while_learning(agent: Any) -> list[float]:
    """Mean returns of 200 games after each 1,000 steps of training."""
    scores: list[float] = []
    for progress in agent.train():
        while progress.steps >= 1_000 * (len(scores) + 1):
            games = Catch(200, first_env=1000)
            scores.append(agent.evaluate(episodes=200, env=games).mean)
    agent.check_finite()
    return scores


def test_learns_catch_as_one_process_does(cluster: Any) -> None:
    """Two actors and two shards learn as fast as one process, within the spread of its seeds."""
    together, alone = [], []
    for seed in (1, 2, 3):
        agent = make_agent(cluster, num_actors=2, num_envs=12, seed=seed)
        together.append(scores_while_learning(agent))
        options = {"num_actors": 0, "num_envs": 24, "cluster": "", "replay_shards": 1, "seed": seed}
        one = CatchApex(ApexConfig(**{**OPTIONS, **options, "total_steps": 8_000}), Catch(24))
        alone.append(scores_while_learning(one))
    curves, curves_alone = np.array(together), np.array(alone)
    assert curves.shape == curves_alone.shape == (3, 8)
    assert (curves[:, -1] >= 0.9).all()
    assert (curves_alone[:, -1] >= 0.9).all()
    means = curves_alone.mean(1)
    assert abs(curves.mean() - means.mean()) <= max(np.ptp(means), 0.1), (curves, curves_alone)


def test_samples_per_insert_are_kept(cluster: Any) -> None:
    agent = make_agent(cluster, total_steps=4_000)
    started_at = 0
    for progress in agent.train():
        started_at = started_at or (progress.steps if progress.updates else 0)
    learned = agent.updates * 64 + agent.credit.pending
    assert 4.0 * (agent.steps - started_at) <= learned <= 4.0 * (agent.steps - started_at + 640)
    assert agent.statistics.read()["episodes"] > 500


def test_every_transition_arrives_once(cluster: Any) -> None:
    agent = make_agent(cluster, numbered_of_actor)
    with ClusterGroup(agent) as group:
        told = 0
        while told < 4_000:
            told += group.wait_for_transitions()
            group.request_blocks()
        settle(group)
        assert group.num_lost == group.num_dropped == 0
        assert group.num_arrived == sum(shard.num_stored for shard in group.stored)
        assert told <= group.num_arrived <= told + 3 * BLOCKS_AHEAD * group.block_transitions
        total = 0
        for shard in group.shards:
            for number, frames in stored_frames(shard).items():
                clocks = clocks_of(frames)
                assert (clocks == np.arange(len(clocks))[:, None]).all()
                assert (frames[:, :, 0, 2] == number % 3).all()
                total += len(clocks) * 8
        # The last transitions of an environment wait for their n steps.
        assert total + 3 * 8 * (agent.config.n_step - 1) == group.num_arrived


def test_confirmations_in_any_order_count_all_that_is_stored(cluster: Any) -> None:
    agent = make_agent(cluster, numbered_of_actor, num_actors=2, replay_shards=1)
    with ClusterGroup(agent) as group:
        ray.wait([actor.playing[0][0] for actor in group.actors], num_returns=2)
        group.pump()  # blocks of both actors are sent to the shard, in the order of the actors
        replies = [actor.inserting[0] for actor in group.actors if actor.inserting is not None]
        assert len(replies) == 2
        ray.wait(replies, num_returns=2)
        group.actors.reverse()
        group.pump()  # the later confirmation comes first
        assert group.stored[0].num_stored == group.num_arrived == 2 * group.block_transitions


def test_a_slow_learner_holds_actors_back(cluster: Any) -> None:
    agent = make_agent(cluster, numbered_of_actor)
    with ClusterGroup(agent) as group:
        deadline = time.monotonic() + 20
        most = 3 * BLOCKS_AHEAD * group.block_transitions
        while group.num_arrived < most:
            assert time.monotonic() < deadline
            group.pump(wait=True)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            group.pump()
            time.sleep(0.05)
        assert group.num_arrived == most  # the learner has not learned for them
        assert not requested_steps(group)
        assert group.wait_for_transitions() == most
        group.request_blocks()
        assert group.wait_for_transitions() > 0


def test_weights_reach_actors_and_their_age_is_measured(cluster: Any) -> None:
    agent = make_agent(cluster, sync_steps=5)
    for _ in agent.train(steps=4_000):
        gauges = memory_gauges(agent)
    assert agent.updates > 100
    assert 0 < gauges["weights_age"] < agent.updates / 2
    assert gauges["actors_playing"] == 3
    assert gauges["actor_frames_per_s"] > 0
    assert gauges["steps_lost"] == gauges["transitions_dropped"] == 0
    # 8 environments in 5 steps of 25 pixels, an action, a reward, flags and a priority; some blocks
    # have first frames.
    assert gauges["block_bytes"] in (40 * 45, 40 * 45 + 8 * 25)
    assert 2 < gauges["replay_ratio"] < 4
    assert {"blocks_playing", "blocks_inserting", "batches_ready"} <= gauges.keys()


def run_with_a_lost_node(cluster: Any, lose_at: int) -> None:
    """Train, SIGKILL a node that joined with the first actors, and check what was counted."""
    node = cluster.add_node(**node_options(2))
    cluster.wait_for_nodes()
    agent = make_agent(cluster, numbered_of_actor, num_actors=4, memory=400_000)
    is_lost, arrived_then = False, 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for progress in agent.train(steps=40_000):
            group = agent.actor_group
            if not is_lost and progress.steps >= lose_at:
                cluster.remove_node(node, allow_graceful=False)
                is_lost, arrived_then = True, progress.steps
            is_found = group.num_lost + group.num_dropped > 0
            if (
                is_found
                and progress.steps > arrived_then + 3_000
                and all(
                    actor.last is not None and not actor.begins and not actor.failures
                    for actor in group.actors
                )
            ):
                settle(group)
                check_counts(group)
                break
        else:
            pytest.fail("nothing was lost")
    texts = [str(warning.message) for warning in said]
    assert any("lost" in text for text in texts), texts
    assert agent.updates > 0


def check_counts(group: ClusterGroup) -> None:
    """Every stored frame is there once; what is not there was said to be lost."""
    stored = sum(shard.num_stored for shard in group.stored)
    assert stored <= group.num_arrived
    if not group.num_dropped:
        assert stored == group.num_arrived
    for shard in group.shards:
        for frames in stored_frames(shard).values():
            clocks = clocks_of(frames)[:, 0]
            jumps = np.flatnonzero(np.diff(clocks) != 1)
            assert (clocks[jumps + 1] == 0).all()  # only where new episodes begin
            assert len(jumps) <= 2
            assert clocks[0] == 0


@pytest.mark.parametrize("lose_at", [2_000])
def test_a_killed_node_is_replaced(cluster: Any, lose_at: int) -> None:
    run_with_a_lost_node(cluster, lose_at)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_nodes_killed_at_any_time_are_replaced(cluster: Any, seed: int) -> None:
    run_with_a_lost_node(cluster, random.Random(seed).randrange(200, 6_000))


class Cut(Catch):
    """Games in which each actor meets an error after 100 steps."""

    error = OSError("Broken pipe")  # as Ray raises it where the daemon of a node has died
    steps = 0

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        self.steps += 1
        if self.steps > 100:
            raise self.error
        return super().step_frames(actions, out)


class Failing(Cut):
    error = OSError(errno.ENOSPC, "No space left on device")


def test_an_actor_whose_node_is_dying_is_replaced(cluster: Any) -> None:
    agent = make_agent(cluster, lambda config, _: Cut(config.num_envs))
    with pytest.warns(RuntimeWarning, match="actor 0 lost"):
        for _ in agent.train(steps=6_000):
            pass
    group = agent.actor_group
    assert group.num_lost > 0
    assert group.num_arrived >= 6_000
    agent = make_agent(cluster, lambda config, _: Failing(config.num_envs))
    with pytest.raises(OSError, match="No space left"):
        list(agent.train(steps=6_000))


def test_a_lost_shard_is_replaced_by_an_empty_one(cluster: Any) -> None:
    agent = make_agent(cluster, numbered_of_actor)
    before = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for progress in agent.train(steps=20_000):
            group = agent.actor_group
            if not before and progress.updates > 5 and group.stored[1].num_valid > 0:
                before = group.num_arrived
                ray.kill(group.shards[1])
            if before and group.num_dropped and progress.steps > before + 3_000:
                settle(group)
                check_counts(group)
                break
    texts = [str(warning.message) for warning in said]
    assert any(f"shard 1 lost, with {group.num_dropped} stored" in text for text in texts), texts
    assert group.stored[1].num_valid > 0
    # What arrived is in a shard, or was reported with the shard that it was in; the last
    # transitions of an environment wait for their n steps.
    stored = sum(shard.num_stored for shard in group.stored)
    waiting = 8 * (group.config.n_step - 1)
    assert group.num_arrived == stored + group.num_dropped + waiting


def test_the_only_shard_is_replaced_while_actors_wait_for_the_learner(cluster: Any) -> None:
    agent = make_agent(cluster, numbered_of_actor, num_actors=2, replay_shards=1)
    with ClusterGroup(agent) as group:
        while any(actor.held < BLOCKS_AHEAD for actor in group.actors):
            group.pump(wait=True)
        ray.kill(group.shards[0])
        with pytest.warns(RuntimeWarning, match="shard 0 lost"):
            group.replace_shard(0)
        assert requested_steps(group) == 2 * BLOCKS_AHEAD * group.block_transitions
        assert len(group.replay.sample(64, 0.4).ids) == 64


def test_a_killed_learner_resumes_from_its_checkpoint(cluster: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = [sys.executable, str(SCRIPT), cluster.address, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as learner:
        deadline = time.monotonic() + 120
        while not (folder / "checkpoints" / "latest.pt").exists():
            assert time.monotonic() < deadline
            assert learner.poll() is None
            time.sleep(0.02)
        learner.kill()
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    begin, end = done.stdout.split("\n")[:2]
    assert int(begin.rpartition(" ")[2]) >= 1_000, done.stderr
    assert end == "complete"
    with (folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["steps"]) for row in rows]
    assert steps == sorted(set(steps))
    assert {"weights_age", "actor_frames_per_s", "steps_lost", "replay_ratio"} <= rows[0].keys()


def test_the_command_line_trains_on_a_cluster(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = (
        f"train apex-dqn --cluster {cluster.address} --actors 2 --replay-shards 2 --game pong "
        "--num-envs 2 --network small --memory 8000 --learning-starts 64 --batch-size 16 "
        f"--total-steps 600 --log-every 100 --eval-episodes 0 --no-progress-bar --out {out}"
    )
    assert cli.main(words.split()) == 0, capsys.readouterr().err
    with (out / "progress.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert int(last["updates"]) > 10
    assert int(float(last["block_bytes"])) > 7_056 * 100


# --- Bad input ----------------------------------------------------------------------------------


def test_addresses_that_no_cluster_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="'auto', 'local' or HOST:PORT"):
        ClusterGroup(CatchApex(ApexConfig(**OPTIONS, cluster="ray://somewhere:1"), Catch(1)))
    for address in ("127.0.0.1:1", "head..local:6379"):
        with pytest.raises(ClusterError, match=f"'{address}', which cannot be reached"):
            ClusterGroup(CatchApex(ApexConfig(**OPTIONS, cluster=address), Catch(1)))


def test_the_command_line_says_that_there_is_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = f"train apex-dqn --cluster 127.0.0.1:1 --actors 2 --memory 8000 --learning-starts 64 --out {out}"
    assert cli.main([*words.split(), "--no-progress-bar", "--num-envs", "2"]) == 2
    assert "cannot be reached" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_actors": 30}, "30 actors and 2 replay shards need 32 CPU"),
        ({"memory": 10**11}, "of memory, and each part fits on one node"),
        ({"actor_gpus": 0.5}, "GPU"),
    ],
)
def test_too_few_resources(cluster: Any, changes: dict[str, Any], message: str) -> None:
    agent = make_agent(cluster, **changes)
    with pytest.raises(ClusterError, match=message):
        ClusterGroup(agent)


#: Run when Python starts: another version of cule is installed.
OLDER = """
import importlib.metadata as metadata
real = metadata.version
metadata.version = lambda name: "0.0.1" if name == "cule" else real(name)
"""


#: The same: cule is missing.
WITHOUT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "cule":
            raise ImportError("there is none")
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    ("start", "found"), [(OLDER, r"0\.0\.1"), (WITHOUT, r"not installed \(there is none\)")]
)
def test_a_node_with_another_version_of_cule(
    cluster: Any, tmp_path: Path, start: str, found: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(start)
    node = cluster.add_node(**node_options(1, {"PYTHONPATH": str(tmp_path)}))
    try:
        with pytest.raises(ClusterError, match=f"cule is {found}; it must be"):
            ClusterGroup(make_agent(cluster))
    finally:
        cluster.remove_node(node)


def test_a_node_that_has_left_is_not_asked(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    node = cluster.add_node(**node_options(1))
    cluster.wait_for_nodes()
    connect(cluster.address)
    try:
        listed, real = [ray.nodes()], ray.nodes
        cluster.remove_node(node, allow_graceful=False)
        deadline = time.monotonic() + 60
        while all(n["Alive"] or n in listed[0] for n in ray.nodes()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        monkeypatch.setattr(ray, "nodes", lambda: listed.pop() if listed else real())
        check_nodes([], [])
        assert not listed
    finally:
        disconnect()


def test_a_node_without_the_rom(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(**node_options(1, {"CULE_ROM_DIR": str(tmp_path / "nothing")}))
    try:
        agent = make_agent(cluster)
        agent.env_factory = None
        with pytest.raises(ClusterError, match="game 'pong': CULE_ROM_DIR is"):
            ClusterGroup(agent)
    finally:
        cluster.remove_node(node)


def test_a_node_without_the_file_of_an_own_game(cluster: Any, tmp_path: Path) -> None:
    agent = make_agent(cluster, rom_path=str(tmp_path / "mine.bin"))
    agent.env_factory = None
    with pytest.raises(ClusterError, match=r"no file .*mine\.bin"):
        ClusterGroup(agent)


def test_parts_that_do_not_start(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ActorError, match="actor 0 has no games"):
        ClusterGroup(make_agent(cluster, broken_of_actor)).__enter__()
    # The node has the memory free by Ray's count, and not by that of the machine.
    monkeypatch.setattr("cule.agents.cluster.group.check_resources", lambda *_: None)
    group = ClusterGroup(make_agent(cluster, memory=10**11))
    group.shard_resources["memory"] = 0
    with pytest.raises((ActorError, CapacityError), match="capacity is"):
        group.__enter__()
