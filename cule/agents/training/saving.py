"""Saving and loading agents: whole training states, and weights for playing.

These functions are methods of `cule.agents.Agent`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cule import __version__
from cule.agents.training.checkpoint import (
    Checkpoint,
    PolicyState,
    read_checkpoint,
    write_checkpoint,
)
from cule.agents.training.distributed import (
    broadcast_module,
    check_same_on_all_ranks,
    rank,
    world_size,
)
from cule.agents.training.graphs import make_capturable
from cule.agents.training.seeds import ACTING_SEED
from cule.agents.training.weights import write_weights
from cule.errors import CheckpointError

if TYPE_CHECKING:
    from cule.agents.agent import Agent


#: Options that a resumed run may change.
FREE_OPTIONS = (
    *("total_steps", "device", "env_device", "kernel", "env_threads", "torch_threads"),
    *("cluster", "actor_gpus"),
)


def path_of_rank(path: str | os.PathLike[str]) -> Path:
    """The file of this process: ``NAME.rankR.SUFFIX`` except for rank 0."""
    plain = Path(path)
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
    return read_checkpoint(own) if num_processes(content) == world_size() else content


def num_processes(content: Checkpoint) -> int:
    """The number of processes that made a checkpoint."""
    return content.get("world_size", 1)


def without_environments(content: Checkpoint) -> Checkpoint:
    """The part of a checkpoint that any number of processes can continue from, on new episodes."""
    extra = {name: value for name, value in content["extra"].items() if name != "buffer"}
    if "replay" in extra:
        extra["replay"] = None  # refused, so its content does not matter
    return {**content, "has_begun": False, "env": None, "extra": extra}


def save(agent: Agent, path: str | os.PathLike[str], *, replay: bool = True) -> None:
    """Write a checkpoint. The file is either complete or absent.

    Args:
        agent: The agent.
        path: Target. Processes of rank R > 0 write ``NAME.rankR.SUFFIX`` next to it.
        replay: Include the replay memory of algorithms that have one. Without it a resumed run
            fills a new memory first.

    Raises:
        OSError: The file cannot be written.
    """
    content: Checkpoint = {
        **_policy_state(agent),
        "optimizer": agent.optimizer.state_dict(),
        "generator": agent.generator.get_state(),
        "statistics": agent.statistics.sums,
        "metrics": dict(agent.metrics),
        "world_size": world_size(),
        "has_begun": agent._has_begun,
        "env": torch.as_tensor(agent.env.get_state()) if agent._has_begun else None,
        "extra": agent.extra_state(replay=replay),
    }
    write_checkpoint(path_of_rank(path), content)


def save_weights(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write the network alone, as safetensors. The file is either complete or absent.

    Args:
        agent: The agent.
        path: Target, ``NAME.safetensors``.

    Raises:
        OSError: The file cannot be written.
        MissingPackageError: safetensors is not installed.
    """
    write_weights(path, _policy_state(agent))


def _policy_state(agent: Agent) -> PolicyState:
    return {
        "algorithm": agent.name,
        "version": __version__,
        "config": dataclasses.asdict(agent.config),
        "obs_shape": list(agent.obs_shape),
        "num_actions": agent.num_actions,
        "steps": agent.steps,
        "updates": agent.updates,
        "network": agent.network.state_dict(),
    }


def load_state(agent: Agent, content: Checkpoint) -> None:
    """Restore the content of a checkpoint."""
    _check_shapes(agent, content)
    _check_run(agent, content)
    is_resized = num_processes(content) != world_size()
    if is_resized:
        content = without_environments(content)
    agent.network.load_state_dict(content["network"])
    agent.optimizer.load_state_dict(content["optimizer"])
    if agent.device.type == "cpu":
        for group in agent.optimizer.param_groups:  # may have been saved on a GPU
            group["lr"] = float(group["lr"])
            for name in ("capturable", "fused"):
                if name in group:
                    group[name] = agent.optimizer.defaults[name]
    if agent.config.cuda_graphs:
        make_capturable(agent.optimizer, agent.device)
    for call in agent._captured:
        call.forget()
    agent.generator.manual_seed(agent.seed_of(ACTING_SEED) + content["steps"])
    if not is_resized:  # otherwise all processes have the state of one
        # RuntimeError: the state of a generator of another type of device.
        with contextlib.suppress(RuntimeError):
            agent.generator.set_state(content["generator"])
    if rank() == 0 or not is_resized:
        agent.statistics.load(content["statistics"])
    saved = content.get("metrics", {})
    agent.metrics = {k: torch.as_tensor(v, device=agent.device) for k, v in saved.items()}
    agent.steps, agent.updates = content["steps"], content["updates"]
    check_same_on_all_ranks("steps and updates of the checkpoint", (agent.steps, agent.updates))
    broadcast_module(agent.network)
    is_complete = agent.load_extra_state(content["extra"])
    has_states = getattr(agent.env, "has_states", True)  # otherwise new episodes begin
    agent._has_begun = content["has_begun"] and is_complete and has_states
    if agent._has_begun:
        agent.env.set_state(content["env"])


def load_weights(agent: Agent, content: PolicyState) -> None:
    """Restore network and counters only, for playing."""
    _check_shapes(agent, content)
    try:
        agent.network.load_state_dict(content["network"])
    except RuntimeError as error:
        raise CheckpointError(
            f"the weights do not fit the network of {type(agent).__name__} (for an agent of your "
            f"own, use --agent MODULE:CLASS): {error}"
        ) from None
    agent.steps, agent.updates = content["steps"], content["updates"]


def _check_shapes(agent: Agent, content: PolicyState) -> None:
    if content["algorithm"] != agent.name:
        raise CheckpointError(
            f"the checkpoint is of {content['algorithm']!r}; it must be of {agent.name!r}"
        )
    for name, saved, own in (
        ("obs_shape", content["obs_shape"], list(agent.obs_shape)),
        ("num_actions", content["num_actions"], agent.num_actions),
    ):
        if saved != own:
            raise CheckpointError(f"{name} of the checkpoint is {saved}; it must be {own}")


def _check_run(agent: Agent, content: Checkpoint) -> None:
    processes = num_processes(content)
    is_resized = processes != world_size()
    if is_resized and "replay" in content["extra"]:
        raise CheckpointError(
            f"the checkpoint was made by {processes} processes; there are {world_size()}, and the "
            f"replay memories that they saved cannot be divided: use {processes} processes, or "
            "checkpoints without the memory (--no-save-replay)"
        )
    free = (*FREE_OPTIONS, "num_envs") if is_resized else FREE_OPTIONS
    for item in dataclasses.fields(agent.config):
        name, value = item.name, getattr(agent.config, item.name)
        saved = content["config"].get(name, item.default)  # an option newer than the file
        if name not in free and saved != value:
            raise CheckpointError(
                f"the checkpoint was made with {name} = {saved!r}; here it is {value!r}"
            )
