"""The consoles of a session: an environment, its policy, and people who take some of them over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv
from cule.envs.actions import to_numpy
from cule.watch.keys import Keys, joystick_of
from cule.watch.policies import Policy


class Board(NamedTuple):
    """What stands under the screens, int64 ``[N]`` each."""

    scores: NDArray[np.int64]
    """Score of the episode so far, never clipped."""

    last_scores: NDArray[np.int64]
    """Score that the episode before ended with; 0 in the first one."""

    lives: NDArray[np.int64]
    """Lives left."""

    episodes: NDArray[np.int64]
    """Number of the episode, from 1."""


class Consoles:
    """N consoles that are stepped together; for one thread.

    Attributes:
        env: The environment, which begins its episodes anew by itself.
        policy: Who plays the consoles that nobody has taken.
    """

    def __init__(self, env: AtariVectorEnv, policy: Policy, *, seed: int) -> None:
        """Begin the first episodes.

        Args:
            env: Consoles of one game with SameStep autoreset, rewards not clipped.
            policy: Who plays.
            seed: Of the consoles.
        """
        self.env, self.policy = env, policy
        self._action_of = joystick_of(env)
        self._scores = np.zeros(env.num_envs, np.int64)
        self._last_scores = np.zeros(env.num_envs, np.int64)
        self._episodes = np.ones(env.num_envs, np.int64)
        self._obs: Any = env.reset(seed=seed)[0]

    def step(self, keys: Mapping[int, Keys]) -> None:
        """Advance all consoles by a step of the environment.

        Args:
            keys: What people hold, by console; the policy plays the others.
        """
        # A copy: a policy's actions are its own.
        actions = self.policy.act(self._obs).copy()
        for console, held in keys.items():
            actions[console] = self._action_of(held)
        self._obs, reward, terminated, truncated, _ = self.env.step(actions)
        self._scores += to_numpy(reward)
        self._count_episodes(to_numpy(terminated) | to_numpy(truncated))

    def reset(self, chosen: Collection[int]) -> None:
        """Begin new episodes in some consoles."""
        mask = np.zeros(self.env.num_envs, np.bool_)
        mask[list(chosen)] = True
        self._obs = self.env.reset(options={"reset_mask": mask})[0]
        self._count_episodes(mask)

    def board(self) -> Board:
        """The numbers now, as copies."""
        lives = to_numpy(self.env.lives).astype(np.int64)
        return Board(self._scores.copy(), self._last_scores.copy(), lives, self._episodes.copy())

    def _count_episodes(self, ended: NDArray[np.bool_]) -> None:
        self._last_scores[ended] = self._scores[ended]
        self._scores[ended] = 0
        self._episodes += ended
