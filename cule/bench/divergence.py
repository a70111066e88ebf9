"""The load divergence: times every step after a common reset separately.

After a reset all environments do much the same; later they diverge, and episodes end at different
steps. On a GPU, where environments share a warp, divergence costs speed, and so do the resets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from cule.bench.engines import Engine, EngineConfig, EngineMissingError, make_engine, variant_of
from cule.bench.interleaved import digest_of
from cule.bench.options import BenchOptions

#: Steps before the common reset.
WARM_UP_STEPS = 8


class DivergenceRun(TypedDict):
    """Measurements of an engine; lists have a number per step."""

    step_s: list[float]
    resetting_envs: list[int]  # that the step resets, because their episode ended with the last one
    digest_of_ram: str  # at the end


def measure_divergence(
    game: str, names: Sequence[str], num_envs: int, threads: int, options: BenchOptions
) -> dict[str, DivergenceRun]:
    """Step all engines of cule but asynchronous ones after a common reset, alternating.

    Raises:
        EngineMissingError: No synchronous engine of cule is given.
        CuleError: Raised by cule's environment.
    """
    engines: dict[str, Engine] = {}
    with contextlib.ExitStack() as stack:
        for name in names:
            if not name.startswith("cule") or variant_of(name).is_async:
                continue
            engines[name] = make_engine(EngineConfig(name, game, num_envs, threads))
            stack.callback(engines[name].close)
        if not engines:
            raise EngineMissingError("divergence needs a synchronous engine of cule")
        num_actions = next(iter(engines.values())).num_actions
        random = np.random.default_rng(options.seed)
        shape = (WARM_UP_STEPS + options.divergence_steps, num_envs)
        actions = random.integers(num_actions, size=shape, dtype=np.int32)
        for engine in engines.values():
            engine.reset(options.seed)
            for row in actions[:WARM_UP_STEPS]:
                engine.step(engine.to_device(row))
            engine.reset(options.seed)
        ended = dict.fromkeys(engines, 0)
        step_s: dict[str, list[float]] = {name: [] for name in engines}
        resetting: dict[str, list[int]] = {name: [] for name in engines}
        for row in actions[WARM_UP_STEPS:]:
            for name, engine in engines.items():
                on_device = engine.to_device(row)
                engine.synchronize()
                start = time.perf_counter()
                _, _, terminated, truncated = engine.step(on_device)
                engine.synchronize()
                step_s[name].append(round(time.perf_counter() - start, 7))
                resetting[name].append(ended[name])
                ended[name] = int((terminated | truncated).sum())
        return {
            name: {
                "step_s": step_s[name],
                "resetting_envs": resetting[name],
                "digest_of_ram": digest_of(engine.ram()),
            }
            for name, engine in engines.items()
        }
