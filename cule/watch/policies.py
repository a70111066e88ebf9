"""Policies of the environments that no viewer plays: random actions, or those of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv
from cule.envs.arrays import to_numpy
from cule.errors import InvalidArgumentError
from cule.games import game_id_of

if TYPE_CHECKING:
    from cule.agents import Agent

#: Any: arrays or tensors, depending on the environment; this package does not import torch.
Observations: TypeAlias = Any

#: The protocol of `cule eval` that a checkpoint plays by default.
DEFAULT_PROTOCOL = "noop"


class Policy(Protocol):
    """Chooses the actions of all environments."""

    @property
    def title(self) -> str:
        """Description for the page."""

    def act(self, obs: Observations) -> NDArray[np.generic]:
        """Actions on the newest observations, as `AtariVectorEnv.step` accepts them."""


class RandomPolicy:
    """Every action with the same probability."""

    title = "random actions"

    def __init__(self, env: AtariVectorEnv, seed: int) -> None:
        """Play in an environment with discrete actions."""
        self._random = np.random.default_rng(seed)
        self._num_envs, self._num_actions = env.num_envs, len(env.action_set)

    def act(self, obs: Observations) -> NDArray[np.int64]:
        """As `Policy.act`; ignores the observations."""
        return self._random.integers(self._num_actions, size=self._num_envs)


class TrainedPolicy:
    """The policy of a checkpoint, which acts as in an evaluation."""

    def __init__(self, agent: Agent, *, greedy: bool) -> None:
        """Play with an agent that is not training; `greedy`: without the protocol's randomness."""
        from cule.agents.training.seeds import EVALUATION_SEED

        self._agent, self._greedy = agent, greedy
        self._agent.network.eval()
        self._generator = agent.make_generator(EVALUATION_SEED)

    @property
    def title(self) -> str:
        """Algorithm and training steps."""
        return f"{self._agent.name} after {self._agent.steps:,} steps"

    def act(self, obs: Observations) -> NDArray[np.generic]:
        """As `Policy.act`."""
        actions: NDArray[np.generic] = to_numpy(
            self._agent.act(obs, self._generator, greedy=self._greedy)
        )
        return actions


def open_random(
    game: str,
    num_envs: int,
    *,
    seed: int,
    device: str,
    mode: int | None = None,
    difficulty: int | None = None,
) -> tuple[AtariVectorEnv, RandomPolicy]:
    """Environments for people: every frame, and all actions."""
    env = AtariVectorEnv(
        game,
        num_envs,
        autoreset_mode="SameStep",
        frameskip=1,
        full_action_space=True,
        obs_type="ram",  # the cheapest, because the policy ignores observations
        reward_clipping=False,
        mode=mode,
        difficulty=difficulty,
        device=device,
    )
    return env, RandomPolicy(env, seed)


def open_trained(
    path: Path,
    num_envs: int,
    *,
    game: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    seed: int,
    greedy: bool,
    device: str,
) -> tuple[AtariVectorEnv, TrainedPolicy]:
    """The environments of an evaluation, and the policy of a checkpoint.

    Args:
        path: A checkpoint, a file of weights, or the folder of a run.
        num_envs: Environments.
        game: Required game of the checkpoint; None: any.
        protocol: Protocol of the evaluation.
        seed: Seed of the evaluation, for environments and actions.
        greedy: Whether to choose the best actions, without randomness.
        device: Device of network and environments.
    """
    from cule.agents.training.evaluation import make_eval_env
    from cule.agents.training.presets import checkpoint_config, load_to_play
    from cule.agents.training.run_folder import find_checkpoint
    from cule.agents.training.weights import read_to_play

    content = read_to_play(find_checkpoint(path))
    config = checkpoint_config(content, device=device, env_device="")
    if game is not None and game_id_of(game) != game_id_of(config.game):
        raise InvalidArgumentError(
            f"game is {game!r}; the checkpoint {str(path)!r} plays {config.game!r} alone"
        )
    env = make_eval_env(config, protocol, num_envs)
    content["config"]["seed"] = seed  # of the actions; the weights are loaded
    try:
        agent = load_to_play(content, env, device)
    except BaseException:
        env.close()
        raise
    return env, TrainedPolicy(agent, greedy=greedy)
