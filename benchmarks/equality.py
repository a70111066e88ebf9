"""Compare a GPU with the CPU: every step, every result.

Both back ends get the same actions from the same cached reset states (`cule.check.equality`). The
interpreter plays all games in one batch; compiled kernels play a game at a time. After each chunk
of steps the snapshots of all environments are compared, and a JSON file is written; the first
difference of each game is in it. Fails if another kernel than that of ``--kernel`` runs.

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
import torch

import cule
from cule.bench.engines import check_kernel, load_kernel
from cule.bench.games import games_named
from cule.check.equality import Comparison, compare_envs
from cule.envs.launch import use_geometry
from cule.errors import CuleError

Record = dict[str, Any]


def make(games: Sequence[str], options: argparse.Namespace, device: str) -> cule.AtariVectorEnv:
    """Some games in one batch."""
    num_envs = len(games) * options.envs_per_game
    pairs = [(game, options.envs_per_game) for game in games]
    return cule.AtariVectorEnv(
        games[0] if len(games) == 1 else pairs,
        num_envs,
        device=device,
        output="torch",
        resets="cached",
        autoreset_mode="SameStep",
        repeat_action_probability=0.25,
        kernel="auto" if device == "cpu" else options.kernel,
    )


def compare(games: Sequence[str], options: argparse.Namespace, until: float) -> Record:
    """Compare a batch for a number of steps or until a time; what was found."""
    comparison = Comparison(games, options.envs_per_game)
    record: Record = {"games": list(games), "steps": 0, "differences": comparison.differences}
    with contextlib.ExitStack() as stack:
        with use_geometry(options.lanes):
            ours = make(games, options, options.device)
        stack.callback(ours.close)
        expected = make(games, options, "cpu")
        stack.callback(expected.close)
        if options.device != "cpu":
            ours.reset(seed=options.seed)
            load_kernel(ours, torch.zeros(ours.num_envs, dtype=torch.int64, device=options.device))
            check_kernel(ours, options.kernel)
        record["kernel"] = ours.running_kernel._asdict()
        size = (options.steps, ours.num_envs)
        random = np.random.default_rng(options.seed)
        actions = random.integers(len(ours.action_set), size=size, dtype=np.int32)
        for steps in compare_envs(comparison, ours, expected, actions, options.chunk, options.seed):
            record["steps"] = steps
            if time.perf_counter() >= until:
                break
    return record


def main() -> int:
    """Compare what the command line asks for; 0 if all is equal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["all"], help="names, or default, 57, all")
    parser.add_argument("--envs-per-game", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end earlier, after these"
    )
    parser.add_argument("--chunk", type=int, default=10, help="steps whose results are kept")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--kernel", default="interpreter", choices=["interpreter", "compiled"])
    parser.add_argument("--lanes", type=int, help="environments per warp, 1 to 32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    games = games_named(options.games)
    start = time.perf_counter()
    batches = [games] if options.kernel == "interpreter" else [(game,) for game in games]
    done: list[Record] = []
    for number, batch in enumerate(batches):
        now = time.perf_counter()
        until = now + (start + options.seconds - now) / (len(batches) - number)
        try:
            found = compare(batch, options, until)
        except (CuleError, RuntimeError) as error:
            found = {"games": list(batch), "steps": 0, "error": f"{type(error).__name__}: {error}"}
        done.append(found)
        record: Record = {
            "envs_per_game": options.envs_per_game,
            "steps_wanted": options.steps,
            "seconds": round(time.perf_counter() - start, 1),
            "batches": done,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        what = batch[0] if len(batch) == 1 else f"{len(batch)} games"
        result = found.get("error") or found["differences"] or "equal"
        print(f"{what}, {found['steps']} steps: {result}", flush=True)
    is_equal = all(not found.get("differences", True) and found["steps"] for found in done)
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
