"""Which viewer plays which console, and with what keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from cule.watch.errors import RequestError
from cule.watch.keys import Keys

#: Seconds after which a viewer who asks for nothing has gone; a page asks several times a second.
LEASE_S = 3.0


@dataclass
class _Player:
    console: int
    heard_s: float  # when the viewer last asked for anything
    held: Keys = frozenset()
    tapped: Keys = frozenset()  # pressed since the last step, perhaps not held any more


class Players:
    """Viewers who play a console each; not for several threads at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nobody.

        Args:
            clock: Seconds, from any beginning.
        """
        self._clock = clock
        self._by_viewer: dict[str, _Player] = {}

    def play(self, viewer: str, console: int, keys: Keys) -> None:
        """Hold keys of a console, which is the viewer's from now on.

        A viewer plays one console: the one before goes back to the policy.

        Raises:
            RequestError: Another viewer plays it.
        """
        self._drop_silent()
        if self.by_console().get(console, viewer) != viewer:
            raise RequestError(
                f"console is {console}, which another viewer plays", HTTPStatus.CONFLICT
            )
        player = self._by_viewer.get(viewer)
        if player is None or player.console != console:
            player = self._by_viewer[viewer] = _Player(console, self._clock())
        player.heard_s = self._clock()
        player.held = keys
        player.tapped |= keys

    def release(self, viewer: str) -> None:
        """Give the viewer's console back to the policy, if there is one."""
        self._by_viewer.pop(viewer, None)

    def hear(self, viewer: str) -> None:
        """Note that a viewer is still there."""
        self._drop_silent()
        if viewer in self._by_viewer:
            self._by_viewer[viewer].heard_s = self._clock()

    def console_of(self, viewer: str) -> int:
        """The console that a viewer plays.

        Raises:
            RequestError: None.
        """
        self._drop_silent()
        if viewer not in self._by_viewer:
            raise RequestError("this viewer plays no console; take one first", HTTPStatus.CONFLICT)
        return self._by_viewer[viewer].console

    def by_console(self) -> dict[int, str]:
        """Viewers by the console they play."""
        self._drop_silent()
        return {player.console: viewer for viewer, player in self._by_viewer.items()}

    def take_keys(self) -> dict[int, Keys]:
        """Keys for the next step by console: what is held, and what was only tapped since the last.

        Returns:
            An entry for each console that a viewer plays, without keys too.
        """
        self._drop_silent()
        keys = {}
        for player in self._by_viewer.values():
            keys[player.console] = player.held | player.tapped
            player.tapped = frozenset()
        return keys

    def _drop_silent(self) -> None:
        earliest_s = self._clock() - LEASE_S
        for viewer, player in list(self._by_viewer.items()):
            if player.heard_s < earliest_s:
                del self._by_viewer[viewer]
