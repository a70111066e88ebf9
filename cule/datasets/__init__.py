"""Exact datasets as action logs: about one byte a step instead of frames.

* `Recorder` steps an `AtariVectorEnv`, and writes seeds, actions and digests to one file;
* `open_dataset` reads such a file as a `Dataset`, which plays it again: `Dataset.replay` yields
  every step, `Dataset.transitions` shuffled batches.

* `cule.datasets.minari` exports to Minari and imports from it.

The unit is a trajectory: one environment from ``reset(seed=...)`` on, with all of its episodes,
because the start of a later episode depends on the random stream, which the earlier ones advance.

Data flows one way: actions -> log (`recorder`) -> file (`format`) -> environments (`playback`) ->
batches (`shuffling`). Digests of RAM and returns (`digests`), made while recording, are compared
while playing.
"""

from __future__ import annotations

from cule.datasets.dataset import Dataset, Episode, open_dataset
from cule.datasets.playback import ReplayStep
from cule.datasets.recorder import Recorder
from cule.datasets.shuffling import Transitions
from cule.errors import DatasetError, DigestMismatchError

__all__ = [
    "Dataset",
    "DatasetError",
    "DigestMismatchError",
    "Episode",
    "Recorder",
    "ReplayStep",
    "Transitions",
    "open_dataset",
]
