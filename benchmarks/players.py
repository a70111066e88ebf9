"""Compare environments of two players with those of one player, and with PettingZoo's own.

All engines run in interleaved rounds of random actions in one process, on one thread each, so the
results are ratios within one run. "two" and "one" are batches with the observations that learners
use: gray, 84 x 84 x 4, four frames a step. "batch", "parallel" and "PettingZoo" give every frame in
colour at full size, as PettingZoo does: a batch, `cule.pettingzoo.parallel_env` and PettingZoo's
environment; the last two play the same actions, and their rewards must be equal. `make
test-integrations` installs what this needs.

    .venv-integrations/bin/python benchmarks/players.py --rounds 15
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pettingzoo.atari.base_atari_env import ParallelAtariEnv

import cule
from cule.bench.machine import conditions
from cule.envs.options import full_screens
from cule.games import find_rom, load_multiplayer
from cule.pettingzoo import parallel_env

RECORD = Path(__file__).parent / "results" / "players.json"

#: Names of PettingZoo by game.
NAMES = {
    "pong": "pong_v3",
    "boxing": "boxing_v2",
    "tennis": "tennis_v3",
    "ice_hockey": "ice_hockey_v2",
    "space_invaders": "space_invaders_v2",
}

#: Modes that PettingZoo's names choose where they are not the first one.
MODES = {"space_invaders": 34}

#: Plays a round, and returns the frames and the sum of the rewards.
Engine = Callable[[], tuple[int, float]]


def batch_engine(env: cule.AtariVectorEnv | cule.MultiAgentVectorEnv, steps: int) -> Engine:
    """Steps of a batch."""
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    shape = env.action_space.sample().shape
    num_actions = len(env.action_set)

    def run() -> tuple[int, float]:
        total = 0.0
        for _ in range(steps):
            _, rewards, *_ = env.step(rng.integers(num_actions, size=shape))
            total += float(np.sum(rewards))
        return steps * env.num_envs * env.config.frameskip, total

    return run


def parallel_engine(env: Any, steps: int) -> Engine:
    """Steps of an environment with PettingZoo's interface."""
    rng = np.random.default_rng(0)
    env.reset(seed=1)

    def run() -> tuple[int, float]:
        total = 0.0
        for _ in range(steps):
            if not env.agents:
                env.reset()
            actions = {name: int(rng.integers(env.action_space(name).n)) for name in env.agents}
            _, rewards, *_ = env.step(actions)
            total += sum(rewards.values())
        return steps, float(total)

    return run


def measure(game: str, num_envs: int, rounds: int) -> dict[str, list[float]]:
    """Frames per second of each engine in each round."""
    rom = find_rom(game, load_multiplayer()[game].rules.md5)
    theirs = ParallelAtariEnv(
        game, 2, mode_num=MODES.get(game), auto_rom_install_path=str(rom.path.parent)
    )
    two = cule.MultiAgentVectorEnv(game, num_envs, num_players=2, num_threads=1)
    one = cule.AtariVectorEnv(game, num_envs, num_threads=1)
    screens = full_screens(210, grayscale=False)  # as PettingZoo's
    full = cule.MultiAgentVectorEnv(
        game, num_envs, num_players=2, num_threads=1, frameskip=1, **screens
    )
    engines = {
        "two": batch_engine(two, 25),
        "one": batch_engine(one, 25),
        "batch": batch_engine(full, 25),
        "parallel": parallel_engine(parallel_env(NAMES[game]), 400),
        "PettingZoo": parallel_engine(theirs, 400),
    }
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds + 1):
        sums = {}
        for name, run in engines.items():
            start = time.perf_counter()
            frames, sums[name] = run()
            if number:  # the first one warms up
                rates[name].append(frames / (time.perf_counter() - start))
        if sums["parallel"] != sums["PettingZoo"]:
            raise SystemExit(f"{game}, round {number}: the rewards differ")
    for env in (two, one, full):
        env.close()
    return rates


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", default=",".join(NAMES))
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write")
    arguments = parser.parse_args()
    packages = ("pettingzoo", "multi-agent-ale-py")
    record: dict[str, Any] = {
        **conditions(vars(arguments)),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "frames_per_second": {},
    }
    for game in arguments.games.split(","):
        rates = measure(game, arguments.num_envs, arguments.rounds)
        record["frames_per_second"][game] = rates
        medians = {name: statistics.median(values) for name, values in rates.items()}
        print(game, {name: f"{value:,.0f}" for name, value in medians.items()}, flush=True)
        pairs = ("two one", "two PettingZoo", "batch PettingZoo", "parallel PettingZoo")
        for name, other in map(str.split, pairs):
            ratios = [a / b for a, b in zip(rates[name], rates[other], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"  {name} / {other}: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
