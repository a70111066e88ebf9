"""An Ape-X run of Catch on a cluster as a process of its own: ``run_cluster.py ADDRESS FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from cule.agents import ApexConfig, ApexDQN, RunOptions, start_run
from tests.support.catch import Catch
from tests.support.learners import SMALL

OPTIONS: dict[str, Any] = {
    **SMALL["apex-dqn"].options,
    "num_envs": 8,
    "num_actors": 3,
    "replay_shards": 2,
    "block_size": 40,
    "learning_starts": 640,
    "memory": 24_000,
}


def catch_of_actor(config: Any, index: int) -> Catch:
    """Games of an actor; a function that can be pickled."""
    return Catch(config.num_envs, first_env=100 * index)


class CatchApex(ApexDQN):
    """Ape-X whose actors play Catch."""

    def __init__(self, config: Any, env: Any = None, network: Any = None) -> None:
        super().__init__(config, env, env_factory=catch_of_actor, network=network)


def main(address: str, folder: str) -> None:
    torch.set_num_threads(1)
    config = ApexConfig(**OPTIONS, cluster=address, total_steps=6_000)
    options = RunOptions(
        out=folder,
        resume=True,
        checkpoint_every=1_000,
        log_every=500,
        eval_episodes=0,
        progress_bar=False,
    )
    run = start_run(CatchApex, config, options, env=Catch(1))
    print("begins at", run.agent.steps, flush=True)
    print("complete" if run.run() else "stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
