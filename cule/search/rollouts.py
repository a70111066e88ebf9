"""Branching from snapshots, and playing on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cule.envs.checks import Array, as_float, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.multi_agent import MultiAgentVectorEnv
from cule.envs.requests import as_states
from cule.envs.single_agent import AtariVectorEnv
from cule.errors import InvalidArgumentError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Rollouts(NamedTuple):
    """Returns and ends of a `rollout`, by environment."""

    returns: NDArray[np.float64]
    """Discounted sums of rewards, ``[N]``."""

    steps: NDArray[np.int64]
    """Steps until the episode ended, or all of them; ``[N]``."""

    terminated: NDArray[np.bool_]
    """Whether the game ended, ``[N]``."""

    truncated: NDArray[np.bool_]
    """Whether the episode reached its limit of frames, ``[N]``."""


class RandomActions:
    """Uniform random actions, each held for a while; a policy for `rollout`."""

    def __init__(
        self, env: AtariVectorEnv, *, mean_repeat: float = 1.0, seed: int | None = None
    ) -> None:
        """Draw the first actions.

        Args:
            env: Whose actions; discrete ones.
            mean_repeat: Steps for which an action is held, on average: after each step another
                one is drawn with probability ``1 / mean_repeat``. Go-Explore has 20.
            seed: Of the generator, 0 or more; by default a random one.

        Raises:
            InvalidArgumentError: `env` has continuous actions or several players, or a value is
                out of range.
        """
        check_env(env)
        if env.config.continuous:
            raise InvalidArgumentError("env has continuous actions; random ones are discrete")
        self._change = 1 / as_float("mean_repeat", mean_repeat, 1, 1e6)
        self._rng = np.random.default_rng(None if seed is None else as_int("seed", seed, 0))
        self._num_actions = len(env.action_set)
        self._actions = self._draw(env.num_envs)

    def _draw(self, count: int) -> NDArray[np.int64]:
        return self._rng.integers(self._num_actions, size=count)

    def __call__(self, obs: Array = None) -> NDArray[np.int64]:
        """The next actions, int64 ``[N]``; observations make no difference."""
        count = len(self._actions)
        drawn = self._draw(count)
        changes = self._rng.random(count) < self._change
        self._actions = np.where(changes, drawn, self._actions)
        actions: NDArray[np.int64] = self._actions.copy()
        return actions


def branch(env: AtariVectorEnv, states: Array) -> NDArray[np.int64]:
    """Continue from snapshots, in as many environments each as there are.

    Args:
        env: Of N environments.
        states: uint8 ``[S, state_size]`` from `AtariVectorEnv.get_state`; N is a multiple of S.

    Returns:
        The row of `states` of each environment, int64 ``[N]``: ``0, 0, ..., 1, 1, ...``. Values by
        environment, as ``reshape(S, -1)``, are those by snapshot.

    Raises:
        InvalidArgumentError: N is not a multiple of S.
        InvalidStateError: A snapshot is damaged or does not fit; nothing has changed.
    """
    check_env(env)
    given = to_numpy(states)
    count = len(given) if getattr(given, "ndim", 0) == 2 else 0
    if not count or env.num_envs % count:
        raise InvalidArgumentError(
            f"states has shape {getattr(given, 'shape', ())}; it must be [S, {env.state_size}], "
            f"where {env.num_envs} environments are a multiple of S"
        )
    rows = np.repeat(np.arange(count), env.num_envs // count)
    env.set_state(as_states(given, count, env.state_size, env.config)[rows])
    return rows


def rollout(
    env: AtariVectorEnv,
    steps: int,
    policy: Callable[[Array], Array],
    *,
    obs: Array = None,
    discount: float = 1.0,
) -> Rollouts:
    """Play on from where the environments are, until the ends of their episodes at most.

    Args:
        env: As it is: after `branch`, `AtariVectorEnv.set_state` or a reset.
        steps: Calls of ``step`` at most, at least 1; fewer when all episodes have ended.
        policy: Observations to actions ``[N]``; such as `RandomActions`.
        obs: Observations of now, which the first call of `policy` gets; by default they are asked
            of the environment.
        discount: Of a reward for each step that it is away, in 0..1.

    Returns:
        Sums up to the end of each episode. Environments whose episode has ended go on as their
        autoreset mode says, with Disabled in a new episode; set them to a snapshot before they are
        used again.

    Raises:
        InvalidArgumentError: `env` has several players or partial batches, or a value is out of
            range.
    """
    check_env(env)
    if env.batch_size != env.num_envs:
        raise InvalidArgumentError(
            f"env has batch_size {env.batch_size}; for rollout it must be num_envs, {env.num_envs}"
        )
    if not callable(policy):
        raise ArgumentTypeError(
            f"policy is {shown(policy)}; it must be a function of observations, such as "
            "RandomActions(env)"
        )
    count = as_int("steps", steps, 1)
    gamma = as_float("discount", discount, 0, 1)
    if obs is None:
        obs, _ = env.observe()
    n = env.num_envs
    returns, weight = np.zeros(n), 1.0
    length = np.zeros(n, np.int64)
    ended, cut = np.zeros(n, bool), np.zeros(n, bool)
    alive, needs_reset = np.ones(n, bool), np.zeros(n, bool)
    for _ in range(count):
        if env.autoreset_mode.value == "Disabled" and needs_reset.any():
            obs, _ = env.reset(options={"reset_mask": needs_reset})
        obs, rewards, terminated, truncated, _ = env.step(policy(obs))
        returns += weight * alive * to_numpy(rewards)
        weight *= gamma
        length += alive
        is_over, is_cut = to_numpy(terminated), to_numpy(truncated)
        needs_reset = is_over | is_cut
        ended |= alive & is_over
        cut |= alive & is_cut
        alive &= ~(ended | cut)
        if not alive.any():
            break
    return Rollouts(returns, length, ended, cut)


def check_env(env: object) -> None:
    """Raise InvalidArgumentError unless this is an `AtariVectorEnv`."""
    if isinstance(env, MultiAgentVectorEnv):
        raise InvalidArgumentError(f"env has {env.num_players} players; it must have one")
    if not isinstance(env, AtariVectorEnv):
        raise ArgumentTypeError(f"env is {shown(env)}; it must be an AtariVectorEnv")
