"""Checkpoints, and the folder of a run that holds them.

A checkpoint is a whole training state; its part for playing is `PolicyState`. A run resumes from
the newest checkpoint in its folder that every process has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_origin, get_type_hints

from torch import Tensor

from cule import __version__
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.distributed import barrier, gather_values, rank, world_size
from cule.agents.run.folders import read_rows, respelt
from cule.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CuleError,
    InvalidArgumentError,
    shown,
)
from cule.reading import as_path
from cule.tensor_files import load_tensors, save_tensors

if TYPE_CHECKING:
    from cule.agents.parts.learner import Learner

#: Options that a resumed run may change.
FREE_OPTIONS = (
    *("total_steps", "device", "env_device", "kernel", "env_threads", "torch_threads"),
    *("cluster", "actor_gpus"),
)


def path_of_rank(path: str | os.PathLike[str]) -> Path:
    """The file of this process: ``NAME.rankR.SUFFIX`` except for rank 0."""
    plain = as_path("path", path)
    return plain if rank() == 0 else plain.with_suffix(f".rank{rank()}{plain.suffix}")


def read_own(path: str | os.PathLike[str]) -> Checkpoint:
    """Read this process's file of a checkpoint, or that of rank 0 of another number of processes.

    Raises:
        FileNotFoundError: There is none.
        CheckpointError: The file is not a checkpoint, or is damaged.
    """
    own = path_of_rank(path)
    if own.exists() or not Path(path).exists():
        return read_checkpoint(own)
    content = read_checkpoint(path)
    return read_checkpoint(own) if content.get("world_size", 1) == world_size() else content


def read_of(algorithm: str, path: str | os.PathLike[str]) -> Checkpoint:
    """`read_own`, also of the newest checkpoint in a folder, which must be of an algorithm."""
    path = as_path("path", path)
    content = read_own(latest_path(path) if path.is_dir() else path)
    if content["algorithm"] != algorithm:
        raise CheckpointError(
            f"{path} is a checkpoint of {shown(content['algorithm'])}; it must be of "
            f"{shown(algorithm)}"
        )
    return content


def without_environments(content: Checkpoint) -> Checkpoint:
    """The part of a checkpoint that any number of processes can continue from, on new episodes."""
    extra = {name: value for name, value in content["extra"].items() if name != "buffer"}
    if "replay" in extra:
        extra["replay"] = None  # refused, so its content does not matter
    return {**content, "has_begun": False, "env": None, "extra": extra}


def policy_state(learner: Learner) -> PolicyState:
    """The part of a checkpoint that playing needs."""
    return {
        "algorithm": learner.name,
        "version": __version__,
        "config": dataclasses.asdict(learner.config),
        "obs_shape": list(learner.setup.obs_shape),
        "num_actions": learner.setup.num_actions,
        "steps": learner.steps,
        "updates": learner.updates,
        "network": learner.network.state_dict(),
    }


def load_state(learner: Learner, content: Checkpoint) -> None:
    """Restore the content of a checkpoint.

    Raises:
        CheckpointError: It is of another algorithm, or was made with other options.
    """
    _check_shapes(learner, content)
    _check_run(learner, content)
    try:
        if content.get("world_size", 1) != world_size():
            content = without_environments(content)
        learner.load_state_dict(content)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, CuleError):
            raise
        raise CheckpointError(f"the checkpoint does not fit: {shown(error)}") from None


def load_weights(learner: Learner, content: PolicyState) -> None:
    """Restore network and counters only, for playing."""
    _check_shapes(learner, content)
    try:
        learner.network.load_state_dict(content["network"])
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"the weights do not fit the network of {type(learner).__name__} (for an agent of your "
            f"own, use --agent MODULE:CLASS): {error}"
        ) from None
    learner.steps, learner.updates = content["steps"], content["updates"]


def _check_shapes(learner: Learner, content: PolicyState) -> None:
    if content["algorithm"] != learner.name:
        raise CheckpointError(
            f"the checkpoint is of {shown(content['algorithm'])}; it must be of "
            f"{shown(learner.name)}"
        )
    for name, saved, own in (
        ("obs_shape", content["obs_shape"], list(learner.setup.obs_shape)),
        ("num_actions", content["num_actions"], learner.setup.num_actions),
    ):
        if saved != own:
            raise CheckpointError(
                f"{name} of the checkpoint is {shown(saved)}; it must be {shown(own)}"
            )


def _check_run(learner: Learner, content: Checkpoint) -> None:
    processes = content.get("world_size", 1)
    is_resized = processes != world_size()
    if is_resized and "replay" in content["extra"]:
        raise CheckpointError(
            f"the checkpoint was made by {processes} processes; there are {world_size()}, and the "
            f"replay memories that they saved cannot be divided: use {processes} processes, or "
            "checkpoints without the memory (--no-save-replay)"
        )
    free = (*FREE_OPTIONS, "num_envs") if is_resized else FREE_OPTIONS
    for item in dataclasses.fields(learner.config):
        name, value = item.name, getattr(learner.config, item.name)
        saved = content["config"].get(name, item.default)  # an option newer than the file
        if name not in free and saved != value:
            raise CheckpointError(
                f"the checkpoint was made with {name} = {shown(saved)}; here it is {shown(value)}"
            )


#: Files of the network alone, which `cule.agents.run.weights` reads.
WEIGHTS_SUFFIX = ".safetensors"

#: Increases when the content of a checkpoint changes its meaning.
FORMAT = 1

#: Options of 0.2.0 that are gone, with the value of runs that did not use them; None: any value.
REMOVED_OPTIONS = {
    "vtrace": False,
    "prio": False,
    "laber": False,
    "laber_candidates": None,
    "uniform_mixture": 0.0,
}


def without_removed_options(
    path: str | os.PathLike[str], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Leave out options of 0.2.0 that are gone, and spell the others as now.

    Raises:
        CheckpointError: The run used one of them.
    """
    for name, unused in REMOVED_OPTIONS.items():
        value = config.get(name, unused)
        if unused is not None and value != unused:
            raise CheckpointError(
                f"{path} was made with {name} = {shown(value)}, an option of cule 0.2.0 that is "
                "gone; use it with that version, or train again without the option"
            )
    return respelt({k: v for k, v in config.items() if k not in REMOVED_OPTIONS})


