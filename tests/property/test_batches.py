"""A console does not see its neighbours: threads, splits and order of a batch change nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support.cases import long_except
from tests.support.runs import (
    MIXED,
    assert_same,
    draw_actions,
    join,
    make,
    make_mixed,
    reset,
    step_all,
    take,
)

pytestmark = pytest.mark.ale

STEPS = 40
NUM_ENVS = sum(count for _, count in MIXED)
CONSOLES = [game for game, count in MIXED for _ in range(count)]
KINDS: list[dict[str, Any]] = [
    {"resets": "exact"},
    {"resets": "exact", "autoreset_mode": "SameStep"},
    {"resets": "cached", "num_reset_states": 3},
    {"resets": "cached", "num_reset_states": 2, "autoreset_mode": "SameStep"},
]


@pytest.mark.parametrize("kind", long_except(KINDS, KINDS[1], KINDS[2]), ids=str)
def test_threads(kind: dict[str, Any]) -> None:
    actions = draw_actions(0, STEPS, NUM_ENVS)
    runs, states = [], []
    for num_threads in (1, 2, 3, 16):
        env = make_mixed(num_threads=num_threads, **kind)
        runs.append([reset(env, seed=5), *step_all(env, actions), reset(env)])
        states.append(env.get_state())
        env.close()
    for run, rows in zip(runs[1:], states[1:], strict=True):
        assert_same(runs[0], run)
        assert np.array_equal(states[0], rows)
    assert any(result["truncated"].any() for result in runs[0][1:-1])


@pytest.mark.parametrize("kind", long_except(KINDS, KINDS[0], KINDS[3]), ids=str)
@pytest.mark.parametrize(
    "cuts",
    [(4, 7), *(pytest.param(c, marks=pytest.mark.long) for c in ((1,), tuple(range(1, NUM_ENVS))))],
    ids=str,
)
def test_splits(kind: dict[str, Any], cuts: tuple[int, ...]) -> None:
    actions = draw_actions(1, STEPS, NUM_ENVS)
    seeds = np.arange(100, 100 + NUM_ENVS)
    whole = make_mixed(num_threads=2, **kind)
    expected = [reset(whole, seed=seeds), *step_all(whole, actions), reset(whole)]
    parts = []
    for start, end in itertools.pairwise((0, *cuts, NUM_ENVS)):
        groups = [(game, len(list(run))) for game, run in itertools.groupby(CONSOLES[start:end])]
        env = make(groups, end - start, **kind)
        mine = slice(start, end)
        parts.append([reset(env, seed=seeds[mine]), *step_all(env, actions[:, mine]), reset(env)])
        env.close()
    assert_same(expected, join(parts))
    whole.close()


@pytest.mark.parametrize("kind", KINDS[::2], ids=str)
def test_order(kind: dict[str, Any]) -> None:
    """Consoles of one game with their seeds in another order."""
    rng = np.random.default_rng(0)
    order = rng.permutation(6)
    seeds = rng.integers(0, 1000, 6)
    actions = draw_actions(2, STEPS, 6)
    runs = []
    for chosen in (np.arange(6), order):
        env = make("breakout", 6, **kind)
        run = [reset(env, seed=seeds[chosen]), *step_all(env, actions[:, chosen])]
        runs.append(run)
        env.close()
    back = np.argsort(order)
    assert_same(runs[0], take(runs[1], back))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_asynchronous_batches_return_what_step_returns(kind: dict[str, Any]) -> None:
    actions = draw_actions(3, STEPS, 5)
    whole = make("qbert", 5, **kind)
    expected = [reset(whole, seed=1), *step_all(whole, actions)]
    env = make("qbert", 5, batch_size=2, num_threads=2, **kind)
    obs, info = env.reset(seed=1)
    counts = np.zeros(5, np.int64)
    compared = 0
    given: dict[str, Any] = {}
    for _ in range(2 * STEPS):
        ids = info["env_id"]
        for row, console in enumerate(ids):
            result = expected[counts[console]]
            assert np.array_equal(result["obs"][console], obs[row])
            assert result["frame_number"][console] == info["frame_number"][row]
            for name, values in given.items():
                if counts[console]:  # a reset gives no reward and no flags
                    assert result[name][console] == values[row]
            compared += 1
        if counts.max() == STEPS:
            break
        env.send(actions[counts[ids], ids])
        counts[ids] += 1
        obs, reward, terminated, truncated, info = env.recv()
        given = {"reward": reward, "terminated": terminated, "truncated": truncated}
    assert compared >= 2 * STEPS
    env.close()
    whole.close()
