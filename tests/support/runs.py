"""Runs of vector environments, recorded with everything that comes back, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import cule
from tests.support.ale_pair import difference

#: Games with short or unfinished frames, several screen heights and kinds of cartridge, paddles.
MIXED = (
    ("journey_escape", 2),
    ("tic_tac_toe_3d", 2),
    ("qbert", 2),
    ("tetris", 1),
    ("breakout", 2),
    ("elevator_action", 1),
    ("air_raid", 1),
)
LIMIT_FRAMES = 50

Result = dict[str, np.ndarray]


def make(game: Any, num_envs: int, **keywords: Any) -> cule.AtariVectorEnv:
    """An environment with short episodes and sticky actions."""
    keywords.setdefault("num_threads", 1)
    keywords.setdefault("max_num_frames_per_episode", LIMIT_FRAMES)
    keywords.setdefault("repeat_action_probability", 0.25)
    keywords.setdefault("noop_max", 8)
    keywords.setdefault("full_action_space", True)
    return cule.AtariVectorEnv(game, num_envs, **keywords)


def make_mixed(**keywords: Any) -> cule.AtariVectorEnv:
    """All of `MIXED` in one batch."""
    return make(list(MIXED), sum(count for _, count in MIXED), **keywords)


def draw_actions(seed: int, steps: int, num_envs: int) -> np.ndarray:
    """Random actions of the full action space ``[steps, num_envs]``, each held for two steps."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, 18, ((steps + 1) // 2, num_envs)), 2, axis=0)[:steps]


def flatten(obs: Any, info: dict[str, Any], *flags: Any) -> Result:
    """One result as named arrays, each with a row for every console."""
    result = {"obs": obs, **dict(zip(("reward", "terminated", "truncated"), flags, strict=False))}
    for key, value in info.items():
        if key not in ("env_id", "final_obs", "final_info", "_final_info"):
            result[key] = value
    if "final_obs" in info:
        ended = info["_final_info"]
        shape = (-1, *(1,) * (obs.ndim - 1))
        result["final_obs"] = np.where(ended.reshape(shape), info["final_obs"], 0)
        result["ended"] = ended
        result["episode_return"] = info["final_info"]["episode_return"]
    return result


def step_all(env: cule.AtariVectorEnv, actions: Iterable[np.ndarray]) -> list[Result]:
    """The results of stepping, and the RAM after each."""
    results = []
    for row in actions:
        obs, reward, terminated, truncated, info = env.step(row)
        results.append(flatten(obs, info, reward, terminated, truncated))
        results[-1]["ram"] = np.array(env.ram)
    return results


def reset(env: cule.AtariVectorEnv, **arguments: Any) -> Result:
    """The result of a reset."""
    return flatten(*env.reset(**arguments))


def assert_same(expected: Sequence[Result], got: Sequence[Result]) -> None:
    """Every array of every result is equal."""
    assert len(expected) == len(got)
    for number, (theirs, mine) in enumerate(zip(expected, got, strict=True)):
        assert theirs.keys() == mine.keys(), f"result {number}"
        for name, values in theirs.items():
            wrong = difference(values, mine[name])
            assert not wrong, f"result {number}, {name}: {wrong}"


def take(results: Sequence[Result], rows: Any) -> list[Result]:
    """Some consoles of every result."""
    return [{name: values[rows] for name, values in result.items()} for result in results]


def join(parts: Sequence[Sequence[Result]]) -> list[Result]:
    """The results of several environments concatenated, as of one batch."""
    joined = []
    for results in zip(*parts, strict=True):
        names = {name for result in results for name in result}
        whole = {}
        for name in names:
            columns = []
            for result in results:
                like = {"final_obs": "obs", "ended": "truncated", "episode_return": "reward"}
                columns.append(result.get(name, np.zeros_like(result[like.get(name, name)])))
            whole[name] = np.concatenate(columns)
        joined.append(whole)
    return joined
