"""Small training runs in a folder, and their rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from cule.agents import RunOptions, start_run
from cule.agents.run.run import Run
from tests.support.learners import SMALL, class_of, small_env

#: Columns of the rows of progress that depend on the clock.
TIME_COLUMNS = (
    *("train_s", "wall_s", "steps_per_s", "frames_per_s", "updates_per_s"),
    *("act_share", "emulate_share", "learn_share"),
)


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Rows of progress, without what depends on the clock."""
    with (folder / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if k not in TIME_COLUMNS} for row in rows]


def start(
    name: str, folder: Path, *, resume: bool = False, steps: int = 1920, **changes: Any
) -> Run:
    options = {**SMALL[name].options, "total_steps": steps, **changes}
    config = class_of(name).config_class(**options)
    run_options = RunOptions(
        out=str(folder),
        resume=resume,
        log_every=320,
        checkpoint_every=640,
        save_replay=True,
        eval_episodes=0,
        progress_bar=False,
    )
    env = small_env(name, config.num_envs)
    return start_run(class_of(name), config, run_options, env=env)
