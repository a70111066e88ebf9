"""The part of a checkpoint that all learners have."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch

from cule.agents.parts.config import ACTING_SEED
from cule.agents.parts.distributed import (
    broadcast_module,
    check_same_on_all_ranks,
    rank,
    world_size,
)
from cule.agents.parts.learner import Learner
from cule.agents.parts.optim import make_capturable
from cule.errors import InvalidArgumentError, StateVersionError, shown, warn


def common(learner: Learner) -> dict[str, Any]:
    """Network, optimizer, counters, random streams and snapshots of the environments."""
    setup = learner.setup
    return {
        "steps": learner.steps,
        "updates": learner.updates,
        "network": learner.network.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "generator": setup.generator.get_state(),
        "statistics": setup.statistics.sums,
        "metrics": dict(learner.metrics),
        "world_size": world_size(),
        "has_begun": learner.has_begun,
        "env": torch.as_tensor(setup.env.get_state()) if learner.has_begun else None,
    }


def load_common(learner: Learner, state: Mapping[str, Any]) -> None:
    """Restore `common`, but for the environments.

    A state of another number of processes gives all of them the state of one.

    Raises:
        InvalidArgumentError: `state` is not a `state_dict` of a learner.
    """
    setup = learner.setup
    if not isinstance(state, Mapping) or not {"network", "optimizer", "extra"} <= state.keys():
        raise InvalidArgumentError(
            f"state is {shown(state)}; it must be what state_dict of a learner returned"
        )
    is_resized = state.get("world_size", 1) != world_size()
    learner.network.load_state_dict(state["network"])
    load_optimizer(learner, learner.optimizer, state["optimizer"])
    setup.graphs.forget()
    setup.generator.manual_seed(setup.seed_of(ACTING_SEED) + state["steps"])
    if not is_resized:
        # RuntimeError: the state of a generator of another type of device.
        with contextlib.suppress(RuntimeError):
            setup.generator.set_state(state["generator"])
    if rank() == 0 or not is_resized:
        setup.statistics.load(state["statistics"])
    saved = state.get("metrics", {})
    learner.metrics = {k: torch.as_tensor(v, device=setup.device) for k, v in saved.items()}
    learner.steps, learner.updates = state["steps"], state["updates"]
    check_same_on_all_ranks("steps and updates of the checkpoint", (learner.steps, learner.updates))
    broadcast_module(learner.network)


def load_optimizer(
    learner: Learner, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Restore an optimizer, which may have been saved on a GPU."""
    optimizer.load_state_dict(state)
    device = learner.setup.device
    if device.type == "cpu":
        for group in optimizer.param_groups:
            group["lr"] = float(group["lr"])
            for name in ("capturable", "fused"):
                if name in group:
                    group[name] = optimizer.defaults[name]
    if learner.config.cuda_graphs:
        make_capturable(optimizer, device)


def resume_env(learner: Learner, state: Mapping[str, Any], *, has_buffer: bool) -> None:
    """Restore the environments.

    Without a buffer, without states, or with states of another version of their format, new
    episodes begin.
    """
    has_states = getattr(learner.setup.env, "has_states", True)
    learner.has_begun = state["has_begun"] and has_buffer and has_states
    if learner.has_begun:
        try:
            learner.setup.env.set_state(state["env"])
        except StateVersionError as error:
            warn(f"new episodes begin, because the environments cannot continue: {error}")
            learner.has_begun = False


def with_rollout(learner: Any, **extra: object) -> dict[str, Any]:
    """The state of a learner with rollouts, and what else it has."""
    if learner.has_begun:
        extra["buffer"] = learner.buffer.state_dict()
    return {**common(learner), "extra": extra}


def load_with_rollout(learner: Any, state: Mapping[str, Any]) -> None:
    """Restore `with_rollout`, but for what else there is; without a buffer, new episodes begin."""
    load_common(learner, state)
    saved = state["extra"].get("buffer")
    if saved is not None:
        learner.buffer = learner.make_buffer()
        learner.buffer.load_state_dict(saved)
    resume_env(learner, state, has_buffer=saved is not None)


def with_memory(learner: Any, *, replay: bool, **extra: object) -> dict[str, Any]:
    """The state of a learner with a memory and a target network; `replay`: with the memory."""
    extra |= {"target": learner.target.state_dict(), "pending_samples": learner.credit.pending}
    if replay and learner.has_begun:
        extra["replay"] = learner.replay.state_dict()
    return {**common(learner), "extra": extra}


def load_with_memory(learner: Any, state: Mapping[str, Any]) -> None:
    """Restore `with_memory`; without a memory, new episodes fill a new one."""
    load_common(learner, state)
    extra = state["extra"]
    learner.target.load_state_dict(extra["target"])
    learner.credit.pending = extra["pending_samples"]
    if "replay" in extra:
        learner.replay = learner.make_replay()
        learner.replay.load_state_dict(extra["replay"])
    resume_env(learner, state, has_buffer="replay" in extra)
