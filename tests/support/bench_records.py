"""Records of benchmarks as the suite writes them, without a clock."""

from __future__ import annotations

import dataclasses
from typing import Any

from cule.bench import interleaved, records, training
from cule.bench.options import Cell


def fake_record(load: str, num_envs: int, game: str, **changes: Any) -> records.Record:
    """A record as the suite writes it, of two engines that are always as fast."""
    result = interleaved.Comparison(game, num_envs, steps=10, compared_steps=18)
    names = ["cule-cpu", "ale"]
    if load == "training":
        names = [training.run_name("a2c", "cule-cpu"), training.run_name("ppo", "cule-cpu")]
    for place, name in enumerate(names):
        result.rates[name] = [4000.0 / (place + 1)] * 3
        result.cpu_rates[name] = [2000.0] * 3
        result.ram_digests[name] = f"digest{place}"
        result.episode_ends[name] = changes.get("ends", 0.0)
    content = records.describe_comparison(result, [("cule-cpu", "ale")])
    cell = dataclasses.asdict(Cell(load, game, num_envs))
    agents = {name: {"network": "nature", "num_steps": 5} for name in names}
    return {"cell": cell, **content, "agents": agents}


def fake_divergence(game: str) -> records.Record:
    run = {"step_s": [0.01] * 25, "resetting_envs": [0, 3] * 12 + [1], "digest_of_ram": "d"}
    cell = dataclasses.asdict(Cell("divergence", game, 16))
    return {"cell": cell, "divergence_runs": {"cule-cpu": run}, "ends_at_once": False}
