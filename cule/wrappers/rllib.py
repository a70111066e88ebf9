"""RLlib: names of environments for ``AlgorithmConfig.environment``, on the new API stack."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv
from cule.envs.options import resolve_options
from cule.envs.plan import ROW_OBS_TYPES, batched_space
from cule.errors import InvalidArgumentError, shown
from cule.lazy import needs
from cule.wrappers.objects import ScaledObjects
from cule.wrappers.options import check_ends, check_is_synchronous, with_fixed

with needs("ray[rllib]"):
    from ray.tune.registry import register_env

#: Options that follow from what RLlib expects: it begins an episode after each that terminated.
_FIXED = {
    "autoreset_mode": "NextStep",
    "output": "numpy",
    "life_loss_info": False,
}


def register(
    game: str | Sequence[tuple[str, int]], name: str | None = None, **options: object
) -> str:
    """Give RLlib a name for environments of a game.

    RLlib's environment runners then make one `RLlibVectorEnv` each, of
    ``num_envs_per_env_runner`` environments, if ``gym_env_vectorize_mode`` is
    ``"vector_entry_point"``. Entries of ``env_config`` are options too, and win over those here.

    Args:
        game: Name of the game, or (name, number of environments) for each of several games.
        name: None: ``cule/`` and the name of the game. A name that exists gets the new meaning.
        **options: The other fields of `EnvOptions`, without `num_envs`. `autoreset_mode` is
            NextStep, `output` numpy and `life_loss_info` False, because a game continues after a
            lost life; so it does with `episodic_life` and `fire_after_life_loss`, of which one is
            False.

    Returns:
        The name.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError: An option is outside its allowed values, or another value of one that
            RLlib fixes.
        MissingPackageError: On import, where RLlib is not installed.

    Example:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from cule.wrappers import rllib
        >>> config = PPOConfig().environment(rllib.register("pong", preset="baselines"))
        >>> config = config.env_runners(
        ...     num_env_runners=0,
        ...     num_envs_per_env_runner=8,
        ...     gym_env_vectorize_mode="vector_entry_point",
        ... )
        >>> algorithm = config.build_algo()
        >>> algorithm.stop()
    """
    if "num_envs" in options:
        raise InvalidArgumentError(
            f"num_envs is {shown(options['num_envs'])}; RLlib's num_envs_per_env_runner sets it"
        )
    num_envs = 1 if isinstance(game, str) else None
    check_ends("RLlib", resolve_options(game, num_envs, with_fixed("RLlib", options, _FIXED)))
    if name is None:
        name = f"cule/{game if isinstance(game, str) else '+'.join(entry for entry, _ in game)}"
    register_env(name, functools.partial(_make, game, options))
    return name


class RLlibVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many Atari 2600 environments with observations as RLlib's networks take them.

    They are float32 in [-1, 1], as those of RLlib's own Atari wrappers: ``[N, 84, 84, 4]`` with
    default options, channels last, the newest frame last; with ``grayscale=False`` three channels
    for each frame, and with ``obs_type="ram"`` ``[N, 128]``. Objects and sprites are those of
    `cule.wrappers.objects.ScaledObjects` in one row, ``[N, S * K * F]``. Everything else is that
    of `AtariVectorEnv`, which is `env`.
    """

    closed = True  # there is nothing to close until it is made

    def __init__(
        self, game: str | Sequence[tuple[str, int]], num_envs: int, **options: object
    ) -> None:
        """Make the environments."""
        given = with_fixed("RLlib", options, _FIXED)
        check_ends("RLlib", resolve_options(game, num_envs, given))
        self.env = AtariVectorEnv(game, num_envs, **given)
        check_is_synchronous("RLlib", self.env)
        self._source: AtariVectorEnv | ScaledObjects = self.env
        if self.env.config.obs_type in ROW_OBS_TYPES:
            self._source = ScaledObjects(self.env, low=-1)
        self.num_envs = num_envs
        self.metadata = self.env.metadata
        self.render_mode = self.env.render_mode
        space = self._source.single_observation_space
        shape = _as_rllib(np.zeros((1, *(space.shape or ())), space.dtype)).shape[1:]
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, shape, np.float32)
        self.single_action_space = self.env.single_action_space
        self.observation_space = batched_space(self.single_observation_space, num_envs)
        self.action_space = self.env.action_space
        self.closed = False

    def reset(
        self, *, seed: object = None, options: Mapping[str, object] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Reset, see `AtariVectorEnv.reset`."""
        obs, info = self._source.reset(seed=seed, options=options)
        return _as_rllib(obs), info

    def step(self, actions: object) -> tuple[NDArray[np.float32], Any, Any, Any, dict[str, Any]]:
        """Step, see `AtariVectorEnv.step`."""
        obs, *rest, info = self._source.step(actions)
        reward, terminated, truncated = rest
        return _as_rllib(obs), reward, terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Render, see `AtariVectorEnv.render`."""
        return self.env.render()

    def close_extras(self, **kwargs: object) -> None:
        """Free the environments."""
        self.env.close()


def _make(
    game: str | Sequence[tuple[str, int]], options: Mapping[str, object], config: dict[str, Any]
) -> RLlibVectorEnv:
    """Entry point of RLlib, with `env_config` and the number of environments."""
    if "num_envs" not in config:
        raise InvalidArgumentError(
            "gym_env_vectorize_mode asks for single environments; with cule it must be "
            "'vector_entry_point', in AlgorithmConfig.env_runners()"
        )
    return RLlibVectorEnv(game, **{**options, **config})


def _as_rllib(obs: NDArray[Any]) -> NDArray[np.float32]:
    """Channels last, in [-1, 1]."""
    if obs.dtype == np.float32:  # scaled objects
        return obs.reshape(len(obs), -1)
    if obs.ndim > 2:  # pixels
        obs = np.moveaxis(obs, 1, 3)
        obs = obs.reshape(*obs.shape[:3], -1)
    scaled: NDArray[np.float32] = np.divide(obs, 127.5, dtype=np.float32)
    scaled -= 1
    return scaled
