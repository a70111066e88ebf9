"""Time: turns that come at a fixed rate, and how many there have been."""

from __future__ import annotations

import time

#: Seconds that a rate is the mean of.
_WINDOW_S = 1.0


class Pace:
    """Turns at a fixed distance; after a delay one turn at most is made up for."""

    def __init__(self, period_s: float) -> None:
        """Make the first turn due now.

        Args:
            period_s: Distance of turns; 0: always due.
        """
        self._period_s = period_s
        self._due_s = time.monotonic()

    def wait_s(self) -> float:
        """Seconds until the next turn; 0 where it is due."""
        return max(0.0, self._due_s - time.monotonic()) if self._period_s else 0.0

    def take_turn(self) -> None:
        """Count the turn that is due as taken."""
        earliest_s = time.monotonic() - self._period_s
        self._due_s = max(self._due_s, earliest_s) + self._period_s


class Meter:
    """How often something happens.

    Attributes:
        rate: Times a second, over the last whole second or so.
    """

    def __init__(self) -> None:
        """Begin to count now."""
        self.rate = 0.0
        self._count, self._since_s = 0, time.monotonic()

    def add(self, count: int) -> None:
        """Count what has happened."""
        self._count += count
        now_s = time.monotonic()
        if now_s - self._since_s >= _WINDOW_S:
            self.rate = self._count / (now_s - self._since_s)
            self._count, self._since_s = 0, now_s
