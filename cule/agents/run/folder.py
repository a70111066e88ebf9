"""The folder of a run: its checkpoints, and what a resumed run reads from it."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from cule.agents.parts.config import AgentConfig
from cule.agents.parts.distributed import barrier, gather_values, rank, world_size
from cule.agents.run.checkpoint import (
    Checkpoint,
    num_processes,
    path_of_rank,
    read_checkpoint,
    without_environments,
)
from cule.errors import CheckpointError, CheckpointNotFoundError, InvalidArgumentError

#: All options of a run: those of the algorithm, ``algorithm``, ``preset``, and ``run``.
CONFIG_FILE = "config.json"


def run_path(out: str, config: AgentConfig, preset: str) -> Path:
    """The folder of a run: `out`, or a default by game, preset and seed."""
    return Path(out or f"runs/{config.game}-{preset}-{config.seed}")


def read_config(folder: Path) -> dict[str, Any] | None:
    """The content of the `CONFIG_FILE` of a run; None without one."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        if isinstance(content, dict) and isinstance(content.get("algorithm"), str):
            return content
    except (OSError, ValueError):
        pass
    raise CheckpointError(f"{path} does not hold the options of a run")


def latest_path(folder: Path) -> Path:
    """Path of the newest checkpoint."""
    return folder / "checkpoints" / "latest.pt"


def next_path(folder: Path) -> Path:
    """Path of the next checkpoint until all processes have written theirs."""
    return folder / "checkpoints" / "next.pt"


def check_writable(folder: Path) -> None:
    """Require that a folder can be created and written to, without creating it."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        reason = "is not writable" if existing.is_dir() else "is not a folder"
        raise InvalidArgumentError(f"the folder of the run is {folder}; {existing} {reason}")


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run (the file of rank 0); None without one."""
    return next((path for path in (latest_path(folder), next_path(folder)) if path.exists()), None)


def find_checkpoint(path: Path) -> Path:
    """The checkpoint of a path: the file itself, or the newest one in the folder of a run."""
    found = last_checkpoint(path) if path.is_dir() else path
    if found is None:
        raise InvalidArgumentError(f"CHECKPOINT is {str(path)!r}, a folder without a run")
    if not found.exists():
        raise CheckpointNotFoundError(
            f"CHECKPOINT is {str(path)!r}; there is no such file or folder"
        )
    return found


def read_newest(folder: Path) -> Checkpoint | None:
    """Read this process's file of the newest checkpoint that every process has, or None.

    With another number of processes than before, all get that of rank 0 on new episodes.
    """
    own: dict[int, Checkpoint] = {}
    for path in filter(Path.exists, map(path_of_rank, (latest_path(folder), next_path(folder)))):
        try:
            content = read_checkpoint(path)
        except CheckpointError:
            if not own:
                raise
        else:
            own[content["steps"]] = content
    first = own[max(own)] if rank() == 0 and own else None
    processes = gather_values(None if first is None else num_processes(first))[0]
    if processes not in (None, world_size()):
        return gather_values(None if first is None else without_environments(first))[0]
    all_steps = gather_values(sorted(own))
    if not any(all_steps):
        return None
    common = set.intersection(*map(set, all_steps))
    if not common:
        raise CheckpointError(
            f"out is {str(folder)!r}, where the processes have checkpoints of these steps: "
            f"{all_steps}; to resume, use as many processes as before, each with its own file"
        )
    barrier()
    if len(own) > 1 and max(own) not in common:
        path_of_rank(next_path(folder)).unlink()  # other processes do not have this step
    return own[max(common)]


def seconds_so_far(folder: Path, steps: int) -> tuple[float, float]:
    """Seconds of training, and of everything, up to a step; from the rows of progress."""
    path = folder / "progress.csv"
    train_s, wall_s = 0.0, 0.0
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row.get("steps") and float(row["steps"]) <= steps and row.get("wall_s"):
                    train_s, wall_s = float(row["train_s"]), float(row["wall_s"])
    return train_s, wall_s
