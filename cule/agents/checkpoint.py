"""Checkpoints: one file that is either complete or not there, and holds no code.

It is written beside its final place, flushed to the disk, and renamed. Reading it unpickles tensors
and plain values only.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from cule.errors import CheckpointError

#: Changes when what a checkpoint holds changes its meaning.
FORMAT = 1


def write_checkpoint(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a checkpoint.

    Args:
        path: Where to; the folder is made where it is missing. What is there is replaced.
        content: Tensors and plain values, in dictionaries and lists.

    Raises:
        OSError: The disk does not take it; an older file of this name is as it was.
    """
    replace_file(path, lambda file: torch.save({"format": FORMAT, **content}, file))


def replace_file(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file that is either complete or not there.

    Args:
        path: Where to; the folder is made where it is missing. What is there is replaced.
        write: Writes the content.

    Raises:
        OSError: The disk does not take it; an older file of this name is as it was.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote, to the CPU.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: It is no checkpoint, is damaged, or of another format.
    """
    with Path(path).open("rb") as file:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        # torch seeks to where a cut file says its parts are, which may be nowhere: an OSError.
        except (RuntimeError, ValueError, OSError, EOFError, pickle.UnpicklingError) as error:
            raise CheckpointError(f"{path} is no checkpoint, or is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of format {FORMAT}")
    return content


def remove_leftovers(folder: Path) -> None:
    """Delete unfinished files of a process that was killed while it wrote."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)
