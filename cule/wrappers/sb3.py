"""Stable-Baselines3: a `VecEnv` over the batched environment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv
from cule.envs.checks import INT32_MAX
from cule.envs.requests import as_seeds
from cule.errors import InvalidArgumentError, shown
from cule.lazy import needs
from cule.wrappers.options import check_is_synchronous, with_fixed

with needs("stable-baselines3"):
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv

#: Options that follow from what SB3 expects.
_FIXED = {"autoreset_mode": "SameStep", "output": "numpy", "final_info": True}

#: Attributes of the batch that hold one entry for each environment.
_PER_ENV = ("ram", "lives", "episode_frames")


class SB3VecEnv(VecEnv):  # type: ignore[misc]  # the library is optional
    """Many Atari 2600 environments for the algorithms of Stable-Baselines3.

    Observations are uint8 ``[N, 4, 84, 84]``: channels first, already stacked, as ``CnnPolicy``
    takes them, so neither ``VecFrameStack`` nor ``VecTransposeImage`` is needed. ``infos`` holds
    the numbers of `AtariVectorEnv`'s ``info`` for each environment; where an episode ended also
    ``terminal_observation`` and, as from SB3's ``Monitor``, ``episode`` with the unclipped return
    ``r``, the length in steps ``l`` and the seconds since the environment was made ``t``.

    Args:
        game: Name of the game, or (name, number of environments) for each of several games.
        num_envs: Number of environments; `n_envs`, as SB3 says, means the same.
        seed: Seed of the first reset, as by the method `seed`.
        **options: The other fields of `EnvOptions`. `autoreset_mode` is SameStep, `output` numpy,
            `final_info` True.

    Raises:
        InvalidArgumentError: An option is outside its allowed values, or another value of one that
            SB3 fixes.
        MissingPackageError: On import, where Stable-Baselines3 is not installed.

    Example:
        >>> from stable_baselines3 import PPO
        >>> from cule.wrappers.sb3 import SB3VecEnv
        >>> env = SB3VecEnv("pong", num_envs=8, preset="baselines")
        >>> model = PPO("CnnPolicy", env, n_steps=16, n_epochs=1).learn(128)
        >>> env.close()
    """

    def __init__(
        self,
        game: str | Sequence[tuple[str, int]],
        num_envs: int | None = None,
        *,
        n_envs: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """Make the environments."""
        if num_envs is not None and n_envs is not None:
            raise InvalidArgumentError(
                f"num_envs is {shown(num_envs)} and n_envs {shown(n_envs)}; one of them must be "
                "left out"
            )
        count = n_envs if num_envs is None else num_envs
        if count is not None:
            options["num_envs"] = count
        self.env = AtariVectorEnv(game, **with_fixed("Stable-Baselines3", options, _FIXED))
        check_is_synchronous("Stable-Baselines3", self.env)
        self._actions: object = None
        self._start_s = time.time()
        env = self.env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int | None = None) -> Sequence[int]:
        """Seed the next reset: environment i with seed + i. None: random ones, of ``np.random``.

        Returns:
            The seeds.

        Raises:
            InvalidArgumentError: Another seed; the one before is kept.
        """
        if seed is None:  # VecEnv draws one bit too many
            seed = int(np.random.randint(INT32_MAX + 2 - self.num_envs))  # noqa: NPY002
        seeds: list[int] = as_seeds(seed, self.num_envs).tolist()
        self._seeds = seeds
        return seeds

    def reset(self) -> NDArray[np.uint8]:
        """Start new episodes with the seeds of `seed`, or with streams that continue.

        Returns:
            Observations, uint8 ``[N, *observation_space.shape]``; they stay as they are.

        Raises:
            InvalidArgumentError: `set_options` gave options; a reset of a batch has none.
        """
        if any(self._options):
            raise InvalidArgumentError(
                f"set_options() gave {shown(self._options)}; environments of a batch have no "
                "options"
            )
        seeds = [-1 if seed is None else seed for seed in self._seeds]
        obs: NDArray[np.uint8]
        obs, info = self.env.reset(seed=np.array(seeds, np.int64))
        self.reset_infos = _split(info)
        self._reset_seeds()
        return obs

    def step_async(self, actions: NDArray[np.generic]) -> None:
        """Keep the actions of the next step; see `AtariVectorEnv.step`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step with the actions of `step_async`.

        Returns:
            Observations, uint8 ``[N, *observation_space.shape]``; rewards, float32 ``[N]``; dones,
            bool ``[N]``; and infos, one dict for each environment.

        Raises:
            InvalidActionError, NotResetError: As `AtariVectorEnv.step`.
        """
        obs, reward, terminated, truncated, info = self.env.step(self._actions)
        dones = terminated | truncated
        # With life_loss_info a lost life is reported as an end, but the game continues.
        ended = info.pop("_final_info", np.zeros_like(dones))
        final_obs, final_info = info.pop("final_obs", None), info.pop("final_info", {})
        infos = _split(info)
        for index in np.flatnonzero(dones):
            own = infos[index]
            own["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
            own["terminal_observation"] = (final_obs if ended[index] else obs)[index]
            if ended[index]:
                own["episode"] = {
                    "r": float(final_info["episode_return"][index]),
                    "l": int(final_info["episode_length"][index]),
                    "t": round(time.time() - self._start_s, 6),
                }
        return obs, reward.astype(np.float32), dones, infos

    def close(self) -> None:
        """Free the environments."""
        self.env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Screens, uint8 ``[H, 160, 3]`` each, with ``render_mode="rgb_array"``; otherwise None."""
        if self.render_mode is None:
            return [None] * self.num_envs
        return list(self.env.render() or ())

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute of `AtariVectorEnv`: its rows for `ram`, `lives` and `episode_frames`.

        Raises:
            AttributeError: There is none of this name.
        """
        value = getattr(self.env, attr_name)
        chosen = self._get_indices(indices)
        return [value[index] if attr_name in _PER_ENV else value for index in chosen]

    def set_attr(
        self, attr_name: str, value: object, indices: int | Iterable[int] | None = None
    ) -> None:
        """Refused: the environments of a batch are one object.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            f"attr_name is {shown(attr_name)}; the environments of a batch have no attributes to "
            "set, give options to SB3VecEnv()"
        )

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: object,
    ) -> list[Any]:
        """Refused: the environments of a batch are one object, `env`, whose methods you can call.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            f"method_name is {shown(method_name)}; the environments of a batch have no methods of "
            f"their own, call SB3VecEnv.env.{method_name}()"
        )

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],
        indices: int | Iterable[int] | None = None,
    ) -> list[bool]:
        """True for SB3's ``Monitor``, whose ``infos`` these are; otherwise False."""
        return [issubclass(Monitor, wrapper_class)] * len(list(self._get_indices(indices)))


def _split(info: dict[str, NDArray[np.int32]]) -> list[dict[str, Any]]:
    """One dict of numbers for each environment."""
    rows = zip(*(row.tolist() for row in info.values()), strict=True)
    return [dict(zip(info, row, strict=True)) for row in rows]
