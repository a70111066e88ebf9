"""Timing: events at a fixed rate, and the rate of events."""

from __future__ import annotations

import time

#: Seconds over which a rate is averaged.
_WINDOW_S = 1.0


class Pace:
    """Events at a fixed period; after a delay it catches up by at most one event."""

    def __init__(self, period_s: float) -> None:
        """Make the first event due now; with a period of 0, events are always due."""
        self._period_s = period_s
        self._due_s = time.monotonic()

    def wait_s(self) -> float:
        """Seconds until the next event; 0 if it is due."""
        return max(0.0, self._due_s - time.monotonic()) if self._period_s else 0.0

    def advance(self) -> None:
        """Schedule the next event after one that was due."""
        earliest_s = time.monotonic() - self._period_s
        self._due_s = max(self._due_s, earliest_s) + self._period_s


class Meter:
    """The rate of events.

    Attributes:
        rate: Events per second, over the last second or so.
    """

    def __init__(self) -> None:
        """Start counting."""
        self.rate = 0.0
        self._count, self._since_s = 0, time.monotonic()

    def add(self, count: int) -> None:
        """Count events."""
        self._count += count
        now_s = time.monotonic()
        if now_s - self._since_s >= _WINDOW_S:
            self.rate = self._count / (now_s - self._since_s)
            self._count, self._since_s = 0, now_s
