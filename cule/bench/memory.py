"""Memory of an environment: the slope between two batch sizes, without what they share.

Each batch has its own process, ``python -m cule.bench.memory ENGINE GAME NUM_ENVS``, which prints
the bytes that the batch added to the process or, on a GPU, took from the device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cule.bench.engines import Engine, EngineConfig, is_cuda, make_engine

#: Batch sizes, by device.
CPU_ENVS = (8, 40)
CUDA_ENVS = (1024, 4096)
STEPS = 20


def used_bytes(device: str) -> int | None:
    """Memory in use by this process or on a device; None if unknown."""
    if device != "cpu":
        import torch

        free, total = torch.cuda.mem_get_info()
        return int(total - free)
    path = Path("/proc/self/statm")
    if not path.is_file():
        return None
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_of(name: str, game: str, num_envs: int) -> int | None:
    """Bytes that a batch adds; None if unknown."""
    small = make_engine(EngineConfig(name, game, 2, 1))  # imports, tables
    device = small.device
    _play(small, 1)
    small.close()
    before = used_bytes(device)
    engine = make_engine(EngineConfig(name, game, num_envs, 1))
    _play(engine, STEPS)
    after = used_bytes(device)
    engine.close()
    return None if before is None or after is None else after - before


def _play(engine: Engine, steps: int) -> None:
    engine.reset(0)
    random = np.random.default_rng(0)
    for _ in range(steps):
        row = random.integers(engine.num_actions, size=engine.batch_size, dtype=np.int32)
        engine.step(engine.to_device(row))
    engine.synchronize()


def bytes_per_env(names: Sequence[str], game: str) -> dict[str, int | None]:
    """Bytes per environment of each engine; None if unknown."""
    found: dict[str, int | None] = {}
    for name in names:
        low, high = CUDA_ENVS if is_cuda(name) else CPU_ENVS
        sizes = [_in_a_process(name, game, num_envs) for num_envs in (low, high)]
        if sizes[0] is None or sizes[1] is None:
            found[name] = None
        else:
            found[name] = (sizes[1] - sizes[0]) // (high - low)
    return found


def _in_a_process(name: str, game: str, num_envs: int) -> int | None:
    command = [sys.executable, "-m", "cule.bench.memory", name, game, str(num_envs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    return int(lines[-1]) if done.returncode == 0 and lines and lines[-1] != "None" else None


if __name__ == "__main__":
    print(memory_of(sys.argv[1], sys.argv[2], int(sys.argv[3])))
