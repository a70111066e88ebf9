"""Compare replay buffers: cule, TorchRL, cpprb, a list of tuples, a list of namedtuples.

Engines add and sample alternately in one process, so the results are ratios within one run. Each
engine gets its best input: 16 transitions at a time; single frames if it stacks them itself (cule),
otherwise stacks. Samples are tensors. One thread. Engines that are not installed, or do not support
a case, are reported as missing.

    python benchmarks/replay.py --rounds 15
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import multiprocessing
import random
import statistics
import time
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from cule.bench.machine import conditions
from cule.bench.memory import used_bytes
from cule.replay import PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay

RECORD = Path(__file__).parent / "results" / "replay.json"
CASES = {"pixels 84x84x4": (84, 84), "states of 27 floats": (27,)}
BATCHES = (16, 32, 64, 128, 256, 512)
PARTS = 32  # of the data
ADDED = 16  # transitions per add
Transition = namedtuple("Transition", "obs action reward next_obs done")


class Data:
    """A stream of steps, in parts of 16 transitions."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        """Generate random frames; those with two axes are stacked by four."""
        rng = np.random.default_rng(0)
        self.shape, self.stack = shape, 4 if len(shape) == 2 else 1
        count = PARTS * ADDED + self.stack
        self.frames: NDArray[Any] = rng.normal(size=(count, *shape)).astype(np.float32)
        self.stacks = self.frames
        if self.stack == 4:
            self.frames = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
            self.stacks = np.stack([self.frames[k : count - 3 + k] for k in range(4)], axis=1)
        self.actions = rng.integers(0, 18, count)
        self.rewards = rng.normal(size=count).astype(np.float32)
        self.dones = np.zeros(count, bool)

    def part(self, step: int) -> dict[str, NDArray[Any]]:
        """16 transitions, with the frames of `frame_step`."""
        begin = step % PARTS * ADDED
        here, following = slice(begin, begin + ADDED), slice(begin + 1, begin + ADDED + 1)
        return {
            "obs": self.stacks[here],
            "action": self.actions[here],
            "reward": self.rewards[here],
            "next_obs": self.stacks[following],
            "done": self.dones[here],
        }

    def frame_step(self, step: int) -> tuple[NDArray[np.int64], Any]:
        """A step of 16 environments."""
        begin = step % PARTS * ADDED
        here, no = slice(begin, begin + ADDED), self.dones[:ADDED]
        result = SimpleNamespace(
            frame=self.frames[here], reward=self.rewards[here], terminated=no, truncated=no,
            life_lost=no, first=no, final_frame=self.frames[here],
        )  # fmt: skip
        return self.actions[here], result


def new_priorities(size: int) -> NDArray[np.float64]:
    """Priorities as a learner sets them, the same for every engine."""
    return np.random.rand(size) + 1e-6  # noqa: NPY002


class _Cule:
    """`UniformReplay` or `PrioritizedReplay`, 16 environments."""

    def __init__(self, data: Data, capacity: int, prioritized: bool) -> None:
        options: dict[str, Any] = {
            "capacity": capacity,
            "num_envs": ADDED,
            "obs_shape": data.shape,
            "obs_dtype": torch.uint8 if data.stack == 4 else torch.float32,
            "stack": data.stack,
        }
        warnings.simplefilter("ignore")
        self.data = data
        self.replay: UniformReplay = (
            PrioritizedReplay(PrioritizedOptions(**options))
            if prioritized
            else UniformReplay(ReplayOptions(**options))
        )
        self.replay.start(data.frames[:ADDED])

    def add(self, step: int) -> None:
        self.replay.append(*self.data.frame_step(step))

    def sample(self, size: int) -> None:
        batch = self.replay.sample(size)
        if isinstance(self.replay, PrioritizedReplay):
            self.replay.update_priorities(batch.ids, new_priorities(size))


class _TorchRL:
    """TorchRL's replay buffer with contiguous storage."""

    def __init__(self, data: Data, capacity: int, prioritized: bool) -> None:
        from tensordict import TensorDict
        from torchrl.data import (
            LazyTensorStorage,
            TensorDictPrioritizedReplayBuffer,
            TensorDictReplayBuffer,
        )

        self.data, self.prioritized, self.make = data, prioritized, TensorDict
        storage = LazyTensorStorage(capacity)
        if prioritized:
            self.replay = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=storage)
        else:
            self.replay = TensorDictReplayBuffer(storage=storage)

    def add(self, step: int) -> None:
        part = {name: torch.from_numpy(v) for name, v in self.data.part(step).items()}
        self.replay.extend(self.make(part, batch_size=[ADDED]))

    def sample(self, size: int) -> None:
        batch = self.replay.sample(size)
        if self.prioritized:
            batch["td_error"] = torch.from_numpy(new_priorities(size)).float()
            self.replay.update_tensordict_priority(batch)


