"""The load divergence: times every step after a common reset separately.

After a reset all environments do much the same; later they diverge, and episodes end at different
steps. On a GPU, where environments share a warp, divergence costs speed, and so do the resets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cule.bench.engines import Engine, EngineConfig, EngineMissingError, make_engine
from cule.bench.interleaved import digest_of

#: Steps before the common reset.
WARM_UP_STEPS = 8


@dataclass
class Divergence:
    """Measurements of one game by engine; lists have one number per step."""

    step_s: dict[str, list[float]] = field(default_factory=dict)
    #: Environments that each step resets: those whose episode ended with the previous step.
    resetting: dict[str, list[int]] = field(default_factory=dict)
    ram_digests: dict[str, str] = field(default_factory=dict)  # at the end


def measure_divergence(
    game: str, names: Sequence[str], *, num_envs: int, threads: int, steps: int, seed: int
) -> Divergence:
    """Step all engines of cule after a common reset, alternating after every step.

    Raises:
        EngineMissingError: No engine of cule is given.
        CuleError: Raised by cule's environment.
    """
    result = Divergence()
    engines: dict[str, Engine] = {}
    with contextlib.ExitStack() as stack:
        for name in (name for name in names if name.startswith("cule")):
            engines[name] = make_engine(EngineConfig(name, game, num_envs, threads))
            stack.callback(engines[name].close)
        if not engines:
            raise EngineMissingError("divergence needs an engine of cule")
        num_actions = next(iter(engines.values())).num_actions
        random = np.random.default_rng(seed)
        shape = (WARM_UP_STEPS + steps, num_envs)
        actions = random.integers(num_actions, size=shape, dtype=np.int32)
        for engine in engines.values():
            engine.reset(seed)
            for row in actions[:WARM_UP_STEPS]:
                engine.step(engine.to_device(row))
            engine.reset(seed)
        ended = dict.fromkeys(engines, 0)
        result.step_s = {name: [] for name in engines}
        result.resetting = {name: [] for name in engines}
        for row in actions[WARM_UP_STEPS:]:
            for name, engine in engines.items():
                on_device = engine.to_device(row)
                engine.synchronize()
                start = time.perf_counter()
                _, _, terminated, truncated = engine.step(on_device)
                engine.synchronize()
                result.step_s[name].append(time.perf_counter() - start)
                result.resetting[name].append(ended[name])
                ended[name] = int((terminated | truncated).sum())
        for name, engine in engines.items():
            ram = engine.ram()
            assert ram is not None, "cule exposes its RAM"
            result.ram_digests[name] = digest_of(ram)
    return result
