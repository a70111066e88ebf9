"""The timing loop of `cule.bench` for the scripts here, with cule on the CPU as the first engine.

What is timed, compared and digested: see `cule.bench`. This file gives the engines the names that
the scripts print, and takes every ratio with cule above.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cule.bench
from cule.bench import FRAMESKIP, DifferentResultsError, quartiles

__all__ = [
    "ENGINES",
    "FRAMESKIP",
    "PACKAGES",
    "DifferentResults",
    "Race",
    "installed",
    "make_engine",
    "quartiles",
    "race",
    "reset_engine",
    "versions",
]

#: Engines by the names of the scripts: their names in `cule.bench`.
ENGINES = {"cule": "cule-cpu", "ale-py": "ale", "envpool": "envpool"}

#: The package that each needs.
PACKAGES = {name: cule.bench.ENGINES[engine].package for name, engine in ENGINES.items()}

DifferentResults = DifferentResultsError


def installed(names: Sequence[str]) -> list[str]:
    """Those of the named engines whose package is there."""
    return [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]


def versions(names: Sequence[str]) -> dict[str, str]:
    """The version of each engine's package."""
    found = {name: cule.bench.versions([ENGINES[name]]) for name in names}
    return {name: next(iter(version.values())) for name, version in found.items()}


def make_engine(name: str, game: str, num_envs: int, threads: int) -> Any:
    """The vector environment of one library, not reset yet."""
    return cule.bench.make_engine(ENGINES[name], game, num_envs, threads).env


def reset_engine(name: str, engine: Any, seed: int) -> NDArray[np.uint8]:
    """Reset every console; the observations. EnvPool takes its seed when it is made."""
    obs: NDArray[np.uint8] = (engine.reset() if name == "envpool" else engine.reset(seed=seed))[0]
    return obs


class Race:
    """What one game gave, by the names of the scripts. Rates are emulated frames a second."""

    def __init__(self, result: cule.bench.Comparison) -> None:
        """Name the engines."""
        self._result = result
        self.game = result.game
        self.num_envs = result.num_envs
        self.steps = result.steps
        self.compared_steps = result.compared_steps
        self.rates = {name: result.rates[e] for name, e in ENGINES.items() if e in result.rates}
        self.digest = result.ram_digests["cule-cpu"]
        self.digest_steps = result.digest_steps

    def rate(self, name: str) -> float:
        """Median frames a second of an engine."""
        return self._result.rate(ENGINES[name])

    def ratios(self, name: str) -> list[float]:
        """How many times as fast as an engine cule was, turn by turn."""
        return self._result.ratios("cule-cpu", ENGINES[name])

    def ratio(self, name: str) -> float:
        """Median of `ratios`."""
        return statistics.median(self.ratios(name))

    def cpu_rate(self, name: str) -> float:
        """Median frames a processor second of an engine."""
        return self._result.cpu_rate(ENGINES[name])

    def cpu_ratio(self, name: str) -> float:
        """Median of how many times the frames a processor second of an engine cule made."""
        return statistics.median(self._result.cpu_ratios("cule-cpu", ENGINES[name]))


def race(
    game: str,
    names: Sequence[str],
    *,
    num_envs: int,
    threads: int,
    block_steps: int,
    blocks: int,
    seconds: float = 0.0,
    seed: int = 0,
    at_end: Callable[[Any], None] | None = None,
) -> Race:
    """Step one game in all engines by turns, as `cule.bench.race` does.

    Args:
        game: Which game.
        names: Engines, "cule" among them.
        num_envs: Consoles of each engine.
        threads: CPU threads of each engine.
        block_steps: Steps an engine takes in a turn.
        blocks: Turns of each engine; the digest is taken after these.
        seconds: Further turns follow until the turns have taken this long.
        seed: Of the consoles (console i gets seed + i) and of the actions.
        at_end: Called with cule's environment before it is closed.

    Raises:
        DifferentResultsError: cule and ale-py did not return the same arrays.
        EngineMissingError: An engine cannot play the game.
    """

    def show(engines: dict[str, cule.bench.Engine]) -> None:
        if at_end is not None:
            at_end(engines["cule-cpu"].env)

    result = cule.bench.race(
        game,
        [ENGINES[name] for name in names],
        num_envs=num_envs,
        threads=threads,
        block_steps=block_steps,
        blocks=blocks,
        seconds=seconds,
        seed=seed,
        at_end=show,
    )
    if result.absent:
        raise cule.bench.EngineMissingError(f"{game}: {result.absent}")
    return Race(result)
