"""Compile the kernels of games for a GPU into cule's cache, all at once; needs NVRTC and no GPU.

Environments with ``kernel="compiled"`` then start with them, and those with "auto" use them. What
all games share is compiled first, once for each variant; then each game is a process of its own.

    python -m benchmarks.compile_games --games pong seaquest --architecture 90
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from cule.bench.games import games_named
from cule.envs import translation
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch

#: Lanes per warp by the name of a variant: a single lane has a kernel of its own.
VARIANTS = {"one": 1, "several": 2}


def wanted_kernel(game: str, lanes: int, architecture: int) -> translation.Wanted:
    """The kernel of a game, as an environment asks for it."""
    options = resolve_options(game, 1, {"num_reset_states": 1, "num_threads": 1})
    return translation.Wanted(plan_batch(options).games[0], lanes, architecture)


def compile_game(game: str, lanes: int, architecture: int) -> str:
    """Compile one kernel, unless the cache has it; a line about it."""
    wanted = wanted_kernel(game, lanes, architecture)
    start = time.perf_counter()
    first = ""

    def note_first(_: bytes) -> None:
        nonlocal first
        first = f"first kernel {time.perf_counter() - start:.1f} s, "

    code = translation.translate(wanted.game, lanes, architecture, note_first)
    seconds = time.perf_counter() - start
    return f"{game}, {lanes} lanes per warp: {first}{seconds:.1f} s, {len(code):,} bytes"


def compile_games(
    games: Sequence[str], variants: Sequence[str], architecture: int, jobs: int | None = None
) -> Iterator[str]:
    """Compile the variants of all games; lines about them in the order in which they end."""
    lanes = [VARIANTS[name] for name in variants]
    for count in lanes:
        start = time.perf_counter()
        wanted_kernel(games[0], count, architecture).shared_part()()
        yield f"all games, {count} lanes per warp: {time.perf_counter() - start:.1f} s"
    # New processes, not forks: this one may have used CUDA.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        done = [
            pool.submit(compile_game, game, count, architecture)
            for game, count in itertools.product(games, lanes)
        ]
        for job in as_completed(done):
            yield job.result()


def main() -> None:
    """Compile what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--games", nargs="+", default=["default"], help="names, or default, 57, all"
    )
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--architecture", type=int, default=90, help="90 is sm_90")
    parser.add_argument("--jobs", type=int, help="processes; without it one for each processor")
    options = parser.parse_args()
    games = games_named(options.games)
    for line in compile_games(games, options.variants, options.architecture, options.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
