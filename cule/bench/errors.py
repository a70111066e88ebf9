"""Errors of a benchmark besides invalid options."""

from __future__ import annotations

from cule.errors import CuleError


class DifferentResultsError(CuleError, RuntimeError):
    """Two engines that must agree returned different arrays, so their speed means nothing."""


class EngineMissingError(CuleError, ImportError):
    """An engine or a requirement of a load is not available; the message names it."""


class OtherRunError(CuleError, FileExistsError):
    """The folder holds records of another run."""