class _Cpprb:
    """cpprb's replay buffer; with `compressed`, for one environment and a frame per step."""

    def __init__(
        self, data: Data, capacity: int, prioritized: bool, compressed: bool = False
    ) -> None:
        import cpprb

        self.data, self.prioritized, self.compressed = data, prioritized, compressed
        self.stacks = np.moveaxis(data.stacks, 1, -1).copy() if compressed else data.stacks
        obs = {"shape": self.stacks.shape[1:], "dtype": self.stacks.dtype}
        fields: dict[str, dict[str, Any]] = {"action": {"dtype": np.int64}, "reward": {}}
        fields |= (
            {"done": {}, "obs": obs} if compressed else {"done": {}, "obs": obs, "next_obs": obs}
        )
        extra = {"next_of": "obs", "stack_compress": "obs"} if compressed else {}
        if prioritized:
            self.replay = cpprb.PrioritizedReplayBuffer(capacity, fields, alpha=0.6, **extra)
        else:
            self.replay = cpprb.ReplayBuffer(capacity, fields, **extra)

    def add(self, step: int) -> None:
        part = self.data.part(step)
        if self.compressed:
            begin = step % PARTS * ADDED
            part["obs"] = self.stacks[begin : begin + ADDED]
            part["next_obs"] = self.stacks[begin + 1 : begin + ADDED + 1]
        self.replay.add(**part)

    def sample(self, size: int) -> None:
        batch = self.replay.sample(size, beta=0.4) if self.prioritized else self.replay.sample(size)
        _ = [torch.from_numpy(value) for value in batch.values()]
        if self.prioritized:
            self.replay.update_priorities(batch["indexes"], new_priorities(size))


class _PlainList:
    """A ring of transitions in a Python list."""

    def __init__(self, data: Data, capacity: int, make: Callable[..., Any]) -> None:
        self.data, self.capacity, self.make, self.next = data, capacity, make, 0
        self.items: list[Any] = []

    def add(self, step: int) -> None:
        part = self.data.part(step)
        # Copies, because environments reuse their arrays.
        for row in zip(*part.values(), strict=True):
            item = self.make(*(np.copy(value) for value in row))
            if len(self.items) < self.capacity:
                self.items.append(item)
            else:
                self.items[self.next] = item
            self.next = (self.next + 1) % self.capacity

    def sample(self, size: int) -> list[torch.Tensor]:
        columns = zip(*random.choices(self.items, k=size), strict=True)
        return [torch.from_numpy(np.stack(column)) for column in columns]


#: Adds the 16 transitions of a part of the data; samples a batch, and updates its priorities.
Engine: TypeAlias = _Cule | _TorchRL | _Cpprb | _PlainList

ENGINES: dict[str, Callable[[Data, int], Engine]] = {
    "cule": partial(_Cule, prioritized=False),
    "cule prioritized": partial(_Cule, prioritized=True),
    "TorchRL": partial(_TorchRL, prioritized=False),
    "TorchRL prioritized": partial(_TorchRL, prioritized=True),
    "cpprb": partial(_Cpprb, prioritized=False),
    "cpprb compressed": partial(_Cpprb, prioritized=False, compressed=True),
    "cpprb prioritized": partial(_Cpprb, prioritized=True),
    "list of tuples": partial(_PlainList, make=lambda *row: row),
    "list of namedtuples": partial(_PlainList, make=Transition),
}


def baseline(name: str) -> str:
    """The engine of cule to compare another with."""
    return "cule prioritized" if name.endswith("prioritized") else "cule"


def timed(call: Callable[[int], object], arguments: Sequence[int]) -> float:
    """CPU seconds per call, which do not count other processes."""
    begin = time.process_time()
    for argument in arguments:
        call(argument)
    return (time.process_time() - begin) / len(arguments)


