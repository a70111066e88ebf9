"""Times engines in interleaved rounds in one process, with the same actions.

Rounds alternate between the engines, so that other work on the machine slows all of them, and a
ratio is that of one round. In a round the slowest engine takes a block of a few steps, and each of
the others as many blocks as take about the same time. Frames are emulated frames: environments x
steps x frame skip; frames of resets are work but are not counted. Only `step`, and the network if
there is one, is timed; clocks are read after the device is done. Processor time of all threads is
measured in addition to wall time: frames per processor second hardly depend on other work.

cule on the CPU and ale-py must return the same arrays in every block that both have taken, and cule
on a GPU and on the CPU for some environments; the comparison is not timed. Every engine leaves a
digest after a fixed number of steps, so that two benchmarks can be compared as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cule.bench.engines import (
    FRAMESKIP,
    Actions,
    Array,
    Engine,
    EngineConfig,
    EngineMissingError,
    Result,
    as_numpy,
    make_engine,
)
from cule.bench.meter import DeviceMeter
from cule.bench.options import BenchOptions
from cule.bench.policies import network_policy
from cule.errors import CuleError

WARM_UP_STEPS = 8

#: Steps of a network before the clock starts: kernels are chosen, caches filled.
NETWORK_WARM_UP_STEPS = 2

#: Engines that must return the same arrays.
EXACT = ("cule-cpu", "ale")

#: Environments of a GPU that the CPU steps as well for comparison.
SHADOW_ENVS = 16

#: Most blocks of an engine in a round.
MAX_BLOCKS = 64

#: Keep and compare all observations of a block up to this size; above, only the last step's.
KEPT_BYTES = 2**30

_ARRAY_NAMES = ("observations", "rewards", "terminated", "truncated")


class DifferentResultsError(CuleError, RuntimeError):
    """Two engines that must agree returned different arrays, so their speed means nothing."""


@dataclass
class Comparison:
    """Measurements of one game. Lists have one number per round."""

    game: str
    num_envs: int
    #: Timed steps, by engine.
    steps: dict[str, int] = field(default_factory=dict)
    #: Steps, warm-up included, after which cule and ale-py returned equal arrays.
    compared_steps: int = 0
    #: Steps of `SHADOW_ENVS` environments after which GPU and CPU returned equal arrays.
    shadowed_steps: int = 0
    #: Emulated frames per second of wall time and of processor time, by engine.
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu_rates: dict[str, list[float]] = field(default_factory=dict)
    #: What executed programs, by engine of cule.
    kernels: dict[str, dict[str, object] | None] = field(default_factory=dict)
    #: Hashes of RAM and observations after `digest_steps` steps, warm-up included.
    ram_digests: dict[str, str] = field(default_factory=dict)
    obs_digests: dict[str, str] = field(default_factory=dict)
    digest_steps: int = 0
    #: Episode ends per timed step of an environment.
    episode_ends: dict[str, float] = field(default_factory=dict)
    #: Per cent of time that the device was busy; None if unknown.
    utilization: dict[str, float | None] = field(default_factory=dict)
    #: Engines that cannot play this game, and why.
    absent: dict[str, str] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Median frames per second of an engine."""
        return statistics.median(self.rates[name])

    def ratios(self, name: str, other: str) -> list[float]:
        """Speed of one engine over that of another, round by round."""
        return divide(self.rates[name], self.rates[other])

    def add_round(self, name: str, frames: int, wall_s: float, cpu_s: float) -> None:
        """Add the rates of a round of an engine."""
        self.rates.setdefault(name, []).append(frames / wall_s)
        self.cpu_rates.setdefault(name, []).append(frames / cpu_s)


