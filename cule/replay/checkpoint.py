"""The state of a buffer, as a file.

A file holds a kind (the class), a description (options, as text) and tensors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor

from cule.errors import CheckpointError, shown
from cule.tensor_files import load_tensors, save_tensors

FORMAT = 2

#: Tensors that count steps, blocks or transitions, and what none of them reaches.
_COUNTS = frozenset(("head", "final_count", "position", "order_head", "published", "next", "known"))
MAX_COUNT = 2**62

State = dict[str, object]


def make_state(kind: str, description: dict[str, str], tensors: dict[str, Tensor]) -> State:
    """The content of a checkpoint; the tensors are not copied."""
    return {"format": FORMAT, "kind": kind, "description": description, "tensors": tensors}


def restore_state(
    state: State,
    kind: str,
    description: dict[str, str],
    tensors: dict[str, Tensor],
    most: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Copy the tensors of a state into those of a buffer; CheckpointError: nothing was copied.

    Values of the tensors named in `most` are in 0..most, and NaN is not.
    """
    if not isinstance(state, dict) or state.get("format") != FORMAT or state.get("kind") != kind:
        raise CheckpointError(f"this is no saved {kind} of format {FORMAT}")
    saved, held = state.get("description"), state.get("tensors")
    if not isinstance(saved, dict) or not isinstance(held, dict):
        raise CheckpointError(f"this saved {kind} has no description or no tensors")
    for name, value in description.items():
        if saved.get(name) != value:
            raise CheckpointError(
                f"the saved {name} is {shown(saved.get(name))}; it must be {value}, as in this "
                "buffer"
            )
    for name, target in tensors.items():
        source = held.get(name)
        if not isinstance(source, Tensor) or not _has_data(source):
            raise CheckpointError(f"this saved {kind} has no tensor {shown(name)}")
        if source.shape != target.shape or source.dtype != target.dtype:
            raise CheckpointError(
                f"the saved {shown(name)} is {source.dtype} {tuple(source.shape)}; it must be "
                f"{target.dtype} {tuple(target.shape)}, as in this buffer"
            )
        is_count = name in _COUNTS and bool(((source < -1) | (source >= MAX_COUNT)).any())
        is_outside = name in most and not bool(((source >= 0) & (source <= most[name])).all())
        if is_count or is_outside:
            raise CheckpointError(f"the saved {shown(name)} is {shown(source.tolist())}")
    for name, target in tensors.items():
        target.copy_(held[name])


def _has_data(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type != "meta"


def load_state(path: str | os.PathLike[str]) -> State:
    """Read a checkpoint, mapped: a buffer may be as large as the memory."""
    return cast(State, load_tensors(path, mmap=True))


class Saveable:
    """A buffer that can be saved and restored."""

    generator: torch.Generator

    def _tensors(self) -> dict[str, Tensor]:
        """The content of the buffer, by name."""
        raise NotImplementedError

    def _description(self) -> dict[str, str]:
        """Options that a restored buffer must share."""
        raise NotImplementedError

    def _most(self) -> dict[str, Tensor]:
        """The largest values of tensors that have none below 0, by name."""
        return {}

    def _restored(self) -> None:
        """Update the host after the tensors have been restored."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """The content of the buffer; the tensors are views, not copies."""
        tensors = {**self._tensors(), "generator": self.generator.get_state()}
        return make_state(type(self).__name__, self._description(), tensors)

    def load_state_dict(self, state: State) -> None:
        """Replace the content of the buffer by a state that was saved on any device.

        Raises:
            CheckpointError: The state is not of such a buffer; the buffer is unchanged.
        """
        saved = self._generator_state(state)
        parts = self._description(), self._tensors(), self._most()
        restore_state(state, type(self).__name__, *parts)
        if saved is not None:
            self.generator.set_state(saved)
        self._restored()

    def _generator_state(self, state: State) -> Tensor | None:
        """The saved state of the generator; None: there is none for this kind of device.

        Raises:
            CheckpointError: It is no state of a generator.
        """
        held = state.get("tensors") if isinstance(state, dict) else None
        saved = held.get("generator") if isinstance(held, dict) else None
        # The state of a generator of another kind of device has another size.
        if not isinstance(saved, Tensor) or saved.shape != self.generator.get_state().shape:
            return None
        try:
            torch.Generator(self.generator.device).set_state(saved)
        except (RuntimeError, TypeError) as error:
            raise CheckpointError(f"the saved generator is damaged: {error}") from None
        return saved

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to a file; it replaces an existing file once it is complete.

        Raises:
            OSError: Writing failed; an existing file is unchanged.
        """
        save_tensors(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the content of the buffer by a file of `save`.

        Raises:
            OSError: There is no such file, or it cannot be read.
            CheckpointError: It is damaged, or of another buffer; the buffer is unchanged.
        """
        self.load_state_dict(load_state(path))
