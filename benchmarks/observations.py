"""Speed of kinds of observations, in interleaved rounds.

    python -m benchmarks.observations

prints emulated frames per second of processor time, the median of the rounds, and the speed
relative to RAM, the median and quartiles of the ratios of a round, as a table in Markdown. RAM is
of one frame, objects, sprites and images of ``stack_num`` frames, 4 by default. With
``--ocatari PYTHON``, a Python that has the packages ocatari and ale-py, also those of OCAtari, one
environment in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import cule

KINDS: dict[str, dict[str, Any]] = {
    "ram": {"obs_type": "ram"},
    "objects": {"obs_type": "objects"},
    "objects, one frame": {"obs_type": "objects", "stack_num": 1},
    "sprites": {"obs_type": "sprites"},
    "image": {},
}
GAMES = ("pong", "breakout", "seaquest", "space_invaders", "ms_pacman")
#: Where memory lies changes the speed by several percent: environments are made anew so many times,
#: in another order each time, with so many rounds each.
PLACEMENTS, ROUNDS = 6, 4
FRAMESKIP = 4

#: Steps one environment and reads its objects after each step; prints the same time.
OCATARI = """
import random, statistics, sys, time
from ocatari.core import OCAtari
env = OCAtari(f"ALE/{sys.argv[1]}-v5", mode="ram", hud=True)
begin = env.reset(seed=0)[1]["frame_number"]
taken = []
for _ in range(6):
    start = time.process_time()
    for _ in range(300):
        *_, terminated, truncated, info = env.step(random.randrange(env.action_space.n))
        _ = [(thing.x, thing.y, thing.w, thing.h) for thing in env.objects if thing]
        if terminated or truncated:
            env.reset()
    seconds, end = time.process_time() - start, info["frame_number"]
    taken.append(1e6 * seconds / (end - begin))
    begin = end
print(statistics.median(taken[1:]))
"""


def measure(
    game: str, num_envs: int, frames: int, kinds: Sequence[str] = tuple(KINDS)
) -> dict[str, list[float]]:
    """Microseconds of processor time per frame in each round, by kind; `frames` in each."""
    steps = max(frames // (FRAMESKIP * num_envs), 1)
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for placement in range(PLACEMENTS):
        first = placement % len(kinds)
        envs = {
            kind: cule.AtariVectorEnv(game, num_envs, **KINDS[kind])
            for kind in (*kinds[first:], *kinds[:first])
        }
        random = np.random.default_rng(placement)
        actions = random.integers(len(envs["ram"].action_set), size=(steps, num_envs))
        for env in envs.values():
            env.reset(seed=placement)
        for number in range(ROUNDS + 1):  # the first one warms up
            for kind, env in envs.items():
                start = time.process_time()
                for row in actions:
                    env.step(row)
                taken = time.process_time() - start
                if number:
                    times[kind].append(1e6 * taken / (steps * num_envs * FRAMESKIP))
        for env in envs.values():
            env.close()
    return times


def _cell(ram: list[float], kind: list[float]) -> str:
    ratios = statistics.quantiles((a / b for a, b in zip(ram, kind, strict=True)), n=4)
    low, middle, high = (f"{ratio:.2f}" for ratio in ratios)
    return f"{1e6 / statistics.median(kind):,.0f} ({middle}, {low} to {high})"


def main() -> None:
    """Print a row for each game and number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds to compare with RAM"
    )
    parser.add_argument("--num-envs", nargs="+", type=int, default=[16, 1024])
    parser.add_argument("--frames", type=int, default=16_384, help="in each round")
    parser.add_argument("--ocatari", help="a Python with ocatari and ale-py")
    options = parser.parse_args()
    kinds = list(dict.fromkeys(["ram", *options.kinds]))
    print("| game | N | " + " | ".join(kinds) + " | OCAtari |")
    print("|---" * (3 + len(kinds)) + "|")
    for game in options.games:
        other = "-"
        if options.ocatari:
            words = [options.ocatari, "-c", OCATARI, game.title().replace("_", "")]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            other = f"{1e6 / float(done.stdout.split()[-1]):,.0f}"
        for num_envs in options.num_envs:
            found = measure(game, num_envs, options.frames, kinds)
            cells = [_cell(found["ram"], found[kind]) for kind in kinds]
            print(f"| {game} | {num_envs} | " + " | ".join(cells) + f" | {other} |", flush=True)


if __name__ == "__main__":
    main()
