"""Named sets of options: what papers and libraries used, and where to start on other machines.

Names without a suffix reproduce published settings (docs/agents says from where); "-gpu" is a
starting point for GPUs that has not been tuned, "-cpu" one for a few cores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cule.agents.a2c import A2C
from cule.agents.apex import ApexDQN
from cule.agents.apex_dpg import ApexDPG
from cule.agents.base import Agent
from cule.agents.dqn import DQN, Rainbow
from cule.agents.environment import FrameEnv
from cule.agents.options import config_from
from cule.agents.ppo import PPO
from cule.agents.pqn import PQN
from cule.agents.vtrace import VTrace
from cule.errors import CheckpointError

#: Learners by the name that their checkpoints carry.
AGENTS: dict[str, type[Agent]] = {
    agent.name: agent for agent in (A2C, VTrace, PPO, PQN, DQN, Rainbow, ApexDQN, ApexDPG)
}


@dataclass(frozen=True)
class Preset:
    """An algorithm, and options that differ from its defaults."""

    algorithm: str
    """Key of `AGENTS`."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Values by name of option."""


#: Small nets, small batches: what a few CPU cores can learn Pong with.
_CPU = {"network": "small", "img_size": 42, "num_envs": 64, "torch_threads": 1}

#: Options that do not matter to a learner that only plays, as such that no machine refuses.
_TRAINING_ONLY = {
    "compile": False,
    "cuda_graphs": False,
    "num_minibatches": 1,
    "num_batches": 1,
    "learning_starts": 1,
    "num_actors": 0,
}

#: What `cule train` takes.
PRESETS: dict[str, Preset] = {
    "a2c": Preset("a2c"),
    "a2c-cpu": Preset("a2c", {**_CPU, "learning_rate": 1e-3, "value_coef": 0.5}),
    "vtrace": Preset("vtrace"),
    "vtrace-gpu": Preset(
        "vtrace",
        {
            "num_envs": 4096,
            "num_batches": 16,
            "num_steps": 16,
            "learning_rate": 1.2e-3,
            "precision": "bf16",
        },
    ),
    "vtrace-impala": Preset(
        "vtrace",
        {
            "num_envs": 320,
            "num_batches": 10,
            "steps_per_update": 2.0,
            "network": "impala",
            "initialisation": "orthogonal",
            "normalize_obs": False,
            "learning_rate": 6e-4,
            "anneal_learning_rate": True,
            "rmsprop_eps": 0.01,
            "reduction": "sum",
            "max_grad_norm": 40.0,
        },
    ),
    "vtrace-cpu": Preset(
        "vtrace",
        {
            **_CPU,
            "initialisation": "orthogonal",
            "normalize_obs": False,
            "num_batches": 4,
            "steps_per_update": 1.0,
            "learning_rate": 7e-4,
            "anneal_learning_rate": True,
            "entropy_coef": 0.003,
            "total_steps": 8_000_000,
        },
    ),
    "ppo": Preset("ppo", {"num_envs": 8}),
    "ppo-cule": Preset(
        "ppo",
        {
            "num_envs": 256,
            "num_steps": 4,
            "learning_rate": 5e-4,
            "anneal_learning_rate": False,
            "total_steps": 50_000_000,
        },
    ),
    "ppo-gpu": Preset(
        "ppo",
        {
            "num_envs": 1024,
            "num_steps": 32,
            "num_epochs": 3,
            "num_minibatches": 8,
            "learning_rate": 7e-4,
            "precision": "bf16",
        },
    ),
    "ppo-gpu-16k": Preset(
        "ppo",
        {
            "num_envs": 16_384,
            "num_steps": 16,
            "num_epochs": 2,
            "num_minibatches": 16,
            "learning_rate": 1e-3,
            "total_steps": 50_000_000,
            "precision": "bf16",
        },
    ),
    "ppo-cpu": Preset(
        "ppo",
        {
            "network": "nips",
            "stack_num": 2,
            "num_envs": 16,
            "torch_threads": 1,
            "num_steps": 128,
            "num_epochs": 3,
            "num_minibatches": 8,
            "learning_rate": 4e-4,
            "total_steps": 5_000_000,
        },
    ),
    "pqn": Preset("pqn"),
    "pqn-gpu": Preset(
        "pqn",
        {
            "num_envs": 2048,
            "num_minibatches": 16,
            "learning_rate": 1e-3,
            "precision": "bf16",
        },
    ),
    "dqn": Preset("dqn"),
    "dqn-nature": Preset(
        "dqn",
        {
            "optimizer": "rmsprop",
            "learning_rate": 2.5e-4,
            "optimizer_eps": 0.01,
            "epsilon_end": 0.1,
            "epsilon_steps": 1_000_000,
            "target_interval": 2500,
            "learning_starts": 50_000,
        },
    ),
    "dqn-gpu": Preset(
        "dqn",
        {
            "num_envs": 1024,
            "batch_size": 512,
            "samples_per_insert": 4.0,
            "learning_rate": 2.5e-4,
            "n_step": 3,
            "double": True,
            "exploration": "ladder",
            "learning_starts": 100_000,
            "memory": 2_000_000,
            "max_grad_norm": 10.0,
            "precision": "bf16",
        },
    ),
    "apex-dqn": Preset("apex-dqn"),
    "apex-dqn-gpu": Preset("apex-dqn", {"num_envs": 4096, "precision": "bf16"}),
    "apex-dpg": Preset("apex-dpg"),
    "rainbow": Preset("rainbow"),
    "rainbow-fast": Preset(
        "rainbow",
        {
            "num_envs": 256,
            "batch_size": 256,
            "samples_per_insert": 4.0,
            "learning_rate": 2.5e-4,
            "optimizer_eps": 0.005 / 256,
            "learning_starts": 100_000,
            "precision": "bf16",
        },
    ),
}


def load_to_play(content: Mapping[str, Any], env: FrameEnv, device: str = "cpu") -> Agent:
    """A learner with the weights of a checkpoint, and without what only training needs.

    Args:
        content: What `read_to_play` returned.
        env: Environments like those that it was trained in; only their spaces are looked at.
        device: Of the network.

    Raises:
        CheckpointError: An unknown algorithm, or another shape.
    """
    config = checkpoint_config(content, device=device, env_device="")
    agent = AGENTS[content["algorithm"]](config, env)
    agent.load_weights(content)
    return agent


def checkpoint_config(content: Mapping[str, Any], **changes: Any) -> Any:
    """The options of a checkpoint to play with: some changed, and none that only training needs.

    Raises:
        CheckpointError: An algorithm that is not known here, or options that are none.
    """
    name = content.get("algorithm")
    if name not in AGENTS:
        raise CheckpointError(
            f"the checkpoint is one of {name!r}; known algorithms: {', '.join(sorted(AGENTS))}"
        )
    config_class = AGENTS[name].config_class
    known = {item.name for item in dataclasses.fields(config_class)}
    plain = {name: value for name, value in _TRAINING_ONLY.items() if name in known}
    try:
        plain["seed"] = content["config"]["seed"] % 2**30  # of files with larger ones too
        return config_from(config_class, {**content["config"], **plain, **changes})
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint's options are none of {name}: {error!r}") from None
