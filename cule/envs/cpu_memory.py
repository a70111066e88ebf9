"""Memory of a batch on the CPU, counted before it is allocated."""

from __future__ import annotations

import numpy as np

from cule import _core
from cule.device import free_address_bytes, free_host_bytes
from cule.envs.options import EnvOptions
from cule.envs.plan import STEPS_ALIVE, BatchPlan, native_options, results_bytes
from cule.errors import OutOfMemoryError


def check_memory(plan: BatchPlan, options: EnvOptions) -> None:
    """Refuse a batch that does not fit.

    Raises:
        OutOfMemoryError: The message has the number of environments that fit.
    """
    native = native_options(plan, options)
    sizes = [_core.env_bytes(native, game.screen_height) for game in plan.games]
    num_envs = len(plan.game_index)
    results = STEPS_ALIVE * results_bytes(plan, options)
    counts = np.bincount(plan.game_index, minlength=len(plan.games))
    cached_bytes = 0
    if native.cached_resets:
        rows = np.column_stack((plan.game_index, plan.modes, plan.difficulties))
        kinds = len(np.unique(rows, axis=0))
        cached_bytes = kinds * options.num_reset_states * max(size.snapshot for size in sizes)
    for free, each in (
        (free_host_bytes(), [size.touched for size in sizes]),
        (free_address_bytes(), [size.mapped for size in sizes]),
    ):
        env_bytes = int(counts @ np.array(each, np.int64)) // num_envs + results
        needed = num_envs * env_bytes + cached_bytes
        if needed <= free:
            continue
        fit = max(free - cached_bytes, 0) // env_bytes
        cached = f" and {cached_bytes:,} for cached resets" if cached_bytes else ""
        raise OutOfMemoryError(
            f"num_envs is {num_envs}: {needed:,} bytes are needed, {env_bytes:,} for each "
            f"environment{cached}, and {free:,} are free; about {fit:,} environments fit"
        )
