"""Actors and shards of a cluster as plain objects: priorities, counts, and sampling over rings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule import algos  # noqa: E402
from cule.agents import ApexConfig, ApexDQN  # noqa: E402
from cule.agents.cluster.acting import Block, Player  # noqa: E402
from cule.agents.cluster.connection import NodeReport, check_reports  # noqa: E402
from cule.agents.cluster.shard import RING_BITS, Shard  # noqa: E402
from cule.errors import ClusterError, InvalidArgumentError  # noqa: E402
from cule.nets import gather_actions  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL  # noqa: E402

NUM_ENVS = 4


def make_agent(**changes: Any) -> ApexDQN:
    options = {**SMALL["apex-dqn"].options, "num_envs": NUM_ENVS, "n_step": 3, **changes}
    return ApexDQN(ApexConfig(**options), Catch(NUM_ENVS))


def make_player(agent: ApexDQN, index: int = 0, limit: int = 0) -> Player:
    return Player(
        agent.config, index, lambda config, _: Catch(NUM_ENVS, limit=limit), agent.network
    )


def make_shard(agent: ApexDQN, *actors: int, first_ring: int = 0) -> Shard:
    options: dict[str, Any] = {**agent.memory_options(), "capacity": 8000}
    return Shard(options, first_ring, actors)


def same_up_to_a_factor(probabilities: torch.Tensor, masses: torch.Tensor) -> None:
    shares = masses.double() / masses.double().sum()
    ours = probabilities.double() / probabilities.double().sum()
    torch.testing.assert_close(ours, shares, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("limit", [0, 3])
def test_blocks_give_the_transitions_and_priorities_of_one_process(limit: int) -> None:
    agent = make_agent(num_actors=1, cluster="auto")
    player, shard = make_player(agent, limit=limit), make_shard(agent, 0)
    for number in range(8):
        played, block = player.play(5, 7 if number == 0 else None)
        assert played.num_steps == 5 * NUM_ENVS
        assert (block.start is not None) == (number == 0)
        stored = shard.insert(0, number, block)
    assert stored.num_stored == 40 * NUM_ENVS
    assert stored.num_valid == (40 - 3 + 1) * NUM_ENVS
    ring = shard.rings[0]
    batch = ring.sample_at(torch.arange(stored.num_valid))
    # The first network acted all the time: errors of the transitions are the first priorities.
    with torch.no_grad():
        best = agent.network(batch.next_obs).amax(-1)
        taken = gather_actions(agent.network(batch.obs), batch.actions)
        if limit:  # the value of a truncated step replaces that of its final observation
            values = agent.network(batch.obs).amax(-1)
            rows = torch.arange(len(batch.ids)) // NUM_ENVS
            last = (rows // 3 * 3 + 2) * NUM_ENVS + torch.arange(len(batch.ids)) % NUM_ENVS
            known = last < len(batch.ids)
            best = values[last.clamp(max=len(values) - 1)]
        else:
            known = torch.ones(len(batch.ids), dtype=torch.bool)
    errors = batch.returns + batch.discounts * best - taken
    masses = algos.priorities_from_errors(errors) ** agent.config.alpha
    same_up_to_a_factor(batch.probabilities[known], masses[known])


def test_a_block_holds_every_frame_once_and_little_more() -> None:
    player = make_player(make_agent(num_actors=1, cluster="auto"))
    player.play(5, 7)
    _, block = player.play(50, None)
    frames = 50 * NUM_ENVS * 5 * 5
    assert block.frames.nbytes == frames
    assert block.num_bytes == frames + 50 * NUM_ENVS * (8 + 4 + 4 + 4)


def test_actions_and_frames_continue_across_blocks() -> None:
    one, two = (make_player(make_agent(num_actors=1, cluster="auto")) for _ in range(2))
    whole = one.play(12, 3)[1]
    parts = [two.play(4, 3 if k == 0 else None)[1] for k in range(3)]
    for name in ("frames", "actions", "rewards", "priorities"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    np.testing.assert_array_equal(np.concatenate([p.flags for p in parts], 1), whole.flags)


def test_new_weights_act_and_have_their_version() -> None:
    agent = make_agent(num_actors=1, cluster="auto")
    player = make_player(agent)
    zeros = np.zeros(sum(p.numel() for p in agent.network.parameters()), np.float32)
    played, _ = player.play(4, 3, zeros, 17)
    assert played.version == 17
    assert not any(p.any() for p in player.network.parameters())


def test_actors_have_their_own_part_of_the_ladder_and_their_own_games() -> None:
    agent = make_agent(num_actors=3, cluster="auto")
    players = [make_player(agent, index) for index in range(3)]
    ladder = torch.cat([player.epsilon for player in players])
    torch.testing.assert_close(ladder, algos.epsilon_ladder(3 * NUM_ENVS))
    starts = [player.play(1, 3)[1].start for player in players]
    assert not np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[1], starts[2])


def filled_shard(agent: ApexDQN) -> Shard:
    shard = make_shard(agent, 1, 3, first_ring=8)
    for index in (1, 3):
        player = make_player(agent, index)
        for number in range(3):
            shard.insert(8 + index, number, player.play(10, index if number == 0 else None)[1])
    return shard


def test_a_shard_samples_its_rings_as_one_memory() -> None:
    agent = make_agent(num_actors=4, cluster="auto")
    shard = filled_shard(agent)
    assert list(shard.rings) == [9, 11]
    # Ring 11 has 9 times the mass of ring 9, on two transitions each.
    for number, priority in ((9, 1.0), (11, 9.0 ** (1 / agent.config.alpha))):
        ids = torch.arange(28 * NUM_ENVS)
        values = torch.zeros(len(ids))
        values[[20, 40]] = priority
        shard.update_priorities((ids + (number << RING_BITS)).numpy(), values.numpy())
    found = shard.sample(4000)
    assert found is not None
    ids, probabilities = found[6], found[7]
    keys, numbers = np.unique(ids, return_counts=True)
    counts = dict(zip(keys.tolist(), numbers.tolist(), strict=True))
    expected = {
        (n << RING_BITS) + k: share for n, share in ((9, 0.05), (11, 0.45)) for k in (20, 40)
    }
    assert counts.keys() == expected.keys()
    for key, share in expected.items():
        assert abs(counts[key] / 4000 - share) < 0.01
        np.testing.assert_allclose(probabilities[ids == key], share, rtol=1e-4)


def test_a_shard_takes_every_block_once_and_in_order() -> None:
    agent = make_agent(num_actors=1, cluster="auto")
    player, shard = make_player(agent), make_shard(agent, 0)
    assert shard.sample(8) is None
    block = player.play(5, 7)[1]
    shard.insert(0, 0, block)
    for number in (0, 2):
        with pytest.raises(InvalidArgumentError, match="must be 1"):
            shard.insert(0, number, block)
    assert shard.stored().num_stored == 5 * NUM_ENVS


def test_arrays_of_an_object_store_are_read_only() -> None:
    agent = make_agent(num_actors=1, cluster="auto")
    shard = make_shard(agent, 0)
    block = make_player(agent).play(5, 7)[1]
    frozen = Block(*(value.copy() for value in block))  # type: ignore[union-attr]
    for value in frozen:
        assert value is not None
        value.flags.writeable = False
    shard.insert(0, 0, frozen)
    assert shard.sample(8) is not None


def test_options_of_a_cluster_that_contradict() -> None:
    with pytest.raises(InvalidArgumentError, match="replay_shards must be at most num_actors"):
        ApexConfig(cluster="auto", num_actors=2, replay_shards=3)
    with pytest.raises(InvalidArgumentError, match="num_actors 0"):
        ApexConfig(cluster="auto")
    with pytest.raises(InvalidArgumentError, match="without cluster"):
        ApexConfig(replay_shards=2)


def test_nodes_with_other_versions_are_named() -> None:
    import platform

    from cule import __version__

    python = platform.python_version()
    check_reports([NodeReport("a", python, __version__, [])])
    with pytest.raises(ClusterError) as error:
        check_reports(
            [
                NodeReport("a", python, __version__, []),
                NodeReport("b", "3.8.1", __version__, []),
                NodeReport("c", python, "0.0.1", ["game 'pong': no ROM"]),
            ]
        )
    assert str(error.value) == (
        f"node b has Python 3.8.1; it must be {python}; node c: cule is 0.0.1; it must be "
        f"{__version__}; node c: game 'pong': no ROM"
    )
