"""Checkpoints: what is in them, and which files are none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypedDict, cast

from torch import Tensor

from cule.errors import CheckpointError
from cule.tensor_files import load_tensors, save_tensors

#: Increases when the content of a checkpoint changes its meaning.
FORMAT = 1

#: Scalars that an update reports, on the device or as numbers.
Metrics = Mapping[str, Tensor | float]


class PolicyState(TypedDict):
    """The part of a checkpoint that playing needs; a file of weights holds the same."""

    algorithm: str
    version: str
    config: dict[str, object]
    obs_shape: list[int]
    num_actions: int
    steps: int
    updates: int
    network: dict[str, Tensor]


class Checkpoint(PolicyState):
    """Content of a checkpoint."""

    optimizer: dict[str, object]
    generator: Tensor
    statistics: Tensor
    metrics: dict[str, Tensor | float]
    world_size: int
    has_begun: bool
    env: object
    """Snapshots of the environments, uint8 ``[N, bytes]``; None before the first step."""
    extra: Mapping[str, object]
    """State of the algorithm, such as its buffer."""


def write_checkpoint(path: str | os.PathLike[str], content: Mapping[str, object]) -> None:
    """Write a checkpoint, replacing an existing file."""
    save_tensors(path, {"format": FORMAT, **content})


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint to the CPU."""
    content = load_tensors(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of format {FORMAT}")
    return cast(Checkpoint, content)
