"""Record and replay datasets as action logs, and compare their size with that of stored frames.

Random play of several games is recorded with `cule.datasets`, and played again: to RAM, and to the
stacks that learners read. Both compare the digests of the recording on the way. Frames that were
stored instead are counted once each, 84 x 84 gray: as they are, and compressed (zlib, level 1),
measured on the frames of some steps of the same play. One thread. Steps are agent steps of four
frames.

    python benchmarks/datasets.py --steps 1000000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import cule
from cule.bench.machine import conditions
from cule.datasets import Recorder, open_dataset

RECORD = Path(__file__).parent / "results" / "datasets.json"
FRAME_BYTES = 84 * 84
#: Steps whose frames are compressed, for each environment, and how many environments.
SAMPLED_STEPS, SAMPLED_ENVS = 200, 8


def record(game: str, path: Path, num_envs: int, steps: int) -> float:
    """Record random play; return the seconds."""
    env = cule.AtariVectorEnv(
        game, num_envs, obs_type="ram", num_threads=1, reward_clipping=False, episode_info=True
    )
    recorder, rng = Recorder(env), np.random.default_rng(0)
    start = time.perf_counter()
    recorder.reset(seed=0)
    for _ in range(-(-steps // num_envs)):
        recorder.step(rng.integers(len(env.action_set), size=num_envs))
    recorder.save(path)
    seconds = time.perf_counter() - start
    env.close()
    return seconds


def replay(path: Path, num_envs: int, **options: Any) -> tuple[int, float]:
    """Play a dataset; return its steps and the seconds."""
    dataset, steps = open_dataset(path), 0
    start = time.perf_counter()
    for step in dataset.replay(num_envs=num_envs, num_threads=1, **options):
        steps += len(step.action)
    return steps, time.perf_counter() - start


def compressed_bytes(path: Path) -> float:
    """Bytes of a frame, compressed with those of 100 steps of its environment."""
    dataset = open_dataset(path)
    frames: list[Any] = []
    options = {"obs_type": "image", "stack_num": 1, "num_threads": 1}
    for step in dataset.replay(num_envs=SAMPLED_ENVS, **options):
        frames.append(step.obs[:, 0].copy())
        if len(frames) == SAMPLED_STEPS:
            break
    blocks = np.stack(frames, axis=1).reshape(-1, 100, FRAME_BYTES)
    return sum(len(zlib.compress(block.tobytes(), 1)) for block in blocks) / blocks[..., 0].size


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", default="pong,breakout,seaquest,ms_pacman,montezuma_revenge")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write")
    arguments = parser.parse_args()
    written: dict[str, Any] = {
        **conditions(vars(arguments)),
        "games": {},
    }
    for game in arguments.games.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.cule"
            record_s = record(game, path, arguments.num_envs, arguments.steps)
            steps, ram_s = replay(path, arguments.num_envs, obs_type="ram")
            _, obs_s = replay(path, arguments.num_envs, obs_type="image", stack_num=4)
            row = {
                "steps": steps,
                "log_bytes_per_step": path.stat().st_size / steps,
                "frame_bytes_per_step": FRAME_BYTES,
                "compressed_frame_bytes_per_step": compressed_bytes(path),
                "record_s": record_s,
                "replay_ram_s": ram_s,
                "replay_stacks_s": obs_s,
            }
        written["games"][game] = row
        print(game, {name: round(value, 3) for name, value in row.items()}, flush=True)
    arguments.record.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
