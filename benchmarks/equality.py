"""Compare a GPU with the CPU: all games in one batch, every step, every result.

Both back ends get the same actions from the same cached reset states. The GPU plays a chunk of
steps without waiting, while the CPU plays the same ones; then observations, rewards, terminated,
truncated, lives, RAM and, where episodes ended, final observations are compared, and after each
chunk the snapshots of all environments. Writes a JSON file after each chunk; the first difference
of each game is in it.

    python benchmarks/equality.py --steps 1000 --envs-per-game 8 --out equality.json
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
import torch
from torch import Tensor

import cule
from cule.bench.games import games_named

#: What `play` keeps of each step.
Results = dict[str, Tensor]


class Comparison:
    """The first difference of each game.

    Attributes:
        differences: By game: the step, the environment and the result that differ first.
    """

    def __init__(self, games: Sequence[str], envs_per_game: int) -> None:
        """Lay out the environments: those of a game are next to each other."""
        self._games, self._envs_per_game = games, envs_per_game
        self.differences: dict[str, dict[str, object]] = {}

    def compare(self, step: int, name: str, ours: Tensor, expected: Tensor) -> None:
        """Compare a result ``[N, ...]`` after a step."""
        if torch.equal(ours, expected):
            return
        differs = (ours != expected).flatten(1).any(1) if ours.dim() > 1 else ours != expected
        for env in differs.nonzero().flatten().tolist():
            game = self._games[env // self._envs_per_game]
            found = {"step": step, "env": env, "result": name}
            self.differences.setdefault(game, found)


def play(env: cule.AtariVectorEnv, actions: Tensor) -> list[Results]:
    """Step with actions ``[T, N]``; copies of the results, on the device of the environment."""
    kept = []
    for row in actions:
        obs, reward, terminated, truncated, info = env.step(row)
        results = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        results["lives"], results["ram"] = info["lives"], env.ram.clone()
        ended = terminated | truncated
        # Without episodes that end, only a CPU leaves these out.
        final: Any = info.get("final_obs", obs)
        shape = (-1, *[1] * (final.dim() - 1))
        results["final_obs"] = torch.where(ended.view(shape), final, 0)
        kept.append(results)
    return kept


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
    random = np.random.default_rng(options.seed)

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
        gpu, cpu = envs
        first = [env.reset(seed=options.seed)[0] for env in envs]
        comparison.compare(0, "obs", first[0].cpu(), first[1])
        write(0)
        for begin in range(0, options.steps, options.chunk):
            count = min(options.chunk, options.steps - begin)
            size = (count, gpu.num_envs)
            chosen = random.integers(len(gpu.action_set), size=size, dtype=np.int32)
            actions = torch.from_numpy(chosen)
            ours = play(gpu, actions.to(options.device))
            expected = play(cpu, actions)
            for number, (mine, wanted) in enumerate(zip(ours, expected, strict=True), begin + 1):
                for name, value in wanted.items():
                    comparison.compare(number, name, mine[name].cpu(), value)
            states = [env.get_state().cpu() for env in envs]
            comparison.compare(begin + count, "snapshot", *states)
            write(begin + count)
    for game, difference in comparison.differences.items():
        print(f"{game} differs: {difference}")
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())
