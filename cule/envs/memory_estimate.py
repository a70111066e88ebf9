"""How much memory of a GPU a batch needs, counted before it is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gymnasium.vector import AutoresetMode

from cule import _core
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, observation_space
from cule.games.schema import LOG_ENTRIES

#: Results that are alive at once: those of the last step, which the caller still reads, and those
#: that the next one writes.
STEPS_ALIVE = 2

#: Other bytes of an environment: its options, its place in a warp, a seed, an action, and numbers
#: that are converted for the caller.
SMALL_BYTES = 128

#: Torch's allocator rounds a request up to 2 MiB, or takes 20 MiB for several small ones.
ROUNDING_BYTES = 64 << 20


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a batch on a GPU."""

    num_envs: int
    batch_bytes: int
    """Of the batch's own memory."""
    console_bytes: int
    """Of each environment in it."""
    results_bytes: int
    """Of each environment in the results of a step."""

    @property
    def env_bytes(self) -> int:
        """Of each environment, everything included."""
        return self.console_bytes + SMALL_BYTES + STEPS_ALIVE * self.results_bytes

    @property
    def shared_bytes(self) -> int:
        """What is needed for any number of environments."""
        return self.batch_bytes - self.num_envs * self.console_bytes + ROUNDING_BYTES

    @property
    def needed_bytes(self) -> int:
        """Everything."""
        return self.shared_bytes + self.num_envs * self.env_bytes

    def fit(self, free_bytes: int) -> int:
        """Environments that fit; of this number, an estimate says that they do."""
        return max(0, (free_bytes - self.shared_bytes) // self.env_bytes)


def log_capacity(plan: BatchPlan) -> int:
    """Entries of each write log: as many as its game has needed, and a sixteenth more.

    A log that is full is painted early, which is exact but slow.
    """
    entries = max(rules.log_entries for rules in plan.rules)
    return min(entries + entries // 16, LOG_ENTRIES)


def results_bytes(options: EnvOptions) -> int:
    """Bytes of an environment in the results of a step."""
    table = 4 * _core.INT_ROWS
    obs = math.prod(observation_space(options).shape or ())
    has_finals = options.autoreset_mode is AutoresetMode.SAME_STEP
    return (obs + table) * (2 if has_finals else 1) + _core.FLAG_ROWS
