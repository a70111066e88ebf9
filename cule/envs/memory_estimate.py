"""How much memory of a GPU a batch needs, counted before it is allocated."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from gymnasium.vector import AutoresetMode

from cule import _core
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, int_rows, observation_space
from cule.games.schema import LOG_ENTRIES

#: Results that are alive at once: those of the last step, which the caller still reads, and those
#: that the next one writes.
STEPS_ALIVE = 2

#: Other bytes of an environment: its options, its place in a warp, a seed, an action, and numbers
#: that are converted for the caller.
SMALL_BYTES = 128

#: Torch's allocator rounds a request up to 2 MiB, or takes 20 MiB for several small ones.
ROUNDING_BYTES = 64 << 20


#: Slots of the pool for pictures that cannot stay logs (docs/gpu_memory.md): each environment has
#: one if all of them take at most this part of the free memory, because pinned host memory, where
#: the others are, takes seconds to allocate. Otherwise each has one up to this number, and at least
#: one in `ENVS_PER_SLOT` beyond it.
FREE_PART_FOR_SLOTS = 4
LEAST_SLOTS = 4096
ENVS_PER_SLOT = 16

#: Local memory of a thread of a compiled kernel: the most that was seen of any game, with 13.0, the
#: oldest NVRTC that is tested; 13.5 needs 8 bytes less.
COMPILED_LOCAL_BYTES = 2592


def pool_slots(num_envs: int, short_frame_envs: int, room: int = 0) -> int:
    """Number of slots on the device.

    Args:
        num_envs: Environments.
        short_frame_envs: Environments of games that use a slot all the time.
        room: Slots that fit in one `FREE_PART_FOR_SLOTS` of the free memory.
    """
    if num_envs <= room:
        return num_envs
    return min(num_envs, short_frame_envs + max(LEAST_SLOTS, num_envs // ENVS_PER_SLOT))


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a batch on a GPU."""

    num_envs: int
    short_frame_envs: int
    """As in `pool_slots`."""
    batch_bytes: int
    """Of the batch's own memory, without the pool."""
    console_bytes: int
    """Of each environment in it."""
    slot_bytes: int
    """Of each slot of the pool."""
    room: int
    """As in `pool_slots`."""
    results_bytes: int
    """Of each environment in the results of a step."""

    @property
    def env_bytes(self) -> int:
        """Bytes per environment, without its part of the pool."""
        return self.console_bytes + SMALL_BYTES + STEPS_ALIVE * self.results_bytes

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool."""
        return self._pool_bytes(self.num_envs)

    @property
    def needed_bytes(self) -> int:
        """Everything."""
        return self._needed_bytes(self.num_envs)

    def fit(self, free_bytes: int) -> int:
        """Return the largest number of environments whose `needed_bytes` are free."""
        # What is needed grows up to `room`, drops there, and grows again.
        room = min(self.room, self.num_envs)
        beyond = range(room + 1, self.num_envs + 1)
        fit = bisect_right(beyond, free_bytes, key=self._needed_bytes)
        if fit:
            return room + fit
        return bisect_right(range(1, room + 1), free_bytes, key=self._needed_bytes)

    def _pool_bytes(self, num_envs: int) -> int:
        share = -(-self.short_frame_envs * num_envs // self.num_envs)
        return (self.slot_bytes + 4) * pool_slots(num_envs, share, self.room)

    def _needed_bytes(self, num_envs: int) -> int:
        shared_bytes = self.batch_bytes - self.num_envs * self.console_bytes + ROUNDING_BYTES
        return shared_bytes + num_envs * self.env_bytes + self._pool_bytes(num_envs)


def short_frame_envs(plan: BatchPlan) -> int:
    """Environments of games whose frames often end before their picture does."""
    return sum(plan.rules[game].short_frames for game in plan.game_index)


def log_capacity(plan: BatchPlan) -> int:
    """Entries of each write log: as many as its game has needed, and some more.

    A log that is full is painted early, and the last entries are written by the interpreter. Both
    are exact, but slow.
    """
    entries = max(rules.log_entries for rules in plan.rules)
    return min(entries + entries // 32 + _core.LANE_QUIET_ENTRIES, LOG_ENTRIES)


def results_bytes(options: EnvOptions, num_players: int) -> int:
    """Bytes of an environment in the results of a step."""
    table = 4 * int_rows(num_players)
    obs = math.prod(observation_space(options).shape or ())
    has_finals = options.autoreset_mode is AutoresetMode.SAME_STEP
    return (obs + table) * (2 if has_finals else 1) + _core.FLAG_ROWS
