"""Measure Ape-X with actors on a Ray cluster of this machine.

One actor of 32 environments, and one shard, which takes a CPU of its own. Frames per second
count from the first update to the end, four frames a step. Few samples an insert make acting the
limit, many make learning it. Then the parts alone: frames per second that an actor with the network
`nature` plays on one core, and how often per second its weights reach another process through the
object store.
`make test-integrations` installs what this needs.

    .venv-integrations/bin/python benchmarks/actors.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from cule.agents import ApexConfig, ApexDQN
from cule.bench.machine import conditions

RECORD = Path(__file__).parent / "results" / "actors.json"
FRAMESKIP = 4

#: Samples per insert of the cases.
CASES = {"acting": 0.1, "learning": 0.78}


def make_agent(**options: Any) -> ApexDQN:
    """Ape-X with one actor in pong."""
    return ApexDQN(
        ApexConfig(
            game="pong",
            num_actors=1,
            env_threads=1,
            torch_threads=1,
            memory=100_000,
            decorrelate_steps=0,
            cluster="local",
            **options,
        )
    )


def measure(case: str, steps: int) -> dict[str, float]:
    """Frames per second of a run, and bytes of a transition on the wire."""
    agent = make_agent(
        num_envs=32,
        network="small",
        learning_starts=2_000,
        block_size=512,
        batch_size=64,
        samples_per_insert=CASES[case],
        total_steps=steps,
    )
    began: tuple[float, int] | None = None
    block_bytes = 0.0
    for progress in agent.train():
        if began is None and progress.updates:
            began = time.perf_counter(), progress.steps
        assert agent.actor_group is not None
        block_bytes = agent.actor_group.gauges().get("block_bytes", block_bytes)
    assert began is not None
    seconds = time.perf_counter() - began[0]
    return {
        "frames_per_second": FRAMESKIP * (agent.steps - began[1]) / seconds,
        "bytes_per_transition": block_bytes / 512,
    }


def measure_actor(steps: int) -> dict[str, float]:
    """Frames per second of an actor that plays alone with the network `nature`, and its weights."""
    agent = make_agent(num_envs=64, block_size=2_048, learning_starts=steps, total_steps=steps)
    speeds = []
    for _ in agent.train():
        assert agent.actor_group is not None
        speeds.append(agent.actor_group.gauges()["actor_frames_per_s"])
    return {
        "frames_per_second": statistics.median(speeds),
        "weight_bytes": 4.0 * sum(p.numel() for p in agent.network.parameters()),
    }


def measure_weights(num_bytes: int, times: int = 100) -> float:
    """Weights per second from this process to another one through the object store of a node."""
    import ray

    class Receiver:
        def load(self, vector: Any) -> float:
            return float(torch.from_numpy(vector.copy())[-1])

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    receiver = ray.remote(Receiver).remote()
    weights = torch.zeros(num_bytes // 4)
    ray.get(receiver.load.remote(ray.put(weights.numpy())))
    began = time.perf_counter()
    for number in range(times):
        weights[-1] = number
        assert ray.get(receiver.load.remote(ray.put(weights.numpy()))) == number
    seconds = time.perf_counter() - began
    ray.shutdown()
    return times / seconds


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        **conditions(vars(arguments)),
        "cases": {case: [] for case in CASES},
    }
    for _ in range(arguments.rounds):
        for case, rows in record["cases"].items():
            rows.append(measure(case, arguments.steps))
    for case, rows in record["cases"].items():
        rate = statistics.median(row["frames_per_second"] for row in rows)
        print(
            f"{case}: {rate:,.0f} frames per second, {rows[-1]['bytes_per_transition']:,.0f} bytes"
        )
    parts = measure_actor(arguments.steps)
    parts["weights_per_second"] = measure_weights(int(parts["weight_bytes"]))
    record["parts"] = parts
    print("parts", {name: f"{value:,.0f}" for name, value in parts.items()})
    arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
