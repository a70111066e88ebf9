"""What can go wrong in a benchmark, beside refused options."""

from __future__ import annotations

from cule.errors import CuleError


class DifferentResultsError(CuleError, RuntimeError):
    """Two engines that must agree returned different arrays; their speed means nothing."""


class EngineMissingError(CuleError, ImportError):
    """An engine, or something that a load needs, is not there; the message says what."""


class OtherRunError(CuleError, FileExistsError):
    """The folder holds records of another run."""
