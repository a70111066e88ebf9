"""Replay buffers: store the steps of environments on the device where a learner samples them.

* `UniformReplay`: a ring of steps of N environments, sampled uniformly;
* `PrioritizedReplay`: the same, sampled in proportion to priorities;
* `TrajectoryBuffer`: rollouts of the last T steps, for on-policy learners;
* `SharedPrioritizedReplay`: the prioritized one in shared memory, for `ReplayWriter` processes.

Data flows one way: environment -> frame ring (`ring`) -> windows of cells (`transitions`) ->
`Batch`. Each frame is stored once; stacks, n-step returns and next observations are assembled when
you sample. `Batch.discounts` is 0 after a termination and replaces ``done``.

Priorities are integer masses summed in blocks (`priority_sums`), so the sums are always exact. The
order without replacement is computed, not stored (`permutation`). A saved file is complete or
absent (`checkpoint`). Tensor operations implement everything for all devices; on the CPU, calls of
the native module do the same in less time, bit for bit (`native`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cule.errors import (
    CapacityError,
    CheckpointError,
    DisconnectedError,
    NotReadyError,
    ShortReplayWarning,
)
from cule.lazy import lazy_names, needs
from cule.replay.multi_batch import MultiBatchSchedule

with needs("cule[train]"):
    from cule.replay.options import (
        PrioritizedOptions,
        ReplayOptions,
        SharedOptions,
        TrajectoryOptions,
    )
from cule.replay.steps import Step
from cule.replay.trajectory import Rollout, TrajectoryBuffer
from cule.replay.transitions import Batch

if TYPE_CHECKING:
    from cule.replay.prioritized import PrioritizedReplay
    from cule.replay.replay_writer import ReplayWriter
    from cule.replay.shared import SharedPrioritizedReplay, WriterStatus
    from cule.replay.shared_memory import SharedHandle
    from cule.replay.uniform import UniformReplay

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "prioritized": ("PrioritizedReplay",),
        "replay_writer": ("ReplayWriter",),
        "shared": ("SharedPrioritizedReplay", "WriterStatus"),
        "shared_memory": ("SharedHandle",),
        "uniform": ("UniformReplay",),
    },
)

__all__ = [
    "Batch",
    "CapacityError",
    "CheckpointError",
    "DisconnectedError",
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
    "WriterStatus",
]
