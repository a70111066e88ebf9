"""`ByteLocks`: locks between processes that the kernel releases when their holder dies.

They are open-file-description locks on single bytes of a file (fcntl(2), Linux 3.15). A killed
process holds nothing afterwards, so no other process waits forever; and a locked byte shows that
its owner is alive. Two of these objects exclude each other even within one process.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cule.errors import CuleError

if sys.platform == "linux":
    import fcntl

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = "hhqqi0q"


class ByteLocks:
    """Locks on the bytes of a file; for one thread at a time."""

    def __init__(self, path: str) -> None:
        """Open the file anew, so that this object owns its locks.

        Raises:
            OSError: The file cannot be opened.
            CuleError: The system has no such locks.
        """
        if sys.platform != "linux":
            raise CuleError(
                f"this system is {sys.platform!r}; replay that is shared by processes needs Linux, "
                "whose locks end with their process"
            )
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        # A forked child would keep the locks of a dead parent.
        own = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _close_in_child(own))

    def _call(self, command: int, kind: int, byte: int) -> int:
        request = struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0)
        found: int = struct.unpack(_FLOCK, fcntl.fcntl(self._fd, command, request))[0]
        return found

    def try_acquire(self, byte: int) -> bool:
        """Lock a byte unless another owner holds it; return whether it is locked."""
        try:
            self._call(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, byte)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def is_held_elsewhere(self, byte: int) -> bool:
        """Whether another living owner holds a byte."""
        return self._call(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte) != fcntl.F_UNLCK

    @contextmanager
    def held(self, byte: int) -> Iterator[None]:
        """Wait for a byte, and hold it during a ``with`` block."""
        self._call(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, byte)
        try:
            yield
        finally:
            self._call(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte)

    def close(self) -> None:
        """Release all locks."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        """Release all locks."""
        with suppress(AttributeError, OSError):
            self.close()


def _close_in_child(own: weakref.ref[ByteLocks]) -> None:
    locks = own()
    if locks is not None:
        locks.close()
