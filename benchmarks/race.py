"""Vector environments of several libraries, stepped in turns with the same actions and timed.

Every engine makes the same observations: 84x84 gray, the maximum of the last two frames of a step,
four frames stacked, frame skip 4, up to 30 no-ops at a reset. Short blocks of steps alternate
between the engines, so that other work on the machine slows all of them, and a ratio is taken
within a block. Frames are emulated frames: consoles x steps x frame skip; frames of resets are work
but are not counted. Only `step` is inside the clock, observations and results included. Beside the
wall clock the processor time of all threads is taken: frames a processor second hardly depend on
what else the machine does.

cule and ale-py start from the same seeds and must return the same arrays; comparing them is outside
the clock. EnvPool draws its resets in another way, so it is timed beside them, not compared.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cule

FRAMESKIP = 4
WARM_UP_STEPS = 8

#: Engines by name: the package each needs.
PACKAGES = {"cule": "cule", "ale-py": "ale_py", "envpool": "envpool"}

Result = tuple[NDArray[Any], ...]


class DifferentResults(Exception):
    """cule and ale-py returned different arrays."""


def installed(names: Sequence[str]) -> list[str]:
    """Those of the named engines whose package is there."""
    return [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]


def versions(names: Sequence[str]) -> dict[str, str]:
    """The version of each engine's package."""
    return {name: importlib.metadata.version(name) for name in names}


def make_engine(name: str, game: str, num_envs: int, threads: int) -> Any:
    """A vector environment of one library, not reset yet."""
    if name == "cule":
        return cule.AtariVectorEnv(game, num_envs, num_threads=threads)
    if name == "ale-py":
        import ale_py
        from ale_py.vector_env import AtariVectorEnv

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        return AtariVectorEnv(game, num_envs=num_envs, num_threads=threads)
    import envpool

    return envpool.make(
        game.title().replace("_", "") + "-v5",
        env_type="gymnasium",
        num_envs=num_envs,
        num_threads=threads,
        reward_clip=True,
        seed=0,
    )


def reset_engine(name: str, engine: Any, seed: int) -> NDArray[np.uint8]:
    """Reset every console; the observations. EnvPool takes its seed when it is made."""
    obs: NDArray[np.uint8] = (engine.reset() if name == "envpool" else engine.reset(seed=seed))[0]
    return obs


@dataclass
class Race:
    """What one game gave. Rates are emulated frames a second, one for each block of an engine."""

    game: str
    num_envs: int
    steps: int = 0
    """Steps of each engine inside the clock."""

    compared_steps: int = 0
    """Steps, warm-up included, after which cule and ale-py returned equal arrays."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    """By the wall clock."""

    cpu_rates: dict[str, list[float]] = field(default_factory=dict)
    """By the processor time of the process."""

    digest: str = ""
    """Hash of the RAM of all cule consoles after `digest_steps` steps, warm-up included."""

    digest_steps: int = 0

    def rate(self, name: str) -> float:
        """Median frames a second of an engine."""
        return statistics.median(self.rates[name])

    def ratios(self, name: str) -> list[float]:
        """How many times as fast as an engine cule was, block by block."""
        return _ratios(self.rates, name)

    def ratio(self, name: str) -> float:
        """Median of `ratios`."""
        return statistics.median(self.ratios(name))

    def cpu_rate(self, name: str) -> float:
        """Median frames a processor second of an engine."""
        return statistics.median(self.cpu_rates[name])

    def cpu_ratio(self, name: str) -> float:
        """Median of how many times the frames a processor second of an engine cule made."""
        return statistics.median(_ratios(self.cpu_rates, name))


def _ratios(rates: dict[str, list[float]], name: str) -> list[float]:
    return [ours / theirs for ours, theirs in zip(rates["cule"], rates[name], strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile of at least two values."""
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


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
    """Step one game in all engines by turns.

    Args:
        game: Which game.
        names: Engines, "cule" among them.
        num_envs: Consoles of each engine.
        threads: CPU threads of each engine.
        block_steps: Steps an engine takes in a turn.
        blocks: Turns of each engine, at least two; the digest is taken after these.
        seconds: Further turns follow until the game has taken this long.
        seed: Of the consoles (console i gets seed + i) and of the actions.
        at_end: Called with cule's environment before it is closed.

    Raises:
        DifferentResults: cule and ale-py did not return the same arrays.
    """
    engines = {name: make_engine(name, game, num_envs, threads) for name in names}
    try:
        result = Race(game, num_envs)
        result.rates = {name: [] for name in names}
        result.cpu_rates = {name: [] for name in names}
        random = np.random.default_rng(seed)
        num_actions = int(engines["cule"].single_action_space.n)
        compare(game, {name: (reset_engine(name, engines[name], seed),) for name in names}, 0)

        def turns(steps: int) -> dict[str, tuple[float, float]]:
            """Every engine takes some steps; seconds and processor seconds each took."""
            actions = random.integers(num_actions, size=(steps, num_envs), dtype=np.int32)
            taken: dict[str, list[Result]] = {}
            elapsed = {}
            for name in names:
                step = engines[name].step
                start, cpu_start = time.perf_counter(), time.process_time()
                returned = [step(row) for row in actions]
                elapsed[name] = time.perf_counter() - start, time.process_time() - cpu_start
                taken[name] = [arrays[:4] for arrays in returned]
            for number in range(steps):
                step_number = result.compared_steps + number + 1
                compare(game, {name: taken[name][number] for name in names}, step_number)
            result.compared_steps += steps
            return elapsed

        turns(WARM_UP_STEPS)
        deadline = time.perf_counter() + seconds
        while len(result.rates["cule"]) < blocks or time.perf_counter() < deadline:
            frames = num_envs * block_steps * FRAMESKIP
            for name, (elapsed, cpu_elapsed) in turns(block_steps).items():
                result.rates[name].append(frames / elapsed)
                result.cpu_rates[name].append(frames / cpu_elapsed)
            result.steps += block_steps
            if len(result.rates["cule"]) == blocks:
                ram = np.ascontiguousarray(engines["cule"].ram)
                result.digest = hashlib.sha256(ram.tobytes()).hexdigest()[:16]
                result.digest_steps = result.compared_steps
        if "ale-py" not in names:
            result.compared_steps = 0
        if at_end is not None:
            at_end(engines["cule"])
        return result
    finally:
        for engine in engines.values():
            engine.close()


def compare(game: str, results: dict[str, Result], step: int) -> None:
    """Refuse results of cule and ale-py that differ.

    Raises:
        DifferentResults: They do; the message says where.
    """
    if "ale-py" not in results:
        return
    kinds = ("observations", "rewards", "terminated", "truncated")
    for kind, ours, theirs in zip(kinds, results["cule"], results["ale-py"], strict=False):
        if not np.array_equal(ours, theirs):
            consoles = [i for i in range(len(ours)) if not np.array_equal(ours[i], theirs[i])]
            raise DifferentResults(f"{game}: {kind} of consoles {consoles} differ at step {step}")
