"""Which viewer plays which seat of which environment, with which keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from cule.watch.keys import Keys
from cule.watch.messages import RequestError

#: Seconds without a request after which a viewer has left; a page sends several each second.
TIMEOUT_S = 3.0


@dataclass
class _Player:
    slot: int  # env * seats + seat
    heard_s: float  # time of the viewer's last request
    held: Keys = frozenset()
    tapped: Keys = frozenset()  # pressed since the last step, perhaps released since


class Players:
    """Viewers who play a seat of an environment each; for one thread at a time.

    Slots number the seats of all environments: ``env * seats + seat``.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        seats: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Start without players; `clock` returns seconds, and environments have so many seats."""
        self._clock, self._seats, self._timeout_s = clock, seats, timeout_s
        self._by_viewer: dict[str, _Player] = {}

    def play(self, viewer: str, env: int, keys: Keys) -> None:
        """Hold keys in an environment, and start to play it, in its first free seat.

        A viewer plays one environment: the previous one returns to the policy.

        Raises:
            RequestError: Other viewers have all its seats.
        """
        self._drop_silent()
        player = self._by_viewer.get(viewer)
        if player is None or player.slot // self._seats != env:
            first, taken = env * self._seats, self.by_slot()
            free = [slot for slot in range(first, first + self._seats) if slot not in taken]
            if not free:
                others = "another viewer plays" if self._seats == 1 else "other viewers play"
                raise RequestError(f"console is {env}, which {others}", HTTPStatus.CONFLICT)
            player = self._by_viewer[viewer] = _Player(free[0], self._clock())
        player.heard_s = self._clock()
        player.held = keys
        player.tapped |= keys

    def release(self, viewer: str) -> None:
        """Return the viewer's environment, if any, to the policy."""
        self._by_viewer.pop(viewer, None)

    def hear(self, viewer: str) -> None:
        """Record that a viewer is still present."""
        self._drop_silent()
        if viewer in self._by_viewer:
            self._by_viewer[viewer].heard_s = self._clock()

    def env_of(self, viewer: str) -> int:
        """The environment that a viewer plays, or a RequestError."""
        self._drop_silent()
        if viewer not in self._by_viewer:
            raise RequestError(
                "this viewer plays no environment; it must play one first", HTTPStatus.CONFLICT
            )
        return self._by_viewer[viewer].slot // self._seats

    def by_slot(self) -> dict[int, str]:
        """Viewers by the slot that they play."""
        self._drop_silent()
        return {player.slot: viewer for viewer, player in self._by_viewer.items()}

    def pop_keys(self) -> dict[int, Keys]:
        """Held and tapped keys for the next step, of each slot that a viewer plays."""
        self._drop_silent()
        keys = {}
        for player in self._by_viewer.values():
            keys[player.slot] = player.held | player.tapped
            player.tapped = frozenset()
        return keys

    def _drop_silent(self) -> None:
        earliest_s = self._clock() - self._timeout_s
        for viewer, player in list(self._by_viewer.items()):
            if player.heard_s < earliest_s:
                del self._by_viewer[viewer]
