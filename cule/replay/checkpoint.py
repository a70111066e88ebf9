"""Tensors to a file and back, so that a file is either complete or not there.

A file holds a kind (which class), a description (options, as text), and tensors. It is written
beside its final place, flushed to the disk and then renamed: a crash at any moment leaves the old
file, or none. Reading maps the file, so that a buffer as large as the memory can be restored.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cule.errors import CheckpointError

FORMAT = 1

State = dict[str, Any]


def make_state(kind: str, description: dict[str, str], tensors: dict[str, Tensor]) -> State:
    """What a checkpoint holds; the tensors are not copied."""
    return {"format": FORMAT, "kind": kind, "description": description, "tensors": tensors}


def restore_state(
    state: State, kind: str, description: dict[str, str], tensors: dict[str, Tensor]
) -> None:
    """Copy the tensors of a checkpoint into those of a buffer.

    Args:
        state: What `make_state` made.
        kind: As there.
        description: Options that must be the same; others in the checkpoint do not matter.
        tensors: Where to copy to.

    Raises:
        CheckpointError: It is none, or one of another buffer; nothing has been copied.
    """
    if not isinstance(state, dict) or state.get("format") != FORMAT or state.get("kind") != kind:
        raise CheckpointError(f"this is no saved {kind} of format {FORMAT}")
    saved, held = state.get("description"), state.get("tensors")
    if not isinstance(saved, dict) or not isinstance(held, dict):
        raise CheckpointError(f"this saved {kind} has no description or no tensors")
    for name, value in description.items():
        if saved.get(name) != value:
            raise CheckpointError(
                f"this was saved with {name} = {saved.get(name)}; this buffer has {value}"
            )
    for name, target in tensors.items():
        source = held.get(name)
        if not isinstance(source, Tensor):
            raise CheckpointError(f"this saved {kind} has no tensor {name!r}")
        if source.shape != target.shape or source.dtype != target.dtype:
            raise CheckpointError(
                f"the saved {name!r} is {source.dtype} {tuple(source.shape)}; this buffer has "
                f"{target.dtype} {tuple(target.shape)}"
            )
    for name, target in tensors.items():
        target.copy_(held[name])


def save_state(state: State, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint, replacing a file of this name only once it is complete on the disk.

    Args:
        state: What `make_state` made.
        path: Where to; its folder must exist.

    Raises:
        OSError: The folder or the disk does not take it; a file of this name is as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    # The name is in the folder, which has to reach the disk as well.
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_state(path: str | os.PathLike[str]) -> State:
    """Read a checkpoint. Only tensors and plain values are unpickled, never code.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: It is no checkpoint, or damaged.
    """
    try:
        state: State = torch.load(Path(path), map_location="cpu", mmap=True, weights_only=True)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} is no saved buffer, or is damaged: {error}") from None
    return state


class Saveable:
    """A buffer that can be saved and restored; it says which tensors, and what must be the same."""

    generator: torch.Generator

    def _tensors(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def _description(self) -> dict[str, str]:
        raise NotImplementedError

    def _restored(self) -> None:
        """Bring what the host knows up to date with the tensors."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """Everything that is in the buffer; the tensors are views, not copies."""
        tensors = {**self._tensors(), "generator": self.generator.get_state()}
        return make_state(type(self).__name__, self._description(), tensors)

    def load_state_dict(self, state: State) -> None:
        """Replace everything in the buffer, on whatever device it was saved.

        Raises:
            CheckpointError: It is no state of such a buffer; nothing has changed.
        """
        # A generator of another device has a state of another size, and is left as it is.
        mine, tensors = self.generator.get_state(), self._tensors()
        held = state.get("tensors") if isinstance(state, dict) else None
        theirs = held.get("generator") if isinstance(held, dict) else None
        restore_state(state, type(self).__name__, self._description(), tensors)
        if isinstance(theirs, Tensor) and theirs.shape == mine.shape:
            self.generator.set_state(theirs)
        self._restored()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole buffer to a file, which is replaced only once it is complete.

        Raises:
            OSError: It cannot be written; a file of this name is as it was.
        """
        save_state(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace everything in the buffer by what `save` wrote.

        Raises:
            FileNotFoundError: There is no such file.
            CheckpointError: It is damaged, or of another buffer; nothing has changed.
        """
        self.load_state_dict(load_state(path))
