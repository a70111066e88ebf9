"""``resets="cached"``: chance comes from the seed alone, and resets are ones ale-py could make."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support.cases import long_except
from tests.support.runs import (
    Result,
    assert_same,
    draw_actions,
    make,
    make_mixed,
    reset,
    step_all,
)

pytestmark = pytest.mark.ale

STEPS = 40


def run(seed: int, *, game: str = "breakout", **keywords: Any) -> list[Result]:
    keywords = {"resets": "cached", "num_reset_states": 5, **keywords}
    env = make(game, 6, **keywords)
    results = [reset(env, seed=seed), *step_all(env, draw_actions(0, STEPS, 6)), reset(env)]
    env.close()
    return results


@pytest.mark.parametrize("game", ["breakout", "qbert"])
def test_seed_decides(game: str) -> None:
    assert_same(run(7, game=game), run(7, game=game))
    with pytest.raises(AssertionError):
        assert_same(run(7, game=game), run(8, game=game))


@pytest.mark.parametrize("game", ["breakout", "elevator_action"])
def test_reset_states_are_exact_resets(game: str) -> None:
    """The cache holds what exact environments with the seeds 0, 1, ... start from."""
    exact = make(game, 4, resets="exact")
    starts = reset(exact, seed=0)
    env = make(game, 30, resets="cached", num_reset_states=4)
    seen = set()
    for seed in (0, 1000, None):
        result = reset(env, seed=seed)
        for console in range(30):
            same = [
                k
                for k in range(4)
                if np.array_equal(result["obs"][console], starts["obs"][k])
                and np.array_equal(env.ram[console], exact.ram[k])
                and result["frame_number"][console] == starts["frame_number"][k]
            ]
            assert same
            seen.update(same[:1])
    distinct = {starts["obs"][k].tobytes() + exact.ram[k].tobytes() for k in range(4)}
    assert len(seen) == len(distinct)
    exact.close()
    env.close()


def test_one_reset_state() -> None:
    env = make("pong", 5, resets="cached", num_reset_states=1)
    obs = reset(env, seed=0)["obs"]
    assert all(np.array_equal(obs[0], row) for row in obs)
    env.close()


def test_consoles_with_equal_seeds_stay_equal() -> None:
    env = make("seaquest", 4, resets="cached", num_reset_states=6)
    reset(env, seed=np.array([3, 3, 4, 4]))
    actions = np.repeat(draw_actions(0, STEPS, 2), 2, axis=1)
    for result in step_all(env, actions):
        for name, values in result.items():
            assert np.array_equal(values[0], values[1]), name
            assert np.array_equal(values[2], values[3]), name
    env.close()


def test_every_episode_draws_anew() -> None:
    """The states of one console's resets, one after the other, are a mixture."""
    env = make("space_invaders", 1, resets="cached", num_reset_states=4, noop_max=30)
    frames = [int(reset(env, seed=0)["frame_number"][0])]
    frames += [int(reset(env)["frame_number"][0]) for _ in range(40)]
    assert 2 <= len(set(frames)) <= 4
    assert len(set(itertools.pairwise(frames))) > len(set(frames))
    env.close()


@pytest.mark.parametrize("probability", long_except([0.0, 0.25, 0.75, 1.0], 0.25))
def test_sticky_actions_have_their_probability(probability: float) -> None:
    """One frame to the right, then no-ops: with this probability the paddle never moves."""
    consoles = 300
    right = 2  # in the minimal action set
    rams = []
    for action in (0, right):
        env = make(
            "breakout",
            consoles,
            resets="cached",
            num_reset_states=1,
            repeat_action_probability=probability,
            max_num_frames_per_episode=1000,
            frameskip=1,
            full_action_space=False,
        )
        reset(env, seed=0)
        for played in [0] * 8 + [action] + [0] * 12:
            env.step(np.full(consoles, played))
        rams.append(np.array(env.ram))
        env.close()
    stayed = float((rams[0] == rams[1]).all(axis=1).mean())
    spread = 4 * np.sqrt(probability * (1 - probability) / consoles)  # four standard deviations
    assert abs(stayed - probability) <= spread


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_decorrelation(resets: str) -> None:
    """Consoles start at different times; by seed, and whatever the number of threads."""
    keywords: dict[str, Any] = {"resets": resets, "num_reset_states": 2}
    most = 9
    runs = []
    seeds = np.arange(3, 3 + make_mixed(**keywords).num_envs)
    for seed, num_threads in ((0, 1), (0, 3), (1, 1), (seeds, 1), (seeds, 2)):
        env = make_mixed(decorrelate_steps=most, num_threads=num_threads, **keywords)
        runs.append([reset(env, seed=seed), *step_all(env, draw_actions(0, 5, env.num_envs))])
        env.close()
    assert_same(runs[0], runs[1])
    with pytest.raises(AssertionError):
        assert_same(runs[0], runs[2])
    assert_same(runs[3], runs[4])
    plain = make_mixed(**keywords)
    start = reset(plain, seed=0)["frame_number"]
    ahead = runs[0][0]["frame_number"] - start
    if resets == "exact":  # the same reset as without
        assert ((ahead >= 0) & (ahead <= most * 4)).all()
        assert len(set(ahead.tolist())) > 2
    plain.close()
