"""Algorithms and presets by name, and agents from checkpoints.

Presets without a suffix reproduce published settings (docs/agents gives the sources); "-gpu" is an
untuned starting point for GPUs, "-cpu" one for a few cores.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cule.agents.a2c import A2C
from cule.agents.apex import ApexDQN
from cule.agents.apex_dpg import ApexDPG
from cule.agents.dqn import DQN, IQN, Rainbow
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import FrameEnv, make_env
from cule.agents.parts.learner import Learner
from cule.agents.parts.setup import parse_device
from cule.agents.ppo import PPO
from cule.agents.ppo_lstm import RecurrentPPO
from cule.agents.ppo_rnd import RNDPPO
from cule.agents.pqn import PQN
from cule.agents.run.checkpoint import PolicyState, find_checkpoint, load_weights
from cule.agents.run.weights import read_to_play
from cule.agents.self_play import SelfPlayEnv
from cule.agents.vtrace import VTrace
from cule.agents.vtrace_lstm import RecurrentVTrace
from cule.envs import MultiAgentVectorEnv
from cule.errors import CheckpointError, CuleError, InvalidArgumentError, shown
from cule.games import game_id_of
from cule.option_fields import config_from, options_of
from cule.reading import as_path

#: Algorithms by the names in their checkpoints.
AGENTS: dict[str, type[Learner]] = {
    agent.name: agent
    for agent in (
        *(A2C, VTrace, RecurrentVTrace, PPO, RecurrentPPO, RNDPPO, PQN),
        *(DQN, Rainbow, IQN, ApexDQN, ApexDPG),
    )
}


@dataclass(frozen=True)
class Preset:
    """An algorithm, and options that differ from its defaults."""

    algorithm: str
    """Key of `AGENTS`."""

    options: Mapping[str, object] = field(default_factory=dict)
    """Values by names of options."""

    def options_on(self, device: str) -> Mapping[str, object]:
        """The options with this device; CUDA graphs need one of CUDA."""
        is_cuda = device.startswith("cuda")
        return {k: v for k, v in self.options.items() if is_cuda or k != "cuda_graphs"}


def _preset(algorithm: str, /, **options: object) -> Preset:
    return Preset(algorithm, options)


#: Small networks and batches, with which a few CPU cores learn Pong.
_CPU = {"network": "small", "img_size": 42, "num_envs": 64, "torch_threads": 1}

#: Epsilon of RMSProp, 1e-5 added to the root as PyTorch does. With 1e-5 under the root, steps are
#: those of plain gradients, for which the learning rates of these presets are too low.
_ADDED_TO_ROOT = {"rmsprop_eps": 1e-10}
_CPU_RMSPROP = {**_CPU, **_ADDED_TO_ROOT}

# fmt: off
_IMPALA = {"num_envs": 320, "num_batches": 10, "steps_per_update": 2.0, "network": "impala",
    "initialization": "orthogonal", "normalize_obs": False, "learning_rate": 6e-4,
    "learning_rate_schedule": "linear", "rmsprop_eps": 0.01, "reduction": "sum",
    "max_grad_norm": 40.0}
_VTRACE_CPU = {**_CPU_RMSPROP, "initialization": "orthogonal", "num_batches": 4,
    "steps_per_update": 1.0, "learning_rate": 7e-4, "learning_rate_schedule": "linear",
    "entropy_coef": 0.003, "total_steps": 2_000_000}
_BTR = {"num_envs": 64, "samples_per_insert": 4.0, "n_step": 3, "gamma": 0.997,
    "dueling": True, "noisy": True, "noise_groups": 1, "prioritized": True, "alpha": 0.2,
    "beta_start": 0.2, "beta_end": 0.2, "num_quantiles": 8, "num_target_quantiles": 8,
    "num_acting_quantiles": 8, "munchausen": 0.9, "target_interval": 500, "max_grad_norm": 10.0,
    "noop_max": 30}
# fmt: on

#: Values of options that only training uses, which every machine accepts.
_TRAINING_ONLY: Mapping[str, object] = {
    "compile": False,
    "cuda_graphs": False,
    "env_threads": 0,
    "torch_threads": 0,
    "num_minibatches": 1,
    "num_batches": 1,
    "learning_starts": 1,
    "num_actors": 0,
    "cluster": "",
}

#: Presets of `cule train` by name. That of an algorithm has its defaults, except V-trace's.
# fmt: off
PRESETS: dict[str, Preset] = {
    **{name: _preset(name) for name in AGENTS},
    "a2c-cpu": _preset("a2c", **_CPU_RMSPROP, learning_rate=1e-3, value_coef=0.5),
    "vtrace": _preset("vtrace", **_ADDED_TO_ROOT),
    "vtrace-gpu": _preset("vtrace", **_ADDED_TO_ROOT, num_envs=4096, num_batches=16, num_steps=16,
        learning_rate=1.2e-3, precision="bf16", cuda_graphs=True),
    "vtrace-impala": _preset("vtrace", **_IMPALA),
    "vtrace-cpu": _preset("vtrace", **_VTRACE_CPU, stack_num=2),
    "vtrace-lstm": _preset("vtrace-lstm", **_ADDED_TO_ROOT),
    "vtrace-lstm-impala": _preset("vtrace-lstm", **_IMPALA, episodic_life=True),
    "vtrace-lstm-cpu": _preset("vtrace-lstm", **_VTRACE_CPU, memory_size=128),
    "ppo-cule": _preset("ppo", num_envs=256, num_steps=4, learning_rate=5e-4,
        learning_rate_schedule="constant", total_steps=50_000_000),
    "ppo-gpu": _preset("ppo", network="small", img_size=42, stack_num=2, normalize_obs=True,
        num_envs=1024, num_steps=16, num_epochs=3, num_minibatches=16, learning_rate=1.5e-3,
        clip_range=0.2, clip_values=False, total_steps=2_500_000, precision="bf16",
        cuda_graphs=True),
    "ppo-gpu-16k": _preset("ppo", num_envs=16_384, num_steps=16, num_epochs=2, num_minibatches=16,
        learning_rate=1e-3, clip_values=False, total_steps=50_000_000, precision="bf16",
        cuda_graphs=True),
    "ppo-cpu": _preset("ppo", **_CPU | {"num_envs": 32}, num_steps=64, stack_num=2,
        normalize_obs=True, num_epochs=3, num_minibatches=8, learning_rate=1.5e-3, clip_range=0.2,
        clip_values=False, total_steps=800_000),
    "ppo-objects": _preset("ppo", obs_type="objects", network="relations", torch_threads=1,
        num_envs=128, num_steps=32, stack_num=2, num_epochs=3, num_minibatches=8,
        learning_rate=3e-3, gae_lambda=0.98, clip_range=0.2, clip_values=False,
        total_steps=1_250_000),
    "ppo-lstm-cpu": _preset("ppo-lstm", **_CPU | {"num_envs": 32}, num_steps=64,
        sequence_length=16, normalize_obs=True, num_epochs=3, num_minibatches=8,
        learning_rate=1.5e-3, clip_range=0.2, clip_values=False, total_steps=800_000),
    "ppo-rnd-cpu": _preset("ppo-rnd", **_CPU, num_steps=128, stack_num=2, normalize_obs=True,
        num_epochs=3, num_minibatches=8, learning_rate=5e-4, clip_range=0.2, clip_values=False,
        total_steps=2_500_000),
    "pqn-cpu": _preset("pqn", **_CPU | {"num_envs": 32}, stack_num=2, normalize_obs=True,
        num_epochs=4, num_minibatches=8, learning_rate=1e-3, learning_rate_schedule="linear",
        q_lambda=0.9, epsilon_end=0.01, total_steps=1_600_000),
    "pqn-gpu": _preset(
        "pqn", num_envs=2048, num_minibatches=16, learning_rate=1e-3, precision="bf16"),
    "dqn-nature": _preset("dqn", episodic_life=True, optimizer="rmsprop", learning_rate=2.5e-4,
        optimizer_eps=0.01, epsilon_end=0.1, epsilon_steps=1_000_000, target_interval=2500,
        learning_starts=50_000),
    "dqn-cpu": _preset("dqn", **_CPU | {"num_envs": 32}, stack_num=2, normalize_obs=True,
        n_step=3, double=True, memory=200_000, learning_rate=2.5e-4, target_interval=500,
        epsilon_steps=100_000, total_steps=1_500_000),
    "dqn-gpu": _preset("dqn", num_envs=1024, batch_size=512, samples_per_insert=4.0,
        learning_rate=2.5e-4, n_step=3, double=True, exploration="ladder", learning_starts=100_000,
        memory=2_000_000, max_grad_norm=10.0, precision="bf16"),
    "apex-dqn-gpu": _preset("apex-dqn", num_envs=4096, precision="bf16"),
    "btr": _preset("iqn", **_BTR, network="btr", batch_size=256, learning_rate=1e-4,
        optimizer_eps=0.005 / 256, memory=2**20, learning_starts=200_000,
        epsilon_steps=2_000_000, total_steps=50_000_000),
    "btr-cpu": _preset("iqn", **{**_CPU, **_BTR, "network": "btr_small"}, stack_num=2,
        batch_size=64, learning_rate=2e-4, optimizer_eps=0.005 / 64, memory=400_000,
        learning_starts=20_000, epsilon_steps=100_000, total_steps=1_000_000, precision="bf16"),
    "rainbow-fast": _preset("rainbow", num_envs=256, batch_size=256, samples_per_insert=4.0,
        learning_rate=2.5e-4, optimizer_eps=0.005 / 256, learning_starts=100_000, precision="bf16"),
}
# fmt: on


def find_agent(text: str) -> type[Learner]:
    """The class of an agent of your own, from ``MODULE:CLASS``; also modules of this folder.

    Raises:
        InvalidArgumentError: There is none.
    """
    module, _, name = text.partition(":")
    folder = os.getcwd()  # a module may change it
    sys.path.insert(0, folder)
    try:
        is_name = bool(module and name) and not module.startswith(".")
        found = getattr(importlib.import_module(module), name) if is_name else None
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(
            f"agent is {shown(text)}, which cannot be imported: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    if not (isinstance(found, type) and Learner in found.__mro__):
        raise InvalidArgumentError(
            f"agent is {shown(text)}; it must be MODULE:CLASS of a cule.agents.Learner"
        )
    return found


def load_to_play(
    content: PolicyState,
    env: FrameEnv,
    device: str = "cpu",
    agent_class: type[Learner] | None = None,
) -> Learner:
    """Make an agent with the weights of a checkpoint, to play; uses only the spaces of `env`."""
    config = checkpoint_config(content, agent_class, device=device, env_device="")
    make: Any = agent_class or AGENTS[content["algorithm"]]  # a protocol has no constructor
    agent: Learner = make(config, env)
    load_weights(agent, content)
    return agent


def load(path: str | os.PathLike[str], *, num_envs: int = 0, device: str = "cpu") -> Learner:
    """Load a trained agent to play, with `Learner.predict` and `Learner.evaluate`.

    Args:
        path: A checkpoint, a file of weights, the folder of a run, or ``zoo:NAME``.
        num_envs: Number of its environments; with several players, of seats. 0: one of each game,
            or a seat for each player.
        device: Device of the network.

    Returns:
        The agent; its `setup.env` are environments with the options of training.

    Raises:
        CheckpointNotFoundError: There is no such file.
        CheckpointError: The file holds no agent, or is damaged.
        InvalidArgumentError: The zoo has no agent of this name, or the folder no run.
        MissingPackageError: cule-zoo or safetensors is not installed.
        UnknownGameError, RomNotFoundError, RulesError: As for an environment of the agent's game.

    Example:
        >>> from cule.agents import load
        >>> agent = load("zoo:pong-objects", num_envs=8)
        >>> obs, info = agent.setup.env.reset(seed=0)
        >>> agent.predict(obs).shape
        torch.Size([8])
    """
    content = read_to_play(find_checkpoint(as_path("path", path)))
    changes = {"device": device, "env_device": "", "decorrelate_steps": 0}
    config = checkpoint_config(content, **changes)
    least = max(config.num_players, config.game.count(",") + 1)
    env = make_env(replace(config, num_envs=num_envs or least))
    try:
        agent = load_to_play(content, env, device)
    except BaseException:
        env.close()
        raise
    agent.network.eval()
    return agent


def load_opponent(content: PolicyState, games: MultiAgentVectorEnv, device: str = "cpu") -> Learner:
    """Make an agent with the weights of a checkpoint, to play the other seats of games.

    Raises:
        InvalidArgumentError: It was trained for another game or number of players.
        CheckpointError: Its network does not fit the observations or the actions.
    """
    config = checkpoint_config(content)
    game, players = str(games.config.game), games.num_players
    if game_id_of(config.game) != game_id_of(game) or config.num_players != players:
        raise InvalidArgumentError(
            f"the opponent plays {shown(config.game)} with {config.num_players} players; it must "
            f"play {shown(game)} with {players}"
        )
    agent = load_to_play(content, SelfPlayEnv(games), device)
    agent.network.eval()
    return agent


def checkpoint_config(
    content: PolicyState, agent_class: type[Learner] | None = None, /, **changes: object
) -> AgentConfig:
    """The options of a checkpoint, with some changed and those that only training needs reset."""
    name = content.get("algorithm")
    if agent_class is None and name not in AGENTS:
        raise CheckpointError(
            f"the checkpoint is of {shown(name)}; known algorithms: {', '.join(sorted(AGENTS))}, "
            "and with --agent MODULE:CLASS your own"
        )
    config_class = (agent_class or AGENTS[name]).config_class
    known = options_of(config_class)
    values = {key: value for key, value in _TRAINING_ONLY.items() if key in known}
    try:
        seed = int(str(content["config"]["seed"])) % 2**30  # older files may have larger seeds
        config = config_from(config_class, {**content["config"], **values, "seed": seed, **changes})
        parse_device("device", config.device)  # environments allow more
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CuleError):
            raise
        raise CheckpointError(
            f"the options of the checkpoint are not those of {name}: {shown(error)}"
        ) from None
    return config
