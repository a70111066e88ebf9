"""Replay: what environments did, kept on the device where learners read it.

* `UniformReplay`: a ring of steps of N environments, sampled uniformly;
* `PrioritizedReplay`: the same, sampled in proportion to priorities;
"""

from __future__ import annotations

from cule.replay.errors import (
    CapacityError,
    CheckpointError,
    DisconnectedError,
    NotReadyError,
    ShortReplayWarning,
)
from cule.replay.gather import Batch
from cule.replay.options import PrioritizedOptions, ReplayOptions
from cule.replay.prioritized import PrioritizedReplay
from cule.replay.steps import Step
from cule.replay.uniform import UniformReplay

__all__ = [
    "Batch",
    "CapacityError",
    "CheckpointError",
    "DisconnectedError",
    "NotReadyError",
    "PrioritizedOptions",
    "PrioritizedReplay",
    "ReplayOptions",
    "ShortReplayWarning",
    "Step",
    "UniformReplay",
]
