"""Errors of training runs."""

from __future__ import annotations

from cule.errors import CuleError


class DivergedError(CuleError, ArithmeticError):
    """A loss or weight is no longer a finite number."""


class TrainingMemoryError(CuleError, MemoryError):
    """Environments, network, buffer or update do not fit into memory."""


class VideoError(CuleError, OSError):
    """A video cannot be written."""