def run_case(name: str, capacity: int, rounds: int) -> dict[str, Any]:
    """Fill every engine, then time them alternately."""
    random.seed(0)
    # As numpy and cpprb. On busy cores, torch would mostly wait for a second thread.
    torch.set_num_threads(1)
    data = Data(CASES[name])
    engines: dict[str, Engine] = {}
    missing: dict[str, str] = {}
    size_bytes: dict[str, float] = {}
    for engine_name, make in ENGINES.items():
        if engine_name == "cpprb compressed" and data.stack == 1:
            continue
        gc.collect()
        before = used_bytes("cpu") or 0
        try:
            engine = make(data, capacity)
            for step in range(capacity // ADDED + 8):
                engine.add(step)
            engine.sample(16)
        except (ImportError, RuntimeError) as error:
            missing[engine_name] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            continue
        gc.collect()
        size_bytes[engine_name] = ((used_bytes("cpu") or 0) - before) / capacity
        engines[engine_name] = engine
    adds: dict[str, list[float]] = {engine: [] for engine in engines}
    samples: dict[str, dict[int, list[float]]] = {e: {b: [] for b in BATCHES} for e in engines}
    for round_ in range(rounds):
        for engine_name, engine in engines.items():
            seconds = timed(engine.add, range(round_ * 8, round_ * 8 + 8))
            adds[engine_name].append(seconds / ADDED)
            for batch in BATCHES:
                engine.sample(batch)  # warm-up
                repeats = max(1, 128 // batch)
                samples[engine_name][batch].append(timed(engine.sample, [batch] * repeats))

    def ratio(mine: list[float], other: list[float]) -> float:
        return round(statistics.median(b / a for a, b in zip(mine, other, strict=True)), 3)

    def median_us(times: list[float], digits: int) -> float:
        return round(statistics.median(times) * 1e6, digits)

    found = {}
    for engine_name in engines:
        ours, mine = baseline(engine_name), samples[engine_name]
        found[engine_name] = {
            "bytes_per_transition": round(size_bytes[engine_name], 1),
            "add_us_per_transition_median": median_us(adds[engine_name], 3),
            "add_time_over_cule": ratio(adds[ours], adds[engine_name]),
            "sample_us_median": {batch: median_us(mine[batch], 1) for batch in BATCHES},
            "sample_time_over_cule": {
                batch: ratio(samples[ours][batch], mine[batch]) for batch in BATCHES
            },
        }
    return {"case": name, "capacity": capacity, "engines": found, "missing": missing}


def version(package: str) -> str:
    """Version of a package or its nightly build; "missing" if it is not installed."""
    for name in (package, f"{package}-nightly"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "missing"


def table(case: dict[str, Any]) -> str:
    """A Markdown table of a case: times over those of cule, so more than 1 is slower."""
    head = ["engine", "bytes per transition", "add us", "add x", *(f"B={b} x" for b in BATCHES)]
    lines = [f"**{case['case']}**, {case['capacity']:,} transitions", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, row in case["engines"].items():
        is_ours = name == baseline(name)
        cells = [
            name,
            f"{row['bytes_per_transition']:,.0f}",
            f"{row['add_us_per_transition_median']:.2f}",
            "1" if is_ours else f"{row['add_time_over_cule']:.2f}",
        ]
        for batch in BATCHES:
            us, ratio = row["sample_us_median"][batch], row["sample_time_over_cule"][batch]
            cells.append(f"{us:,.0f} us" if is_ours else f"{ratio:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"\n{name} is missing: {why}" for name, why in case["missing"].items()]
    return "\n".join(lines)


def main() -> None:
    """Run all cases, print tables, and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds (%(default)s)")
    parser.add_argument("--pixels", type=int, default=10_000, help="capacity (%(default)s)")
    parser.add_argument("--states", type=int, default=200_000, help="capacity (%(default)s)")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    record = {
        **conditions(vars(options)),
        "versions": {package: version(package) for package in ("torchrl", "tensordict", "cpprb")},
        "cases": [],
    }
    context = multiprocessing.get_context("spawn")
    for name, capacity in zip(CASES, (options.pixels, options.states), strict=True):
        with context.Pool(1) as pool:  # a new process, for its memory
            case = pool.apply(run_case, (name, capacity, options.rounds))
        print(table(case), flush=True)
        record["cases"].append(case)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\n{options.out}")


if __name__ == "__main__":
    main()
