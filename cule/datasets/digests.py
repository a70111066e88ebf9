"""Digests of environments: what the recording and the playback of a dataset must agree on.

A digest is the CRC-32 of an environment's RAM, the sum of its rewards (not clipped) and the number
of its ends, both since the start of the trajectory. There is one before the first step, one after
every `digest_every` steps, and one after the last step.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from cule.envs.checks import Array, to_numpy
from cule.envs.vector_env import BatchEnv


class Totals:
    """Sums over the steps of N trajectories since their start."""

    def __init__(self, num_envs: int) -> None:
        """Start with zeros."""
        self.rewards = np.zeros(num_envs, np.int64)
        self.ends = np.zeros(num_envs, np.int64)

    def add(self, raw_reward: Array, terminated: Array, truncated: Array) -> None:
        """Add one step of each trajectory."""
        self.rewards += raw_reward
        self.ends += terminated | truncated

    def digests(self, env: BatchEnv) -> NDArray[np.uint32]:
        """Digests of the environments as they are, uint32 ``[N]``."""
        ram = np.asarray(to_numpy(env.ram))
        sums = np.stack([self.rewards, self.ends], axis=1).astype("<i8")
        pairs = zip(ram, sums, strict=True)
        return np.array([zlib.crc32(b"".join((r, s))) for r, s in pairs], np.uint32)


def num_digests(num_steps: int, digest_every: int) -> int:
    """Digests of a trajectory."""
    return 1 + -(-num_steps // digest_every)


def is_digest_step(num_steps: int, total_steps: int, digest_every: int) -> bool:
    """Whether there is a digest after `num_steps` of `total_steps` steps."""
    return num_steps % digest_every == 0 or num_steps == total_steps
