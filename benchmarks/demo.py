"""The demonstration of `make demo`: batched stepping of eight games, compared with ale-py.

Prints the emulated frames per second of cule, ale-py and, if installed, EnvPool for each game,
measured in interleaved rounds, and writes a picture of the environments. Fails if cule and ale-py
return different observations, rewards or flags at any step.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cule.bench import (
    DEFAULT_GAMES,
    DifferentResultsError,
    Engine,
    RoundOptions,
    compare_engines,
    unavailable_reason,
    versions,
)
from cule.bench.machine import num_cpus
from cule.envs.png import encode_png

NUM_ENVS = 4
ROUND_STEPS = 20
ROUNDS = 3
SHOWN_ENVS = 4
PICTURE = Path("build", "demo", "environments.png")


def mosaic(columns: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """One column per game, uint8 ``[environments, H, 160, 3]``, one row per environment."""
    height = max(screens.shape[1] for screens in columns)
    filled = [
        np.pad(screens, ((0, 0), (0, height - screens.shape[1]), (0, 0), (0, 0)))
        for screens in columns
    ]
    return np.hstack([np.vstack(list(screens)) for screens in filled])


def row(label: str, rates: list[float], ratios: list[float]) -> str:
    """A row of the table."""
    cells = [f"{rate:,.0f}" for rate in rates] + [f"{ratio:.2f}x" for ratio in ratios]
    return f"{label:<18}" + "".join(f"{cell:>12}" for cell in cells)


def medians(rows: list[list[float]]) -> list[float]:
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> int:
    """Run the demonstration; return the exit status."""
    threads = num_cpus()
    names = [name for name in ("cule-cpu", "ale", "envpool") if unavailable_reason(name) is None]
    about = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"{about}: {NUM_ENVS} environments per game, {threads} threads, frame skip 4, 84x84x4")
    print("emulated frames per second, medians of interleaved rounds\n")
    heads = [*names, *(f"/ {name}" for name in names[1:])]
    print(f"{'game':<18}" + "".join(f"{head:>12}" for head in heads))

    start = time.perf_counter()
    pictures: list[NDArray[np.uint8]] = []
    all_rates: list[list[float]] = []
    all_ratios: list[list[float]] = []
    compared = 0

    def keep_screens(engines: dict[str, Engine]) -> None:
        pictures.append(engines["cule-cpu"].env.screens("rgb", np.arange(SHOWN_ENVS)))

    rounds = RoundOptions(
        num_envs=NUM_ENVS, threads=threads, round_steps=ROUND_STEPS, rounds=ROUNDS
    )
    for game in DEFAULT_GAMES:
        try:
            result = compare_engines(game, names, rounds, keep_screens)
        except DifferentResultsError as error:
            print(f"NOT EQUAL to ale-py: {error}", file=sys.stderr)
            return 1
        rates = [result.rate(name) for name in names]
        ratios = [statistics.median(result.ratios("cule-cpu", name)) for name in names[1:]]
        all_rates.append(rates)
        all_ratios.append(ratios)
        compared += result.compared_steps * NUM_ENVS
        print(row(game, rates, ratios), flush=True)

    print(row("median", medians(all_rates), medians(all_ratios)))
    if compared:
        print(
            f"\nequal to ale-py: observations, rewards, terminated and truncated of {compared:,} "
            "environment steps, and the observations of the resets before them"
        )
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(encode_png(mosaic(pictures)))
    print(f"final frames of {SHOWN_ENVS} environments per game: {PICTURE.resolve()}")
    print(f"{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
