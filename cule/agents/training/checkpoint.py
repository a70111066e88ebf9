"""Checkpoints: files that are either complete or absent, and that contain no code.

Reading one unpickles tensors and plain values only; `files` writes them.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, cast

import torch
from torch import Tensor

from cule.errors import CheckpointError
from cule.files import replace_file

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
    replace_file(path, lambda file: torch.save({"format": FORMAT, **content}, file))


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint to the CPU."""
    with Path(path).open("rb") as file:
        try:
            content: object = torch.load(file, map_location="cpu", weights_only=True)
        # In a truncated file torch may seek to a place that does not exist: an OSError.
        except (RuntimeError, ValueError, OSError, EOFError, pickle.UnpicklingError) as error:
            raise CheckpointError(f"{path} is not a checkpoint, or is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of format {FORMAT}")
    return cast(Checkpoint, content)
