"""The demonstration of `make demo`: batched stepping of eight games, timed beside ale-py.

Prints emulated frames a second of each game in cule, ale-py and (where it is installed) EnvPool,
measured by turns in one run, and writes a picture of the consoles. Fails when cule and ale-py do
not return the same observations, rewards and flags at every step.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from race import DifferentResults, Race, installed, race, versions

from cule.envs.png import encode_png

GAMES = (
    "pong",
    "breakout",
    "seaquest",
    "ms_pacman",
    "space_invaders",
    "qbert",
    "montezuma_revenge",
    "riverraid",
)
NUM_ENVS = 16
BLOCK_STEPS = 20
BLOCKS = 10
SHOWN_CONSOLES = 4
DEFAULT_FOLDER = Path("build", "demo")


def mosaic(columns: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """One column a game, one row a console, black where a screen is less high than others.

    Args:
        columns: uint8 ``[consoles, H, 160, 3]`` for each game.
    """
    height = max(screens.shape[1] for screens in columns)
    filled = [
        np.pad(screens, ((0, 0), (0, height - screens.shape[1]), (0, 0), (0, 0)))
        for screens in columns
    ]
    return np.hstack([np.vstack(list(screens)) for screens in filled])


def columns(texts: list[str]) -> str:
    """The row of the table after its label."""
    return "".join(f"{text:>12}" for text in texts)


def cells(rates: list[float], ratios: list[float]) -> list[str]:
    """Rates, then ratios, as the table shows them."""
    return [f"{rate:,.0f}" for rate in rates] + [f"{ratio:.2f}x" for ratio in ratios]


def main() -> int:
    """Run the demonstration; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_FOLDER, help="folder of the picture (%(default)s)"
    )
    folder: Path = parser.parse_args().out
    threads = len(os.sched_getaffinity(0))
    names = installed(["cule", "ale-py", "envpool"])
    about = ", ".join(f"{name} {version}" for name, version in versions(names).items())
    print(f"{about}: {NUM_ENVS} consoles a game, {threads} threads, frame skip 4, 84x84x4")
    print("emulated frames a second, medians of engines stepped by turns\n")
    print(f"{'game':<18}" + columns(names + [f"/ {name}" for name in names[1:]]))

    start = time.perf_counter()
    results: list[Race] = []
    pictures: list[NDArray[np.uint8]] = []

    def take_screens(env: Any) -> None:
        pictures.append(env.screens("rgb", np.arange(SHOWN_CONSOLES)))

    for game in GAMES:
        print(f"{game:<18}", end="", flush=True)
        try:
            result = race(
                game,
                names,
                num_envs=NUM_ENVS,
                threads=threads,
                block_steps=BLOCK_STEPS,
                blocks=BLOCKS,
                at_end=take_screens,
            )
        except DifferentResults as error:
            print(f"\nNOT EQUAL to ale-py: {error}", file=sys.stderr)
            return 1
        results.append(result)
        rates = [result.rate(name) for name in names]
        ratios = [result.ratio(name) for name in names[1:]]
        print(columns(cells(rates, ratios)), flush=True)

    rates = [statistics.median(result.rate(name) for result in results) for name in names]
    ratios = [statistics.median(result.ratio(name) for result in results) for name in names[1:]]
    print(f"{'median':<18}" + columns(cells(rates, ratios)))

    compared = sum(result.compared_steps for result in results) * NUM_ENVS
    if compared:
        print(
            f"\nequal to ale-py: observations, rewards, terminated and truncated of {compared:,} "
            "console steps, and the observations of the resets before them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "consoles.png"
    picture.write_bytes(encode_png(mosaic(pictures)))
    print(f"final frames of {SHOWN_CONSOLES} consoles a game: {picture.resolve()}")
    print(f"{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
