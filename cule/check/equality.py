"""Compare environments step by step: observations, numbers, flags, RAM, final observations.

Both play a chunk of steps from the same actions, a GPU without waiting; then everything is
compared, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cule.bench.engines import VectorEnv, as_numpy

#: What `play` keeps of each step: arrays or tensors by name.
Results = dict[str, Any]


class Comparison:
    """The first difference of each game.

    Attributes:
        differences: By game: the step, the environment and the result that differ first.
    """

    def __init__(self, games: Sequence[str], envs_per_game: int) -> None:
        """Lay out the environments: those of a game are next to each other."""
        self._games, self._envs_per_game = games, envs_per_game
        self.differences: dict[str, dict[str, object]] = {}

    def compare(self, step: int, name: str, ours: Any, expected: Any) -> None:
        """Compare a result ``[N, ...]``, array or tensor, after a step."""
        first, second = as_numpy(ours), as_numpy(expected)
        if np.array_equal(first, second):
            return
        differs = (first != second).reshape(len(first), -1).any(1)
        for env in np.flatnonzero(differs).tolist():
            game = self._games[env // self._envs_per_game]
            found = {"step": step, "env": env, "result": name}
            self.differences.setdefault(game, found)


def play(env: VectorEnv, actions: Any) -> list[Results]:
    """Step with actions ``[T, N]``; copies of the results, on the device of the environment."""
    kept = []
    for row in actions:
        obs, reward, terminated, truncated, info = env.step(row)
        results = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        results["lives"] = info["lives"]
        if hasattr(env, "ram"):
            results["ram"] = env.ram
        ended = terminated | truncated
        # Without episodes that end, only a CPU leaves these out.
        final = info.get("final_obs", obs)
        results["final_obs"] = final * ended.reshape(-1, *[1] * (final.ndim - 1))
        kept.append({name: _copy(value) for name, value in results.items()})
    return kept


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else np.array(value)


def compare_envs(
    comparison: Comparison,
    ours: VectorEnv,
    expected: VectorEnv,
    actions: Any,
    chunk: int,
    seed: int,
) -> Iterator[int]:
    """Reset both and play actions, int32 ``[T, N]``, in chunks.

    Yields:
        The number of steps compared, after the reset and after each chunk.
    """
    first = [env.reset(seed=seed)[0] for env in (ours, expected)]
    comparison.compare(0, "obs", *first)
    yield 0
    for begin in range(0, len(actions), chunk):
        some = actions[begin : begin + chunk]
        mine, wanted = play(ours, some), play(expected, some)
        for number, (own, other) in enumerate(zip(mine, wanted, strict=True), begin + 1):
            for name in own.keys() & other.keys():
                comparison.compare(number, name, own[name], other[name])
        steps = begin + len(some)
        if hasattr(ours, "get_state") and hasattr(expected, "get_state"):
            comparison.compare(steps, "snapshot", ours.get_state(), expected.get_state())
        yield steps
