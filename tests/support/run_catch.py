"""A training run of Catch as a process of its own: ``python run_catch.py ALGO FOLDER [OPTION=VALUE]``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from cule.agents import RunOptions, start_run
from tests.support.learners import SMALL, class_of, small_env


def main(name: str, folder: str, *changes: str) -> None:
    torch.set_num_threads(1)
    options = dict(SMALL[name].options)
    run_options = {"log_every": 320, "checkpoint_every": 640, "eval_episodes": 0}
    for change in changes:
        key, _, value = change.partition("=")
        target = run_options if hasattr(RunOptions, key) else options
        target[key] = ast.literal_eval(value)
    config = class_of(name).config_class(**options)
    env = small_env(name, config.num_envs)
    run = start_run(
        class_of(name), config, RunOptions(out=folder, progress_bar=False, **run_options), env=env
    )
    print("begins at", run.agent.steps, flush=True)
    print("complete" if run.run() else "stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
