"""The environments of a session: their policy, and the people who play some of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cule.envs.checks import to_numpy
from cule.envs.vector_env import BatchEnv
from cule.watch.keys import Keys, joystick_of
from cule.watch.policies import Policy


class Board(NamedTuple):
    """The numbers under the screens, int64 ``[N]`` each; of P players ``[N, P]``."""

    scores: NDArray[np.int64]  # of the episode so far, never clipped
    last_scores: NDArray[np.int64]  # final, of the previous episode; 0 in the first one
    lives: NDArray[np.int64]
    episodes: NDArray[np.int64]  # from 1; [N]


class Played(Protocol):
    """Resets and steps environments: the environments themselves, or a recorder of them."""

    def reset(
        self, *, seed: object = None, options: Mapping[str, object] | None = None
    ) -> tuple[Any, Any]:
        """Reset as the environments do."""

    def step(self, actions: object) -> tuple[Any, Any, Any, Any, Any]:
        """Step as the environments do."""


class Environments:
    """N environments that step together; for one thread.

    Attributes:
        env: The vector environment, which resets itself.
        policy: Plays the seats that no viewer plays.
        seats: Players of each environment.
    """

    def __init__(
        self, env: BatchEnv, policy: Policy, *, seed: int, played: Played | None = None
    ) -> None:
        """Start the first episodes of `env`: one game, SameStep autoreset, unclipped rewards.

        Resets and steps are those of `played`, by default of `env` itself.
        """
        self.env, self.policy = env, policy
        self._played: Played = env if played is None else played
        self._was_reset: set[int] = set()  # since the last step
        self._action_of = joystick_of(env)
        self.seats = env.num_players
        shape = (env.num_envs,) if self.seats == 1 else (env.num_envs, self.seats)
        self._scores, self._last_scores = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._episodes = np.ones(env.num_envs, np.int64)
        self._obs = self._played.reset(seed=seed)[0]

    def step(self, keys: Mapping[int, Keys]) -> None:
        """Advance all by one step: slots with held keys by these, the others by the policy."""
        actions = self.policy.act(self._obs).copy()  # the policy owns its actions
        by_slot = actions if self.seats == 1 else actions.reshape(-1)  # the same memory
        for slot, held in keys.items():
            by_slot[slot] = self._action_of(held)
        self._obs, reward, terminated, truncated, _ = self._played.step(actions)
        self._was_reset.clear()
        self._scores += to_numpy(reward)
        self._count_episodes(to_numpy(terminated) | to_numpy(truncated))

    def reset(self, indices: Collection[int]) -> None:
        """Start new episodes in some environments, except where one started since the last step."""
        new = set(indices) - self._was_reset
        if not new:
            return
        mask = np.zeros(self.env.num_envs, np.bool_)
        mask[list(new)] = True
        self._obs = self._played.reset(options={"reset_mask": mask})[0]
        self._was_reset |= new
        self._count_episodes(mask)

    def board(self) -> Board:
        """A copy of the current numbers."""
        lives = to_numpy(self.env.lives).astype(np.int64)
        return Board(self._scores.copy(), self._last_scores.copy(), lives, self._episodes.copy())

    def _count_episodes(self, ended: NDArray[np.bool_]) -> None:
        self.policy.begin(ended)
        self._last_scores[ended] = self._scores[ended]
        self._scores[ended] = 0
        self._episodes += ended
