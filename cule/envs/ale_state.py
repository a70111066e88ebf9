"""A snapshot of a console, as `ALEInterface.cloneState` returns it."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidStateError, shown

# Magic and version; frame, episode frame, mode, difficulty; bytes of the console; digest of all the
# rest.
_HEADER = struct.Struct("<8s4iI16s")
_MAGIC = b"cule-st4"
_DIGEST_BYTES = 16


class StateNumbers(NamedTuple):
    """Queries that a state answers."""

    frame_number: int = 0
    episode_frame_number: int = 0
    mode: int = 0
    difficulty: int = 0


class ALEState:
    """An immutable copy of a console. States are equal when everything in them is."""

    __slots__ = ("_console", "_numbers")

    def __init__(self, serialized: bytes | None = None) -> None:
        """Read what `serialize` wrote; without it, an empty state that cannot be restored.

        Args:
            serialized: The bytes.

        Raises:
            ArgumentTypeError: Not bytes.
            InvalidStateError: The bytes are damaged, or no state.
        """
        self._numbers = StateNumbers()
        self._console = b""
        if serialized is None:
            return
        if not isinstance(serialized, bytes):
            raise ArgumentTypeError(f"serialized is {shown(serialized)}; it must be bytes")
        if len(serialized) < _HEADER.size:
            raise InvalidStateError(
                f"serialized holds {len(serialized)} bytes; a state holds at least {_HEADER.size}"
            )
        magic, *numbers, size, digest = _HEADER.unpack_from(serialized)
        console = serialized[_HEADER.size :]
        if magic[:-1] != _MAGIC[:-1]:
            raise InvalidStateError("serialized is no state: it does not begin as one")
        if magic != _MAGIC:
            raise InvalidStateError(
                "serialized is in another version of the format of states; this version of cule "
                f"reads {_MAGIC[-1:].decode()}. Make the state again here from the seed and the "
                "actions that led to it"
            )
        if size != len(console) or digest != _digest(numbers, console):
            raise InvalidStateError("serialized is a damaged or truncated state")
        self._numbers = StateNumbers(*numbers)
        self._console = console

    @classmethod
    def of(cls, console: bytes, numbers: StateNumbers) -> ALEState:
        """A state of a console's bytes."""
        state = cls()
        state._console = console
        state._numbers = numbers
        return state

    @property
    def console(self) -> bytes:
        """The bytes of the console."""
        return self._console

    def getFrameNumber(self) -> int:
        """Frames since the ROM was loaded."""
        return self._numbers.frame_number

    def getEpisodeFrameNumber(self) -> int:
        """Frames since the last reset."""
        return self._numbers.episode_frame_number

    def getDifficulty(self) -> int:
        """Difficulty switches."""
        return self._numbers.difficulty

    def getCurrentMode(self) -> int:
        """Game mode."""
        return self._numbers.mode

    def serialize(self) -> bytes:
        """The state as bytes."""
        digest = _digest(list(self._numbers), self._console)
        header = _HEADER.pack(_MAGIC, *self._numbers, len(self._console), digest)
        return header + self._console

    def equals(self, other: ALEState) -> bool:
        """Whether everything in two states is equal."""
        return self == other

    def __eq__(self, other: object) -> bool:
        """Whether everything in two states is equal."""
        if not isinstance(other, ALEState):
            return NotImplemented
        return self._numbers == other._numbers and self._console == other._console

    def __hash__(self) -> int:
        """Hash of the content."""
        return hash((self._numbers, self._console))

    def __reduce__(self) -> tuple[type[ALEState], tuple[bytes]]:
        """Pickle as `serialize` has it."""
        return ALEState, (self.serialize(),)


def _digest(numbers: list[int], console: bytes) -> bytes:
    content = struct.pack("<4i", *numbers) + console
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
