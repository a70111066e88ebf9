"""Raw frames a second of the 84x84x4 pipeline: cule, ale-py and EnvPool on the same cores.

Prints a table and writes one JSON record. What is timed and compared: see `cule.bench`: this is
its loop on the CPU at one size; `cule bench` has more engines, loads and sizes. Run from a checkout
with cule, ale-py and (optionally) envpool installed:

    python benchmarks/fps.py --games pong riverraid --num-envs 64 --threads 2 --seconds 20
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

from race import ENGINES, PACKAGES, DifferentResults, Race, installed, quartiles, race, versions

import cule
from cule.bench import DEFAULT_GAMES, bytes_per_console, now, processor, source

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def arguments() -> argparse.Namespace:
    """The command line."""
    threads = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", nargs="+", default=list(DEFAULT_GAMES), metavar="GAME")
    parser.add_argument("--engines", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--num-envs", type=int, default=64, help="consoles (%(default)s)")
    parser.add_argument("--threads", type=int, default=threads, help="CPU threads (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="a game (%(default)s)")
    parser.add_argument("--block-steps", type=int, default=5, help="a turn (%(default)s)")
    parser.add_argument("--blocks", type=int, default=10, help="turns at least (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file (benchmarks/results/fps-<time>.json)")
    return parser.parse_args()


def describe(result: Race, names: list[str]) -> dict[str, Any]:
    """The record of a game."""
    engines: dict[str, Any] = {}
    for name in names:
        low, high = quartiles(result.rates[name])
        engines[name] = {
            "frames_per_s_median": round(result.rate(name)),
            "frames_per_s_quartiles": [round(low), round(high)],
            "frames_per_cpu_s_median": round(result.cpu_rate(name)),
        }
        if name != "cule":
            low, high = quartiles(result.ratios(name))
            engines[name]["cule_times_as_fast_median"] = round(result.ratio(name), 3)
            engines[name]["cule_times_as_fast_quartiles"] = [round(low, 3), round(high, 3)]
            engines[name]["cule_times_per_cpu_s_median"] = round(result.cpu_ratio(name), 3)
    return {
        "game": result.game,
        "turns": len(result.rates["cule"]),
        "steps_timed": result.steps,
        "steps_equal_to_ale_py": result.compared_steps,
        "digest_of_ram": result.digest,
        "digest_after_steps": result.digest_steps,
        "engines": engines,
    }


def row(result: Race, names: list[str]) -> str:
    """The row of a game in the table."""
    text = f"{result.game:<18}"
    for name in names:
        text += f"{result.rate(name):>10,.0f}"
    for name in names[1:]:
        low, high = quartiles(result.ratios(name))
        text += f"{result.ratio(name):>7.2f} ({low:.2f} to {high:.2f})"
        text += f"{result.cpu_ratio(name):>6.2f}"
    return f"{text}  {result.digest}"


def main() -> int:
    """Run the benchmark; the exit status."""
    options = arguments()
    names = installed(["cule", *(name for name in options.engines if name != "cule")])
    record: dict[str, Any] = {
        "what": "emulated frames a second; 84x84 gray, 4 frames, frame skip 4, maximum of two",
        "date": now(),
        "command": "python benchmarks/fps.py " + " ".join(sys.argv[1:]),
        **source(),
        "processor": processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "engines": versions(names),
        "build": cule.build_config(),
        "num_envs": options.num_envs,
        "threads": options.threads,
        "block_steps": options.block_steps,
        "load_average_at_start": os.getloadavg(),
    }
    print(f"{record['processor']}, {options.threads} threads, {options.num_envs} consoles")
    print(", ".join(f"{name} {version}" for name, version in record["engines"].items()))
    heads = [f"{name:>10}" for name in names]
    heads += [f"{'/ ' + name + ', CPU time':>29}" for name in names[1:]]
    print("emulated frames a second: medians; times as fast: medians (quartiles), by CPU time\n")
    print(f"{'game':<18}" + "".join(heads) + "  RAM digest", flush=True)

    results = []
    for game in options.games:
        try:
            result = race(
                game,
                names,
                num_envs=options.num_envs,
                threads=options.threads,
                block_steps=options.block_steps,
                blocks=max(options.blocks, 2),
                seconds=options.seconds,
                seed=options.seed,
            )
        except DifferentResults as error:
            print(f"NOT EQUAL to ale-py: {error}", file=sys.stderr)
            return 1
        results.append(result)
        print(row(result, names), flush=True)

    medians = {name: statistics.median(r.ratio(name) for r in results) for name in names[1:]}
    by_cpu = {name: statistics.median(r.cpu_ratio(name) for r in results) for name in names[1:]}
    for name, ratio in medians.items():
        print(f"median of the games: {ratio:.2f} times {name}, {by_cpu[name]:.2f} by CPU time")
    sizes = bytes_per_console([ENGINES[name] for name in names], options.games[0])
    memory = {name: sizes[ENGINES[name]] for name in names}
    for name, size in memory.items():
        text = "not readable" if size is None else f"{size:,}"
        print(f"resident bytes a console, {options.games[0]}, {name}: {text}")

    record["load_average_at_end"] = os.getloadavg()
    record["games"] = [describe(result, names) for result in results]
    record["median_times_as_fast"] = {name: round(ratio, 3) for name, ratio in medians.items()}
    record["median_times_per_cpu_s"] = {name: round(ratio, 3) for name, ratio in by_cpu.items()}
    record["resident_bytes_per_console"] = {"game": options.games[0], **memory}
    stamp = record["date"][:16].replace(":", "").replace("-", "")
    path = options.out or RESULTS / f"fps-{stamp}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"record: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
