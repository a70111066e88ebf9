"""Engines stepped by turns in one process, with the same actions, and timed.

Short blocks of steps alternate between the engines, so that other work on the machine slows all of
them, and a ratio is taken within a turn. Frames are emulated frames: consoles x steps x frame skip;
frames of resets are work but are not counted. Only `step`, and the network that chooses the actions
where there is one, is inside the clock; clocks are read after the device is done. Beside the wall
clock the processor time of all threads is taken: frames a processor second hardly depend on what
else the machine does.

cule on the CPU and ale-py must return the same arrays, and cule on a GPU the arrays of a few
consoles of the CPU; comparing them is outside the clock. Every engine leaves a digest after a fixed
number of steps, so that two runs can be compared as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule.bench.engines import FRAMESKIP, Engine, Result, as_numpy, make_engine
from cule.bench.errors import DifferentResultsError, EngineMissingError
from cule.bench.meter import DeviceMeter
from cule.bench.policies import NetworkPlayer, Player, RandomPlayer
from cule.errors import InvalidArgumentError

WARM_UP_STEPS = 8

#: Steps of a network before the clock starts: kernels are chosen, caches filled.
NETWORK_WARM_UP_STEPS = 2

#: Engines that must return the same arrays.
EXACT = ("cule-cpu", "ale")

#: Consoles of a GPU that are played again on the CPU and compared.
SHADOW_ENVS = 16

#: Observations of a turn are all kept and compared up to this size, else those of its last step.
KEPT_BYTES = 2**30

_KINDS = ("observations", "rewards", "terminated", "truncated")


@dataclass
class Comparison:
    """What one game gave. Lists have one number for each turn of an engine."""

    game: str
    num_envs: int
    steps: int = 0
    """Steps of each engine inside the clock."""

    compared_steps: int = 0
    """Steps, warm-up included, after which cule and ale-py returned equal arrays."""

    shadowed_steps: int = 0
    """Steps of `SHADOW_ENVS` consoles after which the GPU and the CPU returned equal arrays."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    """Emulated frames a second of the wall clock."""

    cpu_rates: dict[str, list[float]] = field(default_factory=dict)
    """Emulated frames a second of processor time of the process."""

    ram_digests: dict[str, str] = field(default_factory=dict)
    """Hash of the RAM of all consoles after `digest_steps` steps, warm-up included."""

    obs_digests: dict[str, str] = field(default_factory=dict)
    """The same of the observations that step returned."""

    digest_steps: int = 0

    episode_ends: dict[str, float] = field(default_factory=dict)
    """Episodes that ended, for each step of a console inside the clock."""

    utilisation: dict[str, float | None] = field(default_factory=dict)
    """Per cent of time that the device was busy; None where that cannot be read."""

    absent: dict[str, str] = field(default_factory=dict)
    """Engines that could not play this game, and why."""

    def rate(self, name: str) -> float:
        """Median frames a second of an engine."""
        return statistics.median(self.rates[name])

    def cpu_rate(self, name: str) -> float:
        """Median frames a processor second of an engine."""
        return statistics.median(self.cpu_rates[name])

    def ratios(self, name: str, other: str) -> list[float]:
        """How many times as fast as another engine one was, turn by turn."""
        return divide(self.rates[name], self.rates[other])

    def cpu_ratios(self, name: str, other: str) -> list[float]:
        """How many times the frames a processor second of another engine one made."""
        return divide(self.cpu_rates[name], self.cpu_rates[other])


def divide(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Quotients of lists of one length."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def digest_of(array: Any) -> str:
    """Hash of the bytes of an array or tensor."""
    return hashlib.sha256(np.ascontiguousarray(as_numpy(array)).tobytes()).hexdigest()[:16]


class _EngineRun:
    """An engine in a race, and what it leaves there."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.obs = engine.reset(seed)
        self.player: Player = RandomPlayer(engine)
        self.meter = DeviceMeter(engine.device)
        self.returned: list[Result] = []
        self.num_ended = 0
        # Streams of actions: all synchronous engines get the same, an asynchronous one its own.
        self._random = np.random.default_rng([seed, 1])

    def rows(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The actions of a turn in calls of this engine's size."""
        if self.engine.is_synchronous:
            return rows
        calls = rows.size // self.engine.batch_size
        shape = (calls, self.engine.batch_size)
        return self._random.integers(self.engine.num_actions, size=shape, dtype=np.int32)

    def run_turn(self, rows: NDArray[np.int32], keep_all: bool) -> tuple[float, float]:
        """Step; seconds and processor seconds that it took."""
        self.returned = []  # freed before the clock starts
        play = self.player.prepare(self.rows(rows), keep_all)
        self.engine.synchronise()
        with self.meter:
            start, cpu_start = time.perf_counter(), time.process_time()
            returned = play()
            self.engine.synchronise()
            elapsed = time.perf_counter() - start, time.process_time() - cpu_start
        self.returned = returned
        self.obs = returned[-1][0]
        return elapsed

    def count_ended(self) -> None:
        """Add the episodes that ended in the last turn."""
        for _, _, terminated, truncated, *_ in self.returned:
            self.num_ended += int((terminated | truncated).sum())


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
    network: bool = False,
    network_device: str = "",
    async_batch: int = 0,
    at_end: Callable[[dict[str, Engine]], None] | None = None,
) -> Comparison:
    """Step one game in several engines by interleaved.

    Args:
        game: Which game.
        names: Engines; those that do not have this game are left out, and named in the result.
        num_envs: Consoles of each engine.
        threads: CPU threads of each engine.
        block_steps: Steps an engine takes in a turn.
        blocks: Turns of each engine; the digests are taken after these.
        seconds: Further turns follow until the turns have taken this long.
        seed: Of the consoles (console i gets seed + i), of the actions and of the network.
        network: A Nature CNN chooses the actions, inside the clock; else they are random.
        network_device: Where it is; empty: where an engine's results land.
        async_batch: Consoles of a call of an asynchronous engine; 0: half of them.
        at_end: Called with the engines before they are closed.

    Raises:
        DifferentResultsError: Engines that must agree did not.
        InvalidArgumentError: A size is below one.
        EngineMissingError: None of the engines is there.
        CuleError: What making cule's environment raises.
    """
    sizes = {"num_envs": num_envs, "threads": threads, "block_steps": block_steps, "blocks": blocks}
    for argument, value in sizes.items():
        if value < 1:
            raise InvalidArgumentError(f"{argument} is {value}; it must be at least 1")
    result = Comparison(game, num_envs)
    with contextlib.ExitStack() as stack:
        engines: dict[str, Engine] = {}
        for name in names:
            try:
                engine = make_engine(
                    name, game, num_envs, threads, seed=seed, batch_size=async_batch
                )
            except EngineMissingError as error:
                result.absent[name] = str(error)
                continue
            stack.callback(engine.close)
            engines[name] = engine
        _leave_out_odd_ones(engines, result)
        if not engines:
            raise EngineMissingError(f"no engine can play {game}: {result.absent}")

        trial = _Trial(result, engines, seed)
        rows = trial.turn(WARM_UP_STEPS)[0]
        for run in trial.runs.values():
            if run.engine.device != "cpu":
                compare_with_cpu(game, run.engine, rows, run.returned, seed)
                result.shadowed_steps = len(rows)
        if network:
            for run in trial.runs.values():
                run.player = NetworkPlayer(run.engine, run.obs, seed=seed, device=network_device)
            trial.turn(NETWORK_WARM_UP_STEPS)
        trial.start_counting()
        frames = num_envs * block_steps * FRAMESKIP
        start = time.perf_counter()
        while trial.num_turns < blocks or time.perf_counter() < start + seconds:
            _, elapsed = trial.turn(block_steps)
            for name, (wall_s, cpu_s) in elapsed.items():
                result.rates[name].append(frames / wall_s)
                result.cpu_rates[name].append(frames / cpu_s)
            result.steps += block_steps
            trial.num_turns += 1
            if trial.num_turns == blocks:
                trial.collect_digests()
        trial.finish()
        if at_end is not None:
            at_end(engines)
    return result


