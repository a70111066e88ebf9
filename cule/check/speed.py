"""Frames per second of one game by number of environments, kernel and launch geometry."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cule.bench.engines import FRAMESKIP, Engine, EngineConfig, make_engine
from cule.errors import CuleError

#: Different actions that are played again and again.
_ACTION_ROWS = 16

#: Warps per block of the launch geometries that are measured.
_WARPS = 4

#: Steps before the clock is read for the first time.
_WARM_UP_STEPS = 4


@dataclass(frozen=True)
class Speed:
    """A measurement."""

    num_envs: int
    kernel: str  # interpreter or compiled
    lanes_per_warp: int | None  # None on a CPU
    frames_per_s: float  # emulated frames of all environments
    step_ms: float


def measure(
    game: str, device: str, num_envs: int, kernel: str, seconds: float, lanes: int | None = None
) -> Speed:
    """Step with random actions for `seconds`, 84x84x4 gray observations, default options.

    Raises:
        CuleError: The environments cannot be made, for want of memory for example.
    """
    kind = "cule-cpu" if device == "cpu" else "cule-cuda"
    geometry = f"@{lanes}x{_WARPS}" if lanes else ""
    config = EngineConfig(f"{kind}{geometry}@{kernel}", game, num_envs, threads=0, gpu=device)
    with contextlib.closing(make_engine(config)) as engine:
        steps, elapsed = _run(engine, seconds)
    return Speed(
        num_envs, kernel, lanes, FRAMESKIP * num_envs * steps / elapsed, 1e3 * elapsed / steps
    )


def _run(engine: Engine, seconds: float) -> tuple[int, float]:
    """Number of steps, and the seconds that they took."""
    rng = np.random.default_rng(0)
    size = (_ACTION_ROWS, engine.num_envs)
    rows = rng.integers(engine.num_actions, size=size, dtype=np.int32)
    actions = [engine.to_device(row) for row in rows]
    engine.reset(0)
    for row in actions[:_WARM_UP_STEPS]:
        engine.step(row)
    engine.synchronize()
    begin, steps, count = time.perf_counter(), 0, 1
    while True:
        for step in range(count):
            engine.step(actions[step % _ACTION_ROWS])
        engine.synchronize()
        steps += count
        elapsed = time.perf_counter() - begin
        if elapsed >= seconds:
            return steps, elapsed
        # As many as should take the rest of the time.
        count = max(1, min(steps, int(steps * (seconds - elapsed) / elapsed)))


def lanes_to_try(num_envs: int, device: str) -> Sequence[int]:
    """Environments per warp of a GPU: the default first, then half and twice as many."""
    from cule.envs.launch import WARP_LANES, geometry_for, multiprocessors_of

    default = geometry_for(num_envs, multiprocessors_of(device)).lanes_per_warp
    return [n for n in (default, default // 2, 2 * default) if 1 <= n <= WARP_LANES]


def reason_of(error: CuleError) -> str:
    """The first line of an error."""
    return str(error).splitlines()[0]
