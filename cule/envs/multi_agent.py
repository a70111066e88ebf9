"""Two or four players in each environment of a batch."""

from __future__ import annotations

from typing import NoReturn

import gymnasium
import numpy as np

from cule.envs.arrays import Array
from cule.envs.multi_agent_options import (
    MultiAgentOptions,
    plan_players,
    resolve_multi_agent_options,
)
from cule.envs.options import takes_options
from cule.envs.vector_env import AtariVectorEnv
from cule.errors import InvalidArgumentError
from cule.option_fields import documents


@documents(MultiAgentOptions)
class MultiAgentVectorEnv(AtariVectorEnv):
    """Many Atari 2600 environments of two or four players, stepped together.

    An `AtariVectorEnv` in which, with P players:

    * actions are integers ``[N, P]``, one action set for all players;
    * rewards are int32 ``[N, P]`` (of `step_frames`, float32), not clipped by default;
    * ``info["lives"]``, ``info["episode_return"]`` and `lives` are int32 ``[N, P]``;
    * ``info["is_out"]``, bool ``[N, P]``, marks players who are out: their lives are below 0. While
      the game continues, their actions still count and their rewards are still paid;
    * all players see one observation, and an episode ends for all of them at once.

    With ``resets="exact"`` an environment with seed s plays as ``multi_agent_ale_py`` with
    ``random_seed = s``, whose game modes and rewards are those of PettingZoo. There the seed 0
    means the time of day; here it is a seed like any other.

    Args:
        game: Name of one of the 20 games that have modes for several players.
        num_envs: Number of environments.
        **options: The other options below; `config` shows how they were resolved.

    Raises:
        InvalidArgumentError: An option is outside its allowed values.
        UnknownGameError: No game for several players has this name.
        RomNotFoundError, UnsupportedRomError: The ROM of the game is not available.
        DeviceError: There is no backend for the device, or `kernel` is "compiled" where games
            cannot be compiled.

    Example:
        >>> import cule
        >>> env = cule.MultiAgentVectorEnv("pong", num_envs=8)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> obs.shape, reward.shape, terminated.shape
        ((8, 4, 84, 84), (8, 2), (8,))
    """

    @takes_options(MultiAgentOptions)
    def __init__(self, game: str, num_envs: int, **options: object) -> None:
        """Make the environments; the first `reset` plays them to their first observation."""
        config = resolve_multi_agent_options(game, num_envs, options)
        self._arguments = (game, num_envs)
        self._keywords = options
        self._make(config, plan_players(config))

    @property
    def num_players(self) -> int:
        """Players of each environment."""
        return self._plan.num_players

    @property
    def ale(self) -> NoReturn:
        """Refused: what ale-py has under this name is for a single player."""
        raise _refusal("ale")

    def xla(self) -> NoReturn:
        """Refused: the functions of JAX are for a single player."""
        raise _refusal("xla()")

    def xla_pure(self) -> NoReturn:
        """Refused, as `xla`."""
        raise _refusal("xla_pure()")

    def _discrete_actions(self, size: int) -> gymnasium.Space[Array]:
        return gymnasium.spaces.MultiDiscrete(np.full(self._plan.num_players, size))


def _refusal(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} is for a single player; use AtariVectorEnv")
