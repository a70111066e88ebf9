"""Compare stepping from JAX: cule and ale-py, by step() and by lax.scan over step of xla().

Engines run the same actions from the same seed in interleaved rounds, on one thread each, so the
results are ratios within one run. Rewards, ends and the last observations of each round must be
equal. Frames are emulated frames, four a step. Compilation is not timed. `make
test-integrations` installs what this needs. With ``--device cuda`` the engines are cule's own:
step() on all threads of the CPU, and on the GPU step(), and xla() called by Python and in lax.scan.

    .venv-integrations/bin/python benchmarks/jax_steps.py --rounds 15
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ale_py.vector_env
import jax
import numpy as np
from numpy.typing import NDArray

import cule
from cule.bench.engines import FRAMESKIP, as_numpy
from cule.bench.machine import conditions

RECORD = Path(__file__).parent / "results" / "jax.json"

#: Rewards, terminated, truncated and the last observation of a round.
Result = tuple[NDArray[Any], ...]
#: A round of the actions, ``[T, N]``.
Engine = Callable[[NDArray[np.int32]], Result]


def engine_of_loop(step: Callable[[Any], Any]) -> Engine:
    """A loop in Python over a function of actions, with the results of step()."""

    def run(actions: NDArray[np.int32]) -> Result:
        rows = []
        for action in actions:
            obs, *row, _ = step(action)
            rows.append(row)
        columns = zip(*rows, strict=True)
        return (*(np.stack([*map(as_numpy, column)]) for column in columns), as_numpy(obs))

    return run


def engine_of_steps(env: Any) -> Engine:
    """A loop over step()."""
    env.reset(seed=0)
    return engine_of_loop(env.step)


def engine_of_calls(env: Any) -> Engine:
    """A loop over step of xla()."""
    handle, reset, step = env.xla()
    handle, _ = reset(handle, seed=0)

    def call(action: Any) -> Any:
        nonlocal handle
        handle, result = step(handle, action)
        return result

    return engine_of_loop(call)


def engine_of_scans(carry: Any, obs: Any, step: Callable[..., Any]) -> Engine:
    """One compiled lax.scan over a function of xla() or xla_pure()."""

    def body(carry: Any, action: Any) -> Any:
        state, (obs, reward, terminated, truncated, _) = step(carry[0], action)
        return (state, obs), (reward, terminated, truncated)

    scan = jax.jit(lambda carry, actions: jax.lax.scan(body, carry, actions))
    last = (carry, obs)

    def run(actions: NDArray[np.int32]) -> Result:
        nonlocal last
        last, rows = jax.block_until_ready(scan(last, actions))
        return (*map(np.asarray, rows), np.asarray(last[1]))

    return run


def engine_of_handles(env: Any) -> Engine:
    """`engine_of_scans` over xla()."""
    handle, reset, step = env.xla()
    handle, (obs, _) = reset(handle, seed=0)
    return engine_of_scans(handle, obs, step)


def engine_of_snapshots(env: cule.AtariVectorEnv) -> Engine:
    """`engine_of_scans` over xla_pure()."""
    reset, step = env.xla_pure()
    states, (obs, _) = reset(0)
    return engine_of_scans(states, obs, step)


def make_engines(game: str, num_envs: int, device: str) -> dict[str, Engine]:
    """The engines to compare, by name."""
    ours = partial(cule.AtariVectorEnv, game, num_envs, num_threads=1)
    if device == "cuda":
        ours = partial(cule.AtariVectorEnv, game, num_envs, resets="cached")
        gpu = partial(ours, device="cuda", kernel="compiled")
        return {
            "cule step, CPU": engine_of_steps(ours()),
            "cule step": engine_of_steps(gpu()),
            "cule xla, calls": engine_of_calls(gpu()),
            "cule xla": engine_of_handles(gpu()),
        }
    theirs = partial(ale_py.vector_env.AtariVectorEnv, game, num_envs, num_threads=1)
    return {
        "cule step": engine_of_steps(ours()),
        "cule xla": engine_of_handles(ours()),
        "cule xla_pure": engine_of_snapshots(ours()),
        "ale-py step": engine_of_steps(theirs()),
        "ale-py xla": engine_of_handles(theirs()),
    }


def measure(
    game: str, num_envs: int, steps: int, rounds: int, device: str
) -> dict[str, list[float]]:
    """Frames per second of each engine in each round."""
    engines = make_engines(game, num_envs, device)
    random = np.random.default_rng(0)
    rates: dict[str, list[float]] = {name: [] for name in engines}
    with cule.AtariVectorEnv(game, 1) as env:
        size = len(env.action_set)
    for number in range(rounds + 1):
        actions = random.integers(size, size=(steps, num_envs), dtype=np.int32)
        results = {}
        for name, run in engines.items():
            start = time.perf_counter()
            results[name] = run(actions)
            seconds = time.perf_counter() - start
            if number:  # the first compiles
                rates[name].append(steps * num_envs * FRAMESKIP / seconds)
        (_, wanted), *others = results.items()
        for name, result in others:
            for array, first in zip(result, wanted, strict=True):
                np.testing.assert_array_equal(array, first, f"{name}, {game}, round {number}")
    return rates


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", default="pong,breakout,seaquest,ms_pacman")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100, help="of a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        **conditions(vars(arguments)),
        "versions": {"jax": jax.__version__, "ale-py": ale_py.__version__},
        "frames_per_second": {},
    }
    for game in arguments.games.split(","):
        rates = measure(
            game, arguments.num_envs, arguments.steps, arguments.rounds, arguments.device
        )
        record["frames_per_second"][game] = rates
        medians = {name: statistics.median(values) for name, values in rates.items()}
        print(game, {name: f"{value:,.0f}" for name, value in medians.items()})
    arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
