"""Compare Ape-X with actor processes and with actors on a Ray cluster of this machine.

Both train the same options in interleaved rounds, so the results are ratios within one run: one
actor of 32 environments, and with Ray one shard, which takes a CPU of its own. Frames per second
count from the first update to the end, four frames a step. Few samples an insert make acting the
limit, many make learning it. `make test-integrations` installs what this needs.

    .venv-integrations/bin/python benchmarks/actors.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from cule.agents import ApexConfig, ApexDQN
from cule.bench.machine import conditions

RECORD = Path(__file__).parent / "results" / "actors.json"
FRAMESKIP = 4

#: Samples per insert of the cases.
CASES = {"acting": 0.1, "learning": 0.78}


def measure(case: str, cluster: str, steps: int) -> dict[str, float]:
    """Frames per second of a run, and bytes of a transition on the wire; 0 without a cluster."""
    agent = ApexDQN(
        ApexConfig(
            game="pong",
            num_actors=1,
            num_envs=32,
            env_threads=1,
            torch_threads=1,
            network="small",
            memory=100_000,
            learning_starts=2_000,
            block_size=512,
            batch_size=64,
            samples_per_insert=CASES[case],
            total_steps=steps,
            decorrelate_steps=0,
            cluster=cluster,
        )
    )
    began: tuple[float, int] | None = None
    block_bytes = 0.0
    for progress in agent.train():
        if began is None and progress.updates:
            began = time.perf_counter(), progress.steps
        if cluster:
            block_bytes = agent.gauges().get("block_bytes", block_bytes)
    assert began is not None
    seconds = time.perf_counter() - began[0]
    return {
        "frames_per_second": FRAMESKIP * (agent.steps - began[1]) / seconds,
        "bytes_per_transition": block_bytes / 512,
    }


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        **conditions(vars(arguments)),
        "cases": {case: {"processes": [], "ray": []} for case in CASES},
    }
    for _ in range(arguments.rounds):
        for case, engines in record["cases"].items():
            for name, cluster in (("processes", ""), ("ray", "local")):
                engines[name].append(measure(case, cluster, arguments.steps))
    for case, engines in record["cases"].items():
        rates = {
            name: statistics.median(row["frames_per_second"] for row in rows)
            for name, rows in engines.items()
        }
        size = engines["ray"][-1]["bytes_per_transition"]
        print(case, {name: f"{rate:,.0f}" for name, rate in rates.items()}, f"{size:,.0f} bytes")
    arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