class PolicyState(TypedDict):
    """The part of a checkpoint that playing needs; a file of weights holds the same."""

    algorithm: str
    version: str
    config: dict[str, object]
    obs_shape: list[int]
    num_actions: int
    steps: int
    updates: int
    network: dict[str, Tensor]


#: Types of its entries.
POLICY_TYPES: dict[str, type] = {
    name: get_origin(kind) or kind for name, kind in get_type_hints(PolicyState).items()
}


class Checkpoint(PolicyState):
    """Content of a checkpoint."""

    optimizer: dict[str, object]
    generator: Tensor
    statistics: Tensor
    metrics: dict[str, Tensor | float]
    world_size: int
    has_begun: bool
    env: object
    """Snapshots of the environments, uint8 ``[N, bytes]``; None before the first step."""
    extra: Mapping[str, object]
    """State of the algorithm, such as its buffer."""


def write_checkpoint(path: str | os.PathLike[str], content: Mapping[str, object]) -> None:
    """Write a checkpoint, replacing an existing file."""
    save_tensors(path, {"format": FORMAT, **content})


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint to the CPU.

    Raises:
        OSError: There is no such file, or it cannot be read.
        CheckpointError: It is not a checkpoint, or is damaged.
    """
    if Path(path).suffix == WEIGHTS_SUFFIX:
        raise CheckpointError(
            f"{path} holds weights, which can only be played (cule eval, cule watch); training "
            "continues from a checkpoint, such as checkpoints/latest.pt of a run"
        )
    content = load_tensors(path)
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(content, dict) or type(found) is not int or found != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of format {FORMAT}")
    return cast(Checkpoint, {**content, **checked_policy(path, content)})


def checked_policy(path: str | os.PathLike[str], content: Mapping[str, object]) -> PolicyState:
    """The part of a file that playing needs, without options that are gone.

    Raises:
        CheckpointError: A part is missing or of another type, or an option has been used.
    """
    for name, kind in POLICY_TYPES.items():
        if type(content.get(name)) not in (kind, OrderedDict if kind is dict else kind):
            raise CheckpointError(
                f"{path}: {name} is {shown(content.get(name))}; it must be a {kind.__name__}"
            )
    state = cast(PolicyState, {name: content[name] for name in POLICY_TYPES})
    if not all(isinstance(weight, Tensor) for weight in state["network"].values()):
        raise CheckpointError(f"{path}: network does not hold tensors alone")
    return {**state, "config": without_removed_options(path, state["config"])}


# --- The folder of a run --------------------------------------------------------------------------


def run_path(out: str, config: AgentConfig, preset: str) -> Path:
    """The folder of a run: `out`, or a default by game, preset and seed."""
    return Path(out or f"runs/{config.game}-{preset}-{config.seed}")


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
    """The file of a path, the newest one in the folder of a run, or that of ``zoo:NAME``."""
    if str(path).startswith("zoo:"):  # imported only then
        from cule.zoo import PREFIX, find_weights

        return find_weights(str(path).removeprefix(PREFIX))
    found = last_checkpoint(path) if path.is_dir() else path
    if found is None:
        raise InvalidArgumentError(f"CHECKPOINT is {shown(str(path))}, a folder without a run")
    if not found.exists():
        raise CheckpointNotFoundError(
            f"CHECKPOINT is {shown(str(path))}; there is no such file or folder"
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
    processes = gather_values(None if first is None else first.get("world_size", 1))[0]
    if processes not in (None, world_size()):
        return gather_values(None if first is None else without_environments(first))[0]
    all_steps = gather_values(sorted(own))
    if not any(all_steps):
        return None
    common = set.intersection(*map(set, all_steps))
    if not common:
        raise CheckpointError(
            f"out is {shown(str(folder))}, where the processes have checkpoints of these steps: "
            f"{all_steps}; to resume, use as many processes as before, each with its own file"
        )
    barrier()
    if len(own) > 1 and max(own) not in common:
        path_of_rank(next_path(folder)).unlink()  # other processes do not have this step
    return own[max(common)]


def seconds_so_far(folder: Path, steps: int) -> tuple[float, float]:
    """Seconds of training, and of everything, up to a step; from the rows of progress."""
    train_s, wall_s = 0.0, 0.0
    for row in read_rows(folder / "progress.csv"):
        with contextlib.suppress(KeyError, ValueError):  # a damaged row is dropped
            if float(row["steps"]) <= steps:
                train_s, wall_s = float(row["train_s"]), float(row["wall_s"])
    return train_s, wall_s
