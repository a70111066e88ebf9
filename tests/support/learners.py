"""Small configurations of every learner, with which it solves Catch in seconds."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

from cule.agents import AGENTS, Learner
from cule.agents.parts import setup
from cule.agents.parts.setup import Setup
from cule.replay import native
from tests.support.catch import Catch
from tests.support.recorded_graph import as_one_operation


@dataclass(frozen=True)
class Small:
    """A small learner and how well it does."""

    options: dict[str, Any]
    steps: int  # after which the mean return of 100 games is at least `reaches`
    reaches: float = 0.5
    algorithm: str = ""  # if it is not the name


_NET = {"network": "mlp", "seed": 1}
_RMSPROP = {"learning_rate": 2e-3, "rmsprop_eps": 1e-10}
_REPLAY = {
    **_NET,
    "num_envs": 16,
    "learning_rate": 1e-3,
    "memory": 20_000,
    "learning_starts": 300,
    "target_interval": 50,
    "samples_per_insert": 4.0,
}

SMALL: dict[str, Small] = {
    "a2c": Small({**_NET, **_RMSPROP, "num_envs": 16}, 8_000),
    "vtrace": Small({**_NET, **_RMSPROP, "num_envs": 32, "num_steps": 8, "num_batches": 8}, 12_800),
    "vtrace-lstm": Small(
        {
            **_NET,
            **_RMSPROP,
            "num_envs": 32,
            "num_steps": 8,
            "num_batches": 4,
            "memory_size": 32,
        },
        12_800,
    ),
    "ppo": Small(
        {
            **_NET,
            "num_envs": 16,
            "num_steps": 16,
            "learning_rate": 2.5e-3,
            "clip_range": 0.2,
            "learning_rate_schedule": "constant",
        },
        4_096,
    ),
    "ppo-lstm": Small(
        {
            **_NET,
            "num_envs": 16,
            "num_steps": 16,
            "sequence_length": 8,
            "memory_size": 32,
            "learning_rate": 2.5e-3,
            "clip_range": 0.2,
            "learning_rate_schedule": "constant",
        },
        6_144,
    ),
    "ppo-rnd": Small(
        {
            **_NET,
            "num_envs": 16,
            "num_steps": 16,
            "gamma": 0.99,
            "learning_rate": 2.5e-3,
            "clip_range": 0.2,
            "learning_rate_schedule": "constant",
        },
        4_096,
    ),
    "ppo-continuous": Small(
        {
            **_NET,
            "num_envs": 16,
            "num_steps": 16,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
            "learning_rate_schedule": "constant",
            "continuous": True,
        },
        10_240,
        reaches=0.7,
        algorithm="ppo",
    ),
    "pqn": Small(
        {
            **_NET,
            "num_envs": 16,
            "num_steps": 16,
            "num_minibatches": 4,
            "learning_rate": 1e-3,
            "exploration_fraction": 0.5,
        },
        9_600,
    ),
    "dqn": Small({**_REPLAY, "epsilon_steps": 3_000}, 5_600),
    "apex-dqn": Small(
        {**_REPLAY, "optimizer": "adam", "optimizer_eps": 1e-8, "batch_size": 64, "sync_steps": 10},
        4_400,
    ),
    "apex-dpg": Small(
        {
            **_REPLAY,
            "batch_size": 32,
            "n_step": 3,
            "sync_steps": 10,
            "samples_per_insert": 8.0,
            "learning_rate": 3e-3,
            "random_action_probability": 0.2,
        },
        5_040,
    ),
    "apex-dqn-overlap": Small(
        {
            **_REPLAY,
            "optimizer": "adam",
            "optimizer_eps": 1e-8,
            "batch_size": 64,
            "sync_steps": 10,
            "overlap": True,
        },
        4_400,
        algorithm="apex-dqn",
    ),
    "iqn": Small(
        {**_REPLAY, "epsilon_steps": 3_000, "num_quantiles": 8, "num_target_quantiles": 8}, 5_600
    ),
    "btr": Small(
        {
            **_REPLAY,
            "epsilon_steps": 1_000,
            "num_quantiles": 8,
            "num_target_quantiles": 8,
            "num_acting_quantiles": 8,
            "munchausen": 0.9,
            "dueling": True,
            "noisy": True,
            "prioritized": True,
            "alpha": 0.2,
            "beta_start": 0.2,
            "beta_end": 0.2,
        },
        8_000,
        algorithm="iqn",
    ),
    "rainbow": Small({**_REPLAY, "v_min": -2.0, "v_max": 2.0, "num_atoms": 21}, 4_000),
}


def allow_graphs_on_cpu(patch: pytest.MonkeyPatch) -> None:
    """Let learners on a CPU have graphs; `record_graphs` makes them."""
    patch.setattr(native, "is_used", lambda device: False)
    patch.setattr(setup, "check_graphs", lambda *_: None)
    patch.setattr(Setup, "step_env", as_one_operation(Setup.step_env))
    for name in ("adam", "rmsprop", "radam"):
        module = importlib.import_module(f"torch.optim.{name}")
        patch.setattr(module, "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])


def class_of(name: str) -> type[Learner]:
    """The class of a small learner."""
    return AGENTS[SMALL[name].algorithm or name]


def small_env(name: str, num_envs: int = 0, **options: Any) -> Catch:
    """Catch with the actions of a small learner, by default with as many games as it has."""
    config = class_of(name).config_class(**SMALL[name].options)
    return Catch(num_envs or config.num_envs, continuous=config.continuous, **options)


def small_learner(name: str, *, env: Any = None, **changes: Any) -> Any:
    """A small learner of Catch, some of its options changed."""
    small = SMALL[name]
    config = class_of(name).config_class(**{"total_steps": small.steps, **small.options, **changes})
    return class_of(name)(config, env or small_env(name, config.num_envs))


def collect(agent: Any, num_steps: int) -> None:
    """Play steps of all environments, as a round does before it learns."""
    for _ in range(num_steps):
        agent.play_step()
    agent.steps += num_steps * agent.setup.total_envs
