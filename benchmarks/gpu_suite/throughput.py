"""Measure emulated frames per second of many games and sizes on a GPU, in one process and a time.

    python -m benchmarks.gpu_suite.throughput --games 57 --num-envs 4096,32768 --seconds 90 \
        --out rates.json

Sizes come in their order, and all games of a size before the next; with ``--lanes 8,16x2``, each
size with these numbers of consoles that share a warp, in blocks of four warps or of the number
after the x. Environments begin in states of random play on the CPU, with ``--actions constant`` as
a reset leaves them, and each cell of a size takes as many steps as the others, so that figures of
two runs can be compared: the digest of the RAM is the same. The file is written again after each
cell; cells for which no time is left have none. The first steps of 16 environments are compared
with the CPU, and a kernel that was not asked for is an error: such a cell has no figure.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cule.bench.engines import (
    FRAMESKIP,
    Actions,
    Array,
    CudaEngine,
    Engine,
    EngineConfig,
    make_engine,
)
from cule.bench.games import games_named
from cule.bench.interleaved import WARM_UP_STEPS, check_with_cpu, digest_of, quartiles
from cule.bench.machine import conditions
from cule.envs.launch import use_geometry
from cule.errors import CuleError

#: Rounds of a cell, between whose ends the clock is read.
ROUNDS = 5

#: Steps of environments of a round, and steps at least and at most.
ROUND_STEPS, LEAST_STEPS, MOST_STEPS = 16_384, 1, 6

#: States of random play, and its steps.
NUM_STATES, PLAYED_STEPS = 256, 200

Cell = dict[str, Any]


def random_actions(engine: Engine, steps: int, seed: int, constant: bool) -> Actions:
    """Actions, int32 ``[steps, N]``: random, or all 0."""
    shape = (steps, engine.num_envs)
    if constant:
        return np.zeros(shape, np.int32)
    return np.random.default_rng(seed).integers(engine.num_actions, size=shape, dtype=np.int32)


def time_steps(engine: Engine, actions: Sequence[Any], steps: int) -> float:
    """Seconds of steps that take the given actions in turn."""
    turns = itertools.islice(itertools.cycle(actions), steps)
    engine.synchronize()
    start = time.perf_counter()
    for row in turns:
        engine.step(row)
    engine.synchronize()
    return time.perf_counter() - start


def played_states(game: str, seed: int) -> Array:
    """Snapshots of environments that have played at random on the CPU, ``[256, state_size]``."""
    engine = make_engine(
        EngineConfig("cule-cpu", game, NUM_STATES, os.cpu_count() or 1, seed, resets="cached")
    )
    with contextlib.closing(engine):
        engine.reset(seed)
        for row in random_actions(engine, PLAYED_STEPS, seed, constant=False):
            engine.step(row)
        return engine.env.get_state()


def measure(engine: CudaEngine, game: str, seed: int, *, constant: bool) -> Cell:
    """Begin in states of play, or after a reset, compare with the CPU, and time some steps."""
    engine.reset(seed)
    states = None if constant else played_states(game, seed)
    if states is not None:
        times = -(-engine.num_envs // NUM_STATES)
        engine.env.set_state(engine.to_device(states).repeat(times, 1)[: engine.num_envs])
    actions = random_actions(engine, WARM_UP_STEPS, seed, constant)
    rows = [engine.to_device(row) for row in actions]
    check_with_cpu(game, engine, actions, [engine.step(row) for row in rows], seed, states)
    steps = max(LEAST_STEPS, min(MOST_STEPS, ROUND_STEPS // engine.num_envs))
    taken = [time_steps(engine, rows, steps) for _ in range(ROUNDS)]
    rates = [steps * engine.num_envs * FRAMESKIP / wall_s for wall_s in taken]
    ram = engine.ram()
    return {
        "frames_per_s": round(statistics.median(rates)),
        "quartiles": [round(rate) for rate in quartiles(rates)],
        "frame_ms": statistics.median(taken) / steps / FRAMESKIP * 1e3,
        "steps": steps * ROUNDS,
        "steps_equal_to_cpu": WARM_UP_STEPS,
        "kernel": engine.running_kernel(),
        "digest_of_ram": None if ram is None else digest_of(ram),
    }


def measure_cell(
    name: str, game: str, num_envs: int, lanes: Sequence[int], seed: int, constant: bool
) -> Cell:
    """Measure a game; a cell with "error" if that fails."""
    began = time.perf_counter()
    cell: Cell = {"game": game, "num_envs": num_envs}
    try:
        with use_geometry(*lanes) if lanes else contextlib.nullcontext():
            engine = make_engine(EngineConfig(name, game, num_envs, 1, seed))
        with contextlib.closing(engine):
            assert isinstance(engine, CudaEngine), f"{name} is no engine of a GPU"
            cell |= measure(engine, game, seed, constant=constant)
    except (CuleError, RuntimeError, torch.cuda.OutOfMemoryError) as error:
        cell["error"] = f"{type(error).__name__}: {error}"
    cell["seconds"] = round(time.perf_counter() - began, 2)
    return cell


def main() -> int:
    """Measure what the command line asks for; 0 if every cell has a figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--num-envs", default="4096,32768,1200", help="comma-separated")
    lanes_help = "consoles per warp, as 16, or with warps per block, as 16x2; comma-separated"
    parser.add_argument("--lanes", help=f"{lanes_help}; else cule chooses")
    parser.add_argument("--engine", default="cule-cuda@compiled", help="as in `cule bench`")
    parser.add_argument("--actions", default="random", choices=["random", "constant"])
    parser.add_argument("--seconds", type=float, default=100.0, help="after which no cell begins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    until = time.perf_counter() + options.seconds
    games = games_named(options.games)
    sizes = [int(size) for size in options.num_envs.split(",")]
    counts = options.lanes.split(",") if options.lanes else [""]
    cells = list(itertools.product(sizes, counts, games))
    record = {**conditions({**vars(options), "out": options.out.name}), "cells": []}
    for num_envs, count, game in cells:
        if time.perf_counter() >= until:
            record["cells"].append(
                {"game": game, "num_envs": num_envs, "error": "no time was left"}
            )
            continue
        constant = options.actions == "constant"
        lanes = [int(number) for number in count.split("x")] if count else []
        cell = measure_cell(options.engine, game, num_envs, lanes, options.seed, constant)
        record["cells"].append(cell)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        found = cell.get("error") or f"{cell['frames_per_s']:,} frames/s"
        which = f"{game}, {num_envs} environments" + (f", {count} lanes" if count else "")
        print(f"{which}: {found} ({cell['seconds']} s)", flush=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if any("error" in cell for cell in record["cells"]) else 0


if __name__ == "__main__":
    sys.exit(main())
