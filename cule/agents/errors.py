"""Errors of training runs."""

from __future__ import annotations

from cule.errors import CuleError


class CheckpointError(CuleError, ValueError):
    """A file is no checkpoint, is damaged, or belongs to another algorithm or shape."""


class DivergedError(CuleError, ArithmeticError):
    """A loss or a weight is no longer a finite number."""