def divide(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Quotients of two lists of the same length."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def digest_of(array: Array) -> str:
    """Hash of the bytes of an array or tensor."""
    return hashlib.sha256(np.ascontiguousarray(as_numpy(array)).tobytes()).hexdigest()[:16]


def compare_engines(
    game: str,
    names: Sequence[str],
    num_envs: int,
    threads: int,
    options: BenchOptions,
    *,
    network: bool = False,
) -> Comparison:
    """Step one game in several engines in interleaved rounds.

    Args:
        game: Name of the game.
        names: Engines; those that cannot play this game are named in `Comparison.absent`.
        num_envs: Environments of each engine.
        threads: CPU threads of each engine.
        options: Of the benchmark.
        network: A Nature CNN chooses the actions and is timed; otherwise they are random.

    Raises:
        DifferentResultsError: Engines that must agree returned different arrays.
        EngineMissingError: No engine can play the game.
        CuleError: Raised by cule's environment.
    """
    seed, rounds = options.seed, options.rounds
    result = Comparison(game, num_envs)
    with contextlib.ExitStack() as stack:
        engines: dict[str, Engine] = {}
        for name in names:
            try:
                config = EngineConfig(name, game, num_envs, threads, seed, options.async_batch)
                engine = make_engine(config)
            except EngineMissingError as error:
                result.absent[name] = str(error)
                continue
            stack.callback(engine.close)
            expected = next(iter(engines.values()), engine).num_actions
            if engine.num_actions != expected:
                result.absent[name] = f"it has {engine.num_actions} actions instead of {expected}"
                continue
            engines[name] = engine
        if not engines:
            raise EngineMissingError(f"no engine can play {game}: {result.absent}")

        trial = _Trial(result, engines, seed)
        trial.run_round(WARM_UP_STEPS)
        actions = trial.actions(0, WARM_UP_STEPS)
        for run in trial.runs.values():
            if run.engine.device != "cpu":
                check_with_cpu(game, run.engine, actions, run.returned, seed)
                result.shadowed_steps = len(actions)
        if network:
            for run in trial.runs.values():
                run.policy = network_policy(
                    run.engine, run.obs, seed=seed, device=options.network_device
                )
            trial.run_round(NETWORK_WARM_UP_STEPS)
        trial.start_timing(rounds)
        warm_up = WARM_UP_STEPS + NETWORK_WARM_UP_STEPS * network
        result.digest_steps = warm_up + rounds * options.round_steps
        start = time.perf_counter()
        done = 0
        while done < rounds or time.perf_counter() < start + options.seconds:
            trial.run_round(options.round_steps, is_timed=True)
            for name, run in trial.runs.items():
                frames = num_envs * run.num_steps * FRAMESKIP
                result.add_round(name, frames, run.wall_s, run.cpu_s)
                result.steps[name] = result.steps.get(name, 0) + run.num_steps
            done += 1
        for name, run in trial.runs.items():
            result.episode_ends[name] = run.num_ended / (result.steps[name] * num_envs)
            result.utilization[name] = run.meter.mean()
            result.kernels[name] = run.engine.running_kernel()
    return result


class _EngineRun:
    """An engine in a trial.

    Attributes:
        returned: Results of each step of the last block, without observations that are not kept,
            and with the actions.
        num_blocks: Blocks since the reset.
        num_steps, wall_s, cpu_s: Steps and seconds of the last round.
        block_s: Seconds of a block of the last round.
    """

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.obs = engine.reset(seed)
        self.policy: Callable[[Array], Array] | None = None  # None: random actions
        self.meter = DeviceMeter(engine.device)
        self.returned: list[Result] = []
        self.num_ended = self.num_blocks = self.num_steps = 0
        self.wall_s = self.cpu_s = 0.0
        self.block_s = 1.0
        # All synchronous engines get the same actions, an asynchronous one its own.
        self._random = np.random.default_rng([seed, 1])

    def run_block(self, actions: Actions, keep_all: bool) -> None:
        """Step with random actions, or with as many of the policy."""
        engine = self.engine
        if not engine.is_synchronous:
            shape = (actions.size // engine.batch_size, engine.batch_size)
            actions = self._random.integers(engine.num_actions, size=shape, dtype=np.int32)
        self.returned = []  # freed before the clock starts
        prepared = [engine.to_device(row) for row in actions]
        engine.synchronize()
        with self.meter:
            for number, row in enumerate(prepared, 1):
                chosen = row if self.policy is None else self.policy(self.obs)
                self.obs, *rest = engine.step(chosen)
                obs = self.obs if keep_all or number == len(prepared) else None
                self.returned.append((obs, *rest, chosen))
            engine.synchronize()
        for _, _, terminated, truncated, _ in self.returned:
            self.num_ended += int((terminated | truncated).sum())
        self.num_blocks += 1
        self.wall_s += self.meter.wall_s
        self.cpu_s += self.meter.cpu_s


class _Trial:
    """One game in several engines from a common reset on."""

    def __init__(self, result: Comparison, engines: Mapping[str, Engine], seed: int) -> None:
        self.runs = {name: _EngineRun(engine, seed) for name, engine in engines.items()}
        self._result, self._seed = result, seed
        self._first = next(iter(self.runs.values()))
        self._digest_block = -1  # none yet
        # Steps that only one of the compared engines has taken, with hashes for observations.
        self._waiting: dict[str, deque[Result]] = {}
        if set(EXACT) <= set(engines):
            check_equal(result.game, {name: (self.runs[name].obs,) for name in EXACT}, 0)
            self._waiting = {name: deque() for name in EXACT}

    def actions(self, block: int, steps: int) -> Actions:
        """Random actions of a block, the same for all engines; ``[steps, N]``."""
        shape = (steps, self._result.num_envs)
        random = np.random.default_rng([self._seed, 0, block])
        return random.integers(self._first.engine.num_actions, size=shape, dtype=np.int32)

    def start_timing(self, rounds: int) -> None:
        """Forget the warm-up, and take digests after as many further blocks."""
        self._digest_block = self._first.num_blocks + rounds
        for run in self.runs.values():
            run.num_ended = 0
            run.meter.forget()

    def run_round(self, steps: int, *, is_timed: bool = False) -> None:
        """Let every engine take a block, and in a timed round as many as fill the same time."""
        slowest = max(run.block_s for run in self.runs.values())
        for name, run in self.runs.items():
            ratio = round(slowest / run.block_s) if is_timed else 1
            number = min(max(ratio, 1), MAX_BLOCKS)
            run.num_steps = number * steps
            run.wall_s = run.cpu_s = 0.0
            for _ in range(number):
                self._run_block(name, run, steps)
            run.block_s = max(run.wall_s / number, 1e-9)

    def _run_block(self, name: str, run: _EngineRun, steps: int) -> None:
        obs_bytes = int(np.prod(tuple(self._first.obs.shape[1:]))) * self._result.num_envs
        keep_all = run.engine.device == "cpu" and obs_bytes * steps <= KEPT_BYTES
        run.run_block(self.actions(run.num_blocks, steps), keep_all)
        if run.num_blocks == self._digest_block:
            self._collect_digests(name, run)
        if name in self._waiting:
            for obs, *rest in run.returned:
                self._waiting[name].append((None if obs is None else row_hashes(obs), *rest))
            self._compare()

    def _compare(self) -> None:
        while self._waiting and all(self._waiting.values()):
            results = {name: steps.popleft() for name, steps in self._waiting.items()}
            # The memory alignment of its input can change a network's rounding, and so an action.
            ours, theirs = (result[-1] for result in results.values())
            if not np.array_equal(ours, theirs):
                self._waiting = {}
                return
            check_equal(self._result.game, results, self._result.compared_steps + 1)
            self._result.compared_steps += 1

    def _collect_digests(self, name: str, run: _EngineRun) -> None:
        """Hash the state of an engine with a fixed order of environments."""
        if not run.engine.is_synchronous:
            return
        self._result.obs_digests[name] = digest_of(run.obs)
        ram = run.engine.ram()
        if ram is not None:
            self._result.ram_digests[name] = digest_of(ram)


def row_hashes(obs: Array) -> NDArray[np.uint64]:
    """A hash of the bytes of each environment's observation; ``[N]``."""
    rows = np.ascontiguousarray(as_numpy(obs))
    return np.frombuffer(
        b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows), np.uint64
    )


def check_equal(game: str, results: Mapping[str, Result], step: int) -> None:
    """Check that two engines returned equal arrays at a step; observations may be None.

    Raises:
        DifferentResultsError: An array differs; the message names it and the environments.
    """
    (name, ours), (other, theirs) = results.items()
    for kind, mine, yours in zip(_ARRAY_NAMES, ours, theirs, strict=False):
        if mine is None or yours is None:
            continue
        mine, yours = as_numpy(mine), as_numpy(yours)
        if not np.array_equal(mine, yours):
            envs = [i for i in range(len(mine)) if not np.array_equal(mine[i], yours[i])]
            raise DifferentResultsError(
                f"{game}: {kind} of environments {envs} differ between {name} and {other} at step "
                f"{step}"
            )


def check_with_cpu(
    game: str,
    engine: Engine,
    actions: Actions,
    returned: Sequence[Result],
    seed: int,
    states: Array | None = None,
) -> None:
    """Step the first environments of a GPU on the CPU as well, from the same cached states.

    `engine` has just `returned` its results for `actions` ``[steps, N]``, the first since a reset,
    or since its environments were set to `states`.

    Raises:
        DifferentResultsError: The results are not equal.
    """
    count = min(SHADOW_ENVS, engine.num_envs)
    shadow = make_engine(EngineConfig("cule-cpu", game, count, 1, resets="cached"))
    with contextlib.closing(shadow):
        shadow.reset(seed)
        if states is not None:
            shadow.env.set_state(states[:count], np.arange(count))
        for number, (row, result) in enumerate(zip(actions, returned, strict=True)):
            part = tuple(None if array is None else array[:count] for array in result[:4])
            own = shadow.step(row[:count])
            check_equal(game, {engine.name: part, "cule-cpu": own}, number + 1)
        ram, own_ram = engine.ram(), shadow.ram()
        assert ram is not None
        assert own_ram is not None
        if not np.array_equal(ram[:count], own_ram):
            raise DifferentResultsError(
                f"{game}: RAM differs between {engine.name} and cule-cpu at step {len(actions)}"
            )
