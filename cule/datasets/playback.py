"""Playback: many trajectories at once on one batch, compared with their digests on the way."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cule.datasets.digests import Totals, is_digest_step
from cule.datasets.format import RESET_FLAG, Log
from cule.datasets.settings import lists_by_environment
from cule.envs import AtariVectorEnv
from cule.envs.checks import Array, to_numpy
from cule.errors import DigestMismatchError


class ReplayStep(NamedTuple):
    """One step of n trajectories; observations are tensors with ``output="torch"``."""

    trajectory: NDArray[np.int64]
    """Which trajectories of the dataset; int64 ``[n]``."""

    step: int
    """Number of this step in each of them, from 0."""

    obs: Array
    """Observations before the step, as of `AtariVectorEnv` with the options of the replay; uint8
    ``[n, ...]``."""

    action: NDArray[np.int64]
    """Indices into `Dataset.action_set`; int64 ``[n]``."""

    reward: Array
    """As of `AtariVectorEnv.step`; int32 ``[n]``."""

    terminated: Array
    """The episode terminated in this step; bool ``[n]``."""

    truncated: Array
    """The episode was truncated in this step; bool ``[n]``."""

    next_obs: Array
    """Observations after the step, also where it ended an episode; as `obs`."""

    valid: NDArray[np.bool_]
    """False where the step was only a reset of NextStep autoreset; bool ``[n]``."""


def play(log: Log, num_envs: int, options: Mapping[str, Any]) -> Generator[ReplayStep, None, None]:
    """Play every trajectory, `num_envs` at a time.

    Raises:
        DigestMismatchError: A trajectory differs from its recording.
    """
    first = 0
    env: AtariVectorEnv | None = None
    made_with: dict[str, Any] = {}
    try:
        for segment in log.segments:
            count = len(segment.seeds)
            actions, digests = segment.actions(), segment.digests(log.digest_every)
            for start in range(0, count, num_envs):
                rows = slice(start, min(start + num_envs, count))
                keywords = _for_rows(options, rows)
                if env is None or env.num_envs != rows.stop - start or made_with != keywords:
                    if env is not None:
                        env.close()
                    env = AtariVectorEnv(log.game, rows.stop - start, **keywords)
                    made_with = keywords
                trajectories = np.arange(first + start, first + rows.stop)
                seeds = np.array(segment.seeds[rows], np.uint32)
                parts = actions[rows], digests[:, rows], log.digest_every
                yield from _play_group(env, trajectories, seeds, *parts)
            first += count
    finally:
        if env is not None:
            env.close()


def _for_rows(options: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    """The options of some environments."""
    lists = lists_by_environment(options)
    return {name: value[rows] if name in lists else value for name, value in options.items()}


def _play_group(
    env: AtariVectorEnv,
    trajectories: NDArray[np.int64],
    seeds: NDArray[np.uint32],
    actions: NDArray[np.uint8],
    digests: NDArray[np.uint32],
    digest_every: int,
) -> Iterator[ReplayStep]:
    """Play trajectories of one segment: actions ``[n, T]`` with flags, digests ``[K, n]``."""
    total, totals, recorded = actions.shape[1], Totals(len(trajectories)), iter(digests)

    def compare(num_steps: int) -> None:
        found, wanted = totals.digests(env), next(recorded)
        differs = np.flatnonzero(found != wanted)
        if len(differs):
            index = differs[0]
            raise DigestMismatchError(
                f"trajectory {trajectories[index]} after step {num_steps}: the digest is "
                f"{found[index]:08x}; it was {wanted[index]:08x} in the recording"
            )

    mode = AutoresetMode(env.config.autoreset_mode)
    obs, _ = env.reset(seed=seeds)
    compare(0)
    for step in range(total):
        flagged = actions[:, step]
        resets = flagged >= RESET_FLAG
        if resets.any():
            obs, _ = env.reset(options={"reset_mask": resets})
        action = (flagged & (RESET_FLAG - 1)).astype(np.int64)
        after, reward, terminated, truncated, info = env.step(action)
        ends = terminated, truncated
        totals.add(to_numpy(info["reward"]), *map(to_numpy, ends))
        if is_digest_step(step + 1, total, digest_every):
            compare(step + 1)
        next_obs = after
        if mode is AutoresetMode.SAME_STEP and "final_obs" in info:
            next_obs = _with_rows(after, info["final_obs"], to_numpy(info["_final_info"]))
        valid = np.ones(len(action), bool)
        if mode is AutoresetMode.NEXT_STEP:
            valid = to_numpy(info["episode_length"]) > 0
        yield ReplayStep(trajectories, step, obs, action, reward, *ends, next_obs, valid)
        obs = after


def _with_rows(after: Array, final: Array, mask: NDArray[np.bool_]) -> Array:
    """`after` with some of the rows of `final`."""
    if not mask.any():
        return after
    mixed = after.copy() if isinstance(after, np.ndarray) else after.clone()
    mixed[mask] = final[mask]
    return mixed
