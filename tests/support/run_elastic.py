"""A training run of Catch for torchrun: ``torchrun ... run_elastic.py FOLDER TOTAL_STEPS``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from cule.agents import AGENTS, RunOptions, start_run
from cule.agents.parts.distributed import join_world, leave_world, rank, world_size
from tests.support.catch import Catch


class Slow(Catch):
    """Catch that takes a while, so that a test can end a process in the middle."""

    def step_frames(self, actions: object, out: object = None) -> object:
        time.sleep(0.002)
        return super().step_frames(actions, out)


def main(folder: str, total_steps: str) -> None:
    torch.set_num_threads(1)
    join_world(torch.device("cpu"))
    config = AGENTS["ppo"].config_class(
        network="mlp", num_envs=8, num_steps=16, total_steps=int(total_steps), seed=3
    )
    options = RunOptions(
        out=folder,
        resume=True,
        log_every=512,
        checkpoint_every=512,
        eval_episodes=0,
        progress_bar=False,
    )
    # Like environments of the config, those of other seeds in every process.
    run = start_run(AGENTS["ppo"], config, options, env=Slow(8, first_env=8 * rank()))
    print(f"rank {rank()} of {world_size()} begins at {run.agent.steps}", flush=True)
    run.run()
    leave_world()


if __name__ == "__main__":
    main(*sys.argv[1:])
