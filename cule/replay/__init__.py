"""Replay: what environments did, kept on the device where learners read it.

* `UniformReplay`: a ring of steps of N environments, sampled uniformly;
* `PrioritizedReplay`: the same, sampled in proportion to priorities;
* `TrajectoryBuffer`: the last T steps in order, for on-policy learners;
* `SharedPrioritizedReplay`: transitions of many explorer processes in shared memory.

Data flows one way: environment -> frame ring (`ring`) -> windows of rows (`gather`) -> `Batch`. A
frame is stored once, one a step; stacks, n-step returns and next observations are put together
when they are sampled, from row numbers. What follows a transition counts its discount, which is 0
after a termination, so there is no ``done``.

Priorities weigh whole multiples of 2**-20 and are summed in blocks (`priority_sums`), so sums are
exact whatever happened before. Order without replacement is computed, not stored (`permutation`).
Files are complete or not there (`checkpoint`). One implementation in tensor operations serves all
devices; on a processor single calls of the native module do the same in less time, bit for bit
(`native`).
"""

from __future__ import annotations

from cule.errors import CheckpointError
from cule.replay.errors import (
    CapacityError,
    DisconnectedError,
    NotReadyError,
    ShortReplayWarning,
)
from cule.replay.multi_batch import MultiBatchSchedule
from cule.replay.options import (
    PrioritizedOptions,
    ReplayOptions,
    SharedOptions,
    TrajectoryOptions,
)
from cule.replay.prioritized import PrioritizedReplay
from cule.replay.replay_writer import ReplayWriter
from cule.replay.shared import ExplorerStatus, SharedPrioritizedReplay
from cule.replay.shared_memory import SharedHandle
from cule.replay.steps import Step
from cule.replay.trajectory import Rollout, TrajectoryBuffer
from cule.replay.transitions import Batch
from cule.replay.uniform import UniformReplay

__all__ = [
    "Batch",
    "CapacityError",
    "CheckpointError",
    "DisconnectedError",
    "ExplorerStatus",
    "MultiBatchSchedule",
    "NotReadyError",
    "PrioritizedOptions",
    "PrioritizedReplay",
    "ReplayOptions",
    "ReplayWriter",
    "Rollout",
    "SharedHandle",
    "SharedOptions",
    "SharedPrioritizedReplay",
    "ShortReplayWarning",
    "Step",
    "TrajectoryBuffer",
    "TrajectoryOptions",
    "UniformReplay",
]
