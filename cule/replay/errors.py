"""Errors and warnings of replay buffers."""

from __future__ import annotations

from cule.errors import CuleError, InvalidArgumentError


class CapacityError(InvalidArgumentError, MemoryError):
    """The buffer does not fit into the memory of its device; the message says what would."""


class NotReadyError(CuleError, RuntimeError):
    """There is nothing to sample yet, or `start` has not been called."""


class DisconnectedError(CuleError, RuntimeError):
    """A shared buffer or its writer has been closed, or its learner has ended."""


class ShortReplayWarning(UserWarning):
    """The ring spans so few steps of each environment that its data is nearly on-policy."""
