"""The object below ale-py's vector environment, for code that calls it: ``env.ale``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cule.envs.actions import Action
from cule.envs.arrays import Array
from cule.envs.errors import ArgumentTypeError
from cule.envs.requests import as_indices
from cule.envs.results import Info, StepResult
from cule.errors import InvalidArgumentError

if TYPE_CHECKING:
    from cule.envs.vector_env import AtariVectorEnv


class ALEVectorInterface:
    """The methods of ``ale_py.vector_env.AtariVectorEnv.ale`` 0.12.1 on the environments here.

    Without ``handle``, which is the first result of `AtariVectorEnv.xla`.

    Example:
        >>> import cule
        >>> env = cule.AtariVectorEnv("pong", num_envs=2)
        >>> obs, info = env.ale.reset([0, 1], [5, -1])
        >>> env.ale.send([0, 3], [1.0, 1.0])
        >>> obs, reward, terminated, truncated, info = env.ale.recv()
        >>> env.ale.get_observation_shape()
        (4, 84, 84)
    """

    def __init__(self, env: AtariVectorEnv) -> None:
        """Call the methods of `env`."""
        self._env = env

    def get_action_set(self) -> list[Action]:
        """Actions that the ids of `send` mean."""
        return list(self._env.action_set)

    def get_num_envs(self) -> int:
        """Number of environments N."""
        return self._env.num_envs

    def get_observation_shape(self) -> tuple[int, ...]:
        """Shape of the observation of one environment."""
        return self._env.single_observation_space.shape or ()

    def reset(self, env_ids: Sequence[int], seeds: Sequence[int]) -> tuple[Array, Info]:
        """Start new episodes in some environments.

        Args:
            env_ids: Which, integers ``[n]``, each once.
            seeds: A seed for each; negative: its random streams continue.

        Returns:
            As `AtariVectorEnv.reset`.

        Raises:
            EnvIndexError: (an IndexError) An environment that does not exist.
            InvalidArgumentError: An environment twice, or not one seed for each.
            NotResetError: The first reset does not reset every environment.
        """
        env = self._env
        chosen = as_indices(_integers("env_ids", env_ids), env.num_envs, unique=True)
        numbers = _integers("seeds", seeds)
        if numbers.shape != chosen.shape:
            raise InvalidArgumentError(
                f"env_ids and seeds must have same size; they have {len(chosen)} and {numbers.size}"
            )
        mask = np.zeros(env.num_envs, bool)
        mask[chosen] = True
        options = None if mask.all() else {"reset_mask": mask}
        return env.reset(seed=numbers[np.argsort(chosen)], options=options)

    def send(self, action_ids: Sequence[int], paddle_strengths: Sequence[float]) -> None:
        """Start a step of the environments of the last received batch, and return at once.

        Args:
            action_ids: Indices into `get_action_set`, integers ``[n]``.
            paddle_strengths: 1 for each, as ale-py passes for actions that are not continuous.

        Raises:
            InvalidArgumentError: Another strength, or not one for each action.
            As `AtariVectorEnv.send`, which takes continuous actions.
        """
        actions = _integers("action_ids", action_ids)
        strengths = np.asarray(paddle_strengths)
        if strengths.shape != actions.shape:
            raise InvalidArgumentError(
                "action_ids and paddle_strengths must have same size; they have "
                f"{actions.size} and {strengths.size}"
            )
        if not (strengths == 1).all():
            raise InvalidArgumentError(
                f"paddle_strengths is {paddle_strengths!r}; each must be 1; AtariVectorEnv.send "
                "takes continuous actions, with continuous=True"
            )
        self._env.send(actions)

    def recv(self) -> StepResult:
        """Receive results, see `AtariVectorEnv.recv`."""
        return self._env.recv()


def _integers(name: str, values: Sequence[int]) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentTypeError(f"{name} is {values!r}; it must be a sequence of integers")
    return array.astype(np.int64)
