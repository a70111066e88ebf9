"""Compare a GPU with the CPU: all games in one batch, every step, every result.

Both back ends get the same actions from the same cached reset states (`cule.check.equality`). After
each chunk of steps the snapshots of all environments are compared, and a JSON file is written; the
first difference of each game is in it.

    python -m benchmarks.equality --steps 1000 --envs-per-game 8 --out equality.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cule
from cule.bench.games import games_named
from cule.check.equality import Comparison, compare_envs


def make(games: Sequence[str], envs_per_game: int, device: str) -> cule.AtariVectorEnv:
    """All games in one batch."""
    return cule.AtariVectorEnv(
        [(game, envs_per_game) for game in games],
        len(games) * envs_per_game,
        device=device,
        output="torch",
        resets="cached",
        autoreset_mode="SameStep",
        repeat_action_probability=0.25,
    )


def main() -> int:
    """Compare what the command line asks for; 0 if all is equal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["all"], help="names, or default, 57, all")
    parser.add_argument("--envs-per-game", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--chunk", type=int, default=10, help="steps whose results are kept")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    games = games_named(options.games)
    start = time.perf_counter()
    comparison = Comparison(games, options.envs_per_game)

    def write(steps: int) -> None:
        record: dict[str, Any] = {
            "games": len(games),
            "envs_per_game": options.envs_per_game,
            "steps_wanted": options.steps,
            "steps_compared": steps,
            "games_equal": len(games) - len(comparison.differences),
            "first_differences": comparison.differences,
            "seconds": round(time.perf_counter() - start, 1),
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{steps} steps, {len(comparison.differences)} games differ", flush=True)

    with contextlib.ExitStack() as stack:
        envs = [make(games, options.envs_per_game, name) for name in (options.device, "cpu")]
        for env in envs:
            stack.callback(env.close)
        size = (options.steps, envs[0].num_envs)
        random = np.random.default_rng(options.seed)
        actions = random.integers(len(envs[0].action_set), size=size, dtype=np.int32)
        for steps in compare_envs(
            comparison, envs[0], envs[1], actions, options.chunk, options.seed
        ):
            write(steps)
    for game, difference in comparison.differences.items():
        print(f"{game} differs: {difference}")
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())