class _Trial:
    """The runs of a race while it goes on."""

    def __init__(self, result: Comparison, engines: Mapping[str, Engine], seed: int) -> None:
        """Reset all engines and compare what they show."""
        self.result = result
        self.runs = {name: _EngineRun(engine, seed) for name, engine in engines.items()}
        self.num_turns = 0
        result.rates = {name: [] for name in engines}
        result.cpu_rates = {name: [] for name in engines}
        self._first = next(iter(self.runs.values()))
        self._random = np.random.default_rng(seed)
        self._steps = 0
        self._is_compared = set(EXACT) <= set(engines)
        on_host = sum(run.engine.device == "cpu" for run in self.runs.values())
        row_bytes = int(np.prod(tuple(self._first.obs.shape[1:]))) * result.num_envs
        self._kept_bytes_per_step = row_bytes * on_host
        if self._is_compared:
            compare(result.game, {name: (self.runs[name].obs,) for name in EXACT}, 0)

    def turn(self, steps: int) -> tuple[NDArray[np.int32], dict[str, tuple[float, float]]]:
        """Every engine takes some steps; the random actions, and what it took in seconds."""
        shape = (steps, self.result.num_envs)
        rows = self._random.integers(self._first.engine.num_actions, size=shape, dtype=np.int32)
        keep_all = self._kept_bytes_per_step * steps <= KEPT_BYTES
        elapsed = {
            name: run.run_turn(rows, keep_all and run.engine.device == "cpu")
            for name, run in self.runs.items()
        }
        for number in range(steps):
            taken = {name: self.runs[name].returned[number] for name in EXACT if name in elapsed}
            # Where its input lies may change a network's rounding, and then an action.
            self._is_compared = self._is_compared and same_actions(taken)
            if self._is_compared:
                compare(self.result.game, taken, self._steps + number + 1)
                self.result.compared_steps += 1
        self._steps += steps
        for run in self.runs.values():
            run.count_ended()
        return rows, elapsed

    def start_counting(self) -> None:
        """Forget what the warm-up counted."""
        for run in self.runs.values():
            run.num_ended = 0
            run.meter.forget()

    def collect_digests(self) -> None:
        """Of every engine whose consoles are in a known order."""
        self.result.digest_steps = self._steps
        for name, run in self.runs.items():
            if not run.engine.is_synchronous:
                continue
            self.result.obs_digests[name] = digest_of(run.obs)
            ram = run.engine.ram()
            if ram is not None:
                self.result.ram_digests[name] = digest_of(ram)

    def finish(self) -> None:
        """Fill in what was counted."""
        console_steps = self.result.steps * self.result.num_envs
        for name, run in self.runs.items():
            self.result.episode_ends[name] = run.num_ended / console_steps
            self.result.utilisation[name] = run.meter.mean()


