"""Compile the kernels of games for the GPU of this machine into cule's cache, all at once.

Environments with ``kernel="compiled"`` then start with them, and those with "auto" use them.

    python benchmarks/compile_games.py --games pong seaquest --num-envs 1200,4096,32768
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from cule.bench.games import games_named
from cule.envs import translation
from cule.envs.launch import choose_geometry
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch


def compile_game(game: str, lanes: int, architecture: int) -> str:
    """Compile one kernel, unless the cache has it; a line about it."""
    options = resolve_options(game, 1, {"num_reset_states": 1, "num_threads": 1})
    start = time.perf_counter()
    code = translation.translate(plan_batch(options).games[0], lanes, architecture)
    seconds = time.perf_counter() - start
    return f"{game}, {lanes} lanes per warp: {seconds:.1f} s, {len(code):,} bytes"


def main() -> None:
    """Compile what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--games", nargs="+", default=["default"], help="names, or default, 57, all"
    )
    parser.add_argument("--num-envs", default="4096", help="comma-separated; choose the geometries")
    options = parser.parse_args()
    device = torch.device("cuda:0")
    major, minor = torch.cuda.get_device_capability(device)
    sizes = map(int, options.num_envs.split(","))
    # One lane per warp has a kernel of its own, all others share one.
    lanes = {min(choose_geometry(num_envs, device).lanes_per_warp, 2) for num_envs in sizes}
    # The compiler uses one thread and no GPU.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [
            pool.submit(compile_game, game, count, 10 * major + minor)
            for game, count in itertools.product(games_named(options.games), sorted(lanes))
        ]
        for job in as_completed(jobs):
            print(job.result(), flush=True)


if __name__ == "__main__":
    main()
