"""Errors a user can meet: each is a `CuleError` and also the built-in kind a caller would catch."""

from __future__ import annotations

import reprlib
import sys
import warnings


class CuleError(Exception):
    """Base of every error that cule raises on purpose."""


class InvalidArgumentError(CuleError, ValueError):
    """An argument is of the wrong kind or outside its allowed values."""


class InvalidActionError(CuleError, ValueError):
    """An action has the wrong shape, dtype or range."""


class InvalidStateError(CuleError, ValueError):
    """Saved state bytes are damaged, or belong to another game."""


class StateVersionError(InvalidStateError):
    """Saved state bytes have another version of their format."""


class UnknownGameError(CuleError, ValueError):
    """No game has this name."""


class RomNotFoundError(CuleError, FileNotFoundError, RuntimeError):
    """No file with the bytes of this ROM was found."""


class UnsupportedRomError(CuleError, ValueError):
    """The bytes are not a ROM that can be run as asked."""


class RulesError(CuleError, ValueError):
    """A table of game rules or console facts is not well formed."""


class DeviceError(CuleError, RuntimeError):
    """The device asked for is not there, is not built in, or has failed."""


class OutOfDeviceMemoryError(DeviceError, MemoryError):
    """The environments asked for do not fit into the memory of the device."""


class OutOfMemoryError(CuleError, MemoryError):
    """The environments asked for do not fit into the memory of this process."""


class ThreadStartError(CuleError, RuntimeError):
    """A thread cannot be started; the message says how many were wanted and started."""


class NotResetError(CuleError, RuntimeError):
    """A step was asked for before the first reset, or after the end of an episode."""


class CheckpointError(CuleError, ValueError):
    """A saved run or replay memory is damaged, or is of another algorithm or shape."""


class CheckpointNotFoundError(InvalidArgumentError, FileNotFoundError):
    """There is no checkpoint or run of this name."""


class DatasetError(CuleError, ValueError):
    """A dataset is damaged, or was recorded with another ROM or version of the format."""


class DigestMismatchError(DatasetError):
    """A trajectory of a dataset differs from its recording."""


class ClosedError(CuleError, RuntimeError):
    """The environment has been closed."""


class MissingPackageError(CuleError, ImportError):
    """A package that a command needs is not installed."""


class CapacityError(InvalidArgumentError, MemoryError):
    """A replay buffer does not fit into the memory of its device; the message says what would."""


class NotReadyError(CuleError, RuntimeError):
    """A replay buffer has nothing to sample yet, or its `start` has not been called."""


class DisconnectedError(CuleError, RuntimeError):
    """A shared replay buffer or its writer has been closed, or its learner has ended."""


class ClusterError(CuleError, RuntimeError):
    """A Ray cluster cannot be reached, or one of its nodes lacks what a run needs."""


class ShortReplayWarning(UserWarning):
    """A ring spans so few steps of each environment that its data is nearly on-policy."""


class DivergedError(CuleError, ArithmeticError):
    """A loss or weight is no longer a finite number."""


class TrainingMemoryError(CuleError, MemoryError):
    """Environments, network, buffer or update do not fit into memory."""


class StorageError(CuleError, OSError):
    """A file of a run cannot be written; the message says which, and how large it is."""


class VideoError(CuleError, OSError):
    """A video cannot be written."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the line of the user's that led to it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    """Whether a module is of this package, or of Gymnasium, which calls it."""
    return module.partition(".")[0] in ("cule", "gymnasium")


#: Characters of a value in a message.
_SHOWN_CHARS = 200

#: Bits of an integer that is written out.
_SHOWN_BITS = 128


class _Repr(reprlib.Repr):
    """Texts of values that do not take long, however large the values are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _SHOWN_CHARS
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxarray = 8
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _SHOWN_BITS:  # Python writes out few digits, and those slowly
            return f"an integer of {x.bit_length()} bits"
        return repr(x)

    def repr_bytes(self, x: bytes | bytearray, level: int) -> str:
        return repr(x) if len(x) <= _SHOWN_CHARS // 2 else f"{type(x).__name__} of length {len(x)}"

    repr_bytearray = repr_bytes


_REPR = _Repr()


def shown(value: object) -> str:
    """A value in a message: as Python writes it, in one line, abbreviated where it is long."""
    text = " ".join(_REPR.repr(value).split())
    return text if len(text) <= 2 * _SHOWN_CHARS else f"{text[: 2 * _SHOWN_CHARS]}..."


def printable(text: str) -> str:
    """A line for a terminal: names of files may have control characters, or bytes of no text."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return plain.encode(encoding, "backslashreplace").decode(encoding)
