"""dm_env: one environment with DeepMind's interface, for Acme, Dopamine-like loops and others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv
from cule.envs.options import resolve_options
from cule.lazy import needs
from cule.wrappers.options import SINGLE, check_ends, with_fixed

with needs("dm-env"):
    import dm_env
    from dm_env import specs


#: Options that follow from what dm_env expects: an episode begins after each that terminated.
_FIXED = {**SINGLE, "life_loss_info": False}


class DMEnv(dm_env.Environment):  # type: ignore[misc]  # the library is optional
    """One Atari 2600 environment as a `dm_env.Environment`.

    Observations are uint8 ``[4, 84, 84]`` with default options; actions index
    `AtariVectorEnv.action_set`; rewards are Python floats. The discount is 0.0 where an episode has
    terminated, and 1.0 elsewhere, also where it was truncated. A step after the last one of an
    episode, or before the first, begins an episode; its action is ignored.

    Args:
        game: Name of the game.
        seed: Of the first episode; those that follow continue its random streams. None: entropy.
        **options: The other fields of `EnvOptions`. `autoreset_mode` is Disabled, `output` numpy,
            `device` cpu, `continuous` False, `num_envs` 1, and `life_loss_info` False, because a
            game continues after a lost life; so it does with `episodic_life` and
            `fire_after_life_loss`, of which one is False.

    Raises:
        InvalidArgumentError: An option is outside its allowed values, or another value of one that
            dm_env fixes.
        MissingPackageError: On import, where dm_env is not installed.

    Example:
        >>> from cule.wrappers.dm_env import DMEnv
        >>> env = DMEnv("pong", seed=0)
        >>> env.reset().first()
        True
    """

    def __init__(self, game: str, seed: int | None = None, **options: Any) -> None:
        """Make the environment."""
        given = with_fixed("dm_env", options, _FIXED)
        check_ends("dm_env", resolve_options(game, 1, given))
        self.env = AtariVectorEnv(game, **given)
        self._seed = seed
        self._has_ended = True

    def reset(self) -> dm_env.TimeStep:
        """Begin an episode.

        Returns:
            Its first `dm_env.TimeStep`: reward and discount are None.
        """
        obs, _ = self.env.reset(seed=self._seed)
        self._seed = None
        self._has_ended = False
        return dm_env.restart(obs[0])

    def step(self, action: int | NDArray[np.integer[Any]]) -> dm_env.TimeStep:
        """One step of ``frameskip`` frames.

        Args:
            action: Index into `AtariVectorEnv.action_set`.

        Raises:
            InvalidActionError: An action outside the action space; nothing has moved.
        """
        if self._has_ended:
            return self.reset()
        obs, reward, terminated, truncated, _ = self.env.step([action])
        self._has_ended = bool(terminated[0] or truncated[0])
        if terminated[0]:
            return dm_env.termination(float(reward[0]), obs[0])
        if truncated[0]:
            return dm_env.truncation(float(reward[0]), obs[0], discount=1.0)
        return dm_env.transition(float(reward[0]), obs[0], discount=1.0)

    def observation_spec(self) -> specs.BoundedArray:
        """Pixels or bytes of RAM, uint8, 0 to 255; or rows of objects, int16."""
        space = self.env.single_observation_space
        limits = np.iinfo(space.dtype)
        shape = space.shape or ()
        return specs.BoundedArray(shape, space.dtype, limits.min, limits.max, name="observation")

    def action_spec(self) -> specs.DiscreteArray:
        """Indices into `AtariVectorEnv.action_set`."""
        return specs.DiscreteArray(len(self.env.action_set), dtype=np.int64, name="action")

    def close(self) -> None:
        """Free the environment."""
        self.env.close()