def _leave_out_odd_ones(engines: dict[str, Engine], result: Comparison) -> None:
    """Engines with other actions than the first cannot play the same game."""
    counts = {name: engine.num_actions for name, engine in engines.items()}
    expected = next(iter(counts.values()), 0)
    for name, count in counts.items():
        if count != expected:
            result.absent[name] = f"it has {count} actions in {result.game}, others {expected}"
            del engines[name]


def same_actions(results: Mapping[str, Result]) -> bool:
    """Whether the engines played the same actions at a step; random ones always are."""
    chosen = [result[4] for result in results.values() if len(result) > 4]
    return all(np.array_equal(chosen[0], other) for other in chosen[1:])


def compare(game: str, results: Mapping[str, Result], step: int) -> None:
    """Refuse results of engines that differ.

    Args:
        game: For the message.
        results: Two engines, and what each returned at one step; observations may be None.
        step: For the message.

    Raises:
        DifferentResultsError: They do; the message says where.
    """
    (name, ours), (other, theirs) = results.items()
    for kind, mine, yours in zip(_KINDS, ours, theirs, strict=False):
        if mine is None or yours is None:
            continue
        mine, yours = as_numpy(mine), as_numpy(yours)
        if not np.array_equal(mine, yours):
            consoles = [i for i in range(len(mine)) if not np.array_equal(mine[i], yours[i])]
            raise DifferentResultsError(
                f"{game}: {kind} of consoles {consoles} differ between {name} and {other} at step "
                f"{step}"
            )


def compare_with_cpu(
    game: str, engine: Engine, rows: NDArray[np.int32], returned: Sequence[Result], seed: int
) -> None:
    """Play the first consoles of a GPU again on the CPU, from the same cached states.

    Args:
        game: Which game.
        engine: cule on a GPU, after `rows`.
        rows: Actions of all consoles ``[steps, N]`` since the reset.
        returned: What the GPU returned for them.
        seed: Of the reset.

    Raises:
        DifferentResultsError: They are not equal.
    """
    count = min(SHADOW_ENVS, engine.num_envs)
    shadow = make_engine("cule-cpu", game, count, 1, resets="cached")
    try:
        shadow.reset(seed)
        for number, (row, result) in enumerate(zip(rows, returned, strict=True)):
            part = tuple(None if array is None else array[:count] for array in result[:4])
            own = shadow.step(row[:count])
            compare(game, {engine.name: part, "cule-cpu": own}, number + 1)
        ram, own_ram = engine.ram(), shadow.ram()
        assert ram is not None
        assert own_ram is not None
        if not np.array_equal(ram[:count], own_ram):
            raise DifferentResultsError(
                f"{game}: RAM differs between {engine.name} and cule-cpu at step {len(rows)}"
            )
    finally:
        shadow.close()
