"""Which viewer plays which environment, with which keys."""

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
    env: int
    heard_s: float  # time of the viewer's last request
    held: Keys = frozenset()
    tapped: Keys = frozenset()  # pressed since the last step, perhaps released since


class Players:
    """Viewers who play an environment each; for one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without players; `clock` returns seconds."""
        self._clock = clock
        self._by_viewer: dict[str, _Player] = {}

    def play(self, viewer: str, env: int, keys: Keys) -> None:
        """Hold keys in an environment, and start to play it.

        A viewer plays one environment: the previous one returns to the policy.

        Raises:
            RequestError: Another viewer plays it.
        """
        self._drop_silent()
        if self.by_env().get(env, viewer) != viewer:
            raise RequestError(f"console is {env}, which another viewer plays", HTTPStatus.CONFLICT)
        player = self._by_viewer.get(viewer)
        if player is None or player.env != env:
            player = self._by_viewer[viewer] = _Player(env, self._clock())
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
        return self._by_viewer[viewer].env

    def by_env(self) -> dict[int, str]:
        """Viewers by the environment that they play."""
        self._drop_silent()
        return {player.env: viewer for viewer, player in self._by_viewer.items()}

    def pop_keys(self) -> dict[int, Keys]:
        """Held and tapped keys for the next step, of each environment that a viewer plays."""
        self._drop_silent()
        keys = {}
        for player in self._by_viewer.values():
            keys[player.env] = player.held | player.tapped
            player.tapped = frozenset()
        return keys

    def _drop_silent(self) -> None:
        earliest_s = self._clock() - TIMEOUT_S
        for viewer, player in list(self._by_viewer.items()):
            if player.heard_s < earliest_s:
                del self._by_viewer[viewer]
