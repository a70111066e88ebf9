"""One player in each environment: `AtariVectorEnv`, and the object below ale-py's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cule.envs.actions import Action
from cule.envs.checks import Array, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.options import EnvOptions, resolve_options, takes_options
from cule.envs.plan import (
    ROW_OBS_TYPES,
    SPRITE_COLUMNS,
    BatchPlan,
    continuous_action_space,
    plan_batch,
)
from cule.envs.requests import as_indices
from cule.envs.results import Info, StepResult
from cule.envs.vector_env import BatchEnv
from cule.envs.xla import XlaMethods
from cule.errors import InvalidArgumentError, shown
from cule.option_fields import documents

if TYPE_CHECKING:
    from cule.games.objects import ObjectsLayout


class ObjectsMethods:
    """Objects of environments with any number of players."""

    _config: EnvOptions
    _plan: BatchPlan

    @property
    def objects_layout(self) -> ObjectsLayout:
        """Names of the rows and columns of ``obs_type="objects"``, and columns of "sprites".

        Raises:
            InvalidArgumentError: Observations are something else.
        """
        if self._config.obs_type not in ROW_OBS_TYPES:
            raise InvalidArgumentError(
                f"obs_type is {shown(self._config.obs_type)}; for objects_layout it must be "
                "'objects' or 'sprites'"
            )
        from cule.games.objects import ObjectsLayout, objects_layout

        if self._config.obs_type == "sprites":
            return ObjectsLayout(SPRITE_COLUMNS, {})
        return objects_layout([rules.game_id for rules in self._plan.rules])


@documents(EnvOptions)
class AtariVectorEnv(XlaMethods, ObjectsMethods, BatchEnv):
    """Many Atari 2600 environments, stepped together.

    A drop-in for ``ale_py.vector_env.AtariVectorEnv`` 0.12.1: the same keywords, defaults, dtypes,
    shapes, info keys and autoreset modes, and with ``resets="exact"`` the same trajectories but for
    continuous actions in skiing and lost_luggage (csrc/env/NOTES.md 8.6).
    Observations are uint8 ``[N, S, H, W]`` (``[N, S, H, W, 3]`` with ``grayscale=False``, ``[N,
    128]`` with ``obs_type="ram"``), the oldest frame first. Every result belongs to the caller and
    stays as it is.

    Calls from several threads wait for each other, except `send` and `recv`.

    Args:
        game: Name of the game, or (name, number of environments) for each of several games.
        num_envs: Number of environments; may be left out where `game` has the numbers.
        **options: The other options below; `config` shows how they were resolved.

    Raises:
        InvalidArgumentError: An option is outside its allowed values.
        UnknownGameError, RomNotFoundError, UnsupportedRomError, RulesError: The game is not
            available.
        DeviceError: There is no backend for the device, or `kernel` is "compiled" where games
            cannot be compiled.

    Example:
        >>> import cule
        >>> env = cule.AtariVectorEnv("pong", num_envs=8)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> obs.shape, reward.dtype
        ((8, 4, 84, 84), dtype('int32'))
    """

    @takes_options(EnvOptions)
    def __init__(
        self,
        game: str | Sequence[tuple[str, int]],
        num_envs: int | None = None,
        **options: object,
    ) -> None:
        """Make the environments; the first `reset` plays them to their first observation."""
        config = resolve_options(game, num_envs, options)
        super().__init__(config, plan_batch(config), game, options)

    @property
    def ale(self) -> ALEVectorInterface:
        """These environments with the methods of the attribute of this name in ale-py."""
        return ALEVectorInterface(self)

    def _action_space(self, num_actions: int) -> gymnasium.Space[Array]:
        if self._config.continuous:
            return continuous_action_space()
        return gymnasium.spaces.Discrete(num_actions)


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
        given = _integers("env_ids", env_ids)
        chosen = as_indices(given, env.num_envs, unique=True, name="env_ids")
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
        strengths = _array("paddle_strengths", paddle_strengths)
        if strengths.shape != actions.shape:
            raise InvalidArgumentError(
                "action_ids and paddle_strengths must have same size; they have "
                f"{actions.size} and {strengths.size}"
            )
        if not (strengths == 1).all():
            raise InvalidArgumentError(
                f"paddle_strengths is {shown(paddle_strengths)}; each must be 1; "
                "AtariVectorEnv.send takes continuous actions, with continuous=True"
            )
        self._env.send(actions)

    def recv(self) -> StepResult:
        """Receive results, see `AtariVectorEnv.recv`."""
        return self._env.recv()


def _array(name: str, values: Sequence[object]) -> NDArray[Any]:
    try:
        return np.asarray(to_numpy(values))
    except ValueError:  # sequences of different lengths
        raise ArgumentTypeError(
            f"{name} is {shown(values)}; it must be a sequence of numbers"
        ) from None


def _integers(name: str, values: Sequence[int]) -> NDArray[np.integer[Any]]:
    array = _array(name, values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentTypeError(f"{name} is {shown(values)}; it must be a sequence of integers")
    return array if array.size else array.astype(np.int64)
