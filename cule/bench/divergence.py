"""The load divergence: every step after a common reset, timed by itself.

After a reset all consoles do much the same; later they differ, and episodes end at different steps.
Where consoles run in lanes of one instruction stream this costs speed, and so do the resets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cule.bench.engines import Engine, make_engine
from cule.bench.errors import EngineMissingError
from cule.bench.interleaved import digest_of

#: Steps before the common reset.
WARM_UP_STEPS = 8


@dataclass
class Divergence:
    """What one game gave, by engine; lists have one number for each step."""

    step_s: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each step of all consoles."""

    resetting: dict[str, list[int]] = field(default_factory=dict)
    """Consoles that each step resets: those whose episode ended with the step before."""

    ram_digests: dict[str, str] = field(default_factory=dict)
    """Hash of the RAM of all consoles at the end."""

    absent: dict[str, str] = field(default_factory=dict)
    """Engines that could not take part, and why."""


def follow(
    game: str, names: Sequence[str], *, num_envs: int, threads: int, steps: int, seed: int
) -> Divergence:
    """Step all engines after a common reset, one step of each in turn.

    Args:
        game: Which game.
        names: Engines; only those of cule take part.
        num_envs: Consoles of each engine.
        threads: CPU threads of each engine.
        steps: How many.
        seed: Of consoles and actions.

    Raises:
        EngineMissingError: No engine takes part.
        CuleError: What making cule's environment raises.
    """
    result = Divergence()
    engines: dict[str, Engine] = {}
    with contextlib.ExitStack() as stack:
        for name in (name for name in names if name.startswith("cule")):
            engines[name] = make_engine(name, game, num_envs, threads)
            stack.callback(engines[name].close)
        if not engines:
            raise EngineMissingError("no engine of cule to step")
        num_actions = next(iter(engines.values())).num_actions
        random = np.random.default_rng(seed)
        shape = (WARM_UP_STEPS + steps, num_envs)
        rows = random.integers(num_actions, size=shape, dtype=np.int32)
        for engine in engines.values():
            engine.reset(seed)
            for row in rows[:WARM_UP_STEPS]:
                engine.step(engine.to_device(row))
            engine.reset(seed)
        ended = dict.fromkeys(engines, 0)
        result.step_s = {name: [] for name in engines}
        result.resetting = {name: [] for name in engines}
        for row in rows[WARM_UP_STEPS:]:
            for name, engine in engines.items():
                actions = engine.to_device(row)
                engine.synchronise()
                start = time.perf_counter()
                _, _, terminated, truncated = engine.step(actions)
                engine.synchronise()
                result.step_s[name].append(time.perf_counter() - start)
                result.resetting[name].append(ended[name])
                ended[name] = int((terminated | truncated).sum())
        for name, engine in engines.items():
            ram = engine.ram()
            assert ram is not None, "cule shows its RAM"
            result.ram_digests[name] = digest_of(ram)
    return result
