"""The stepping loop, and what viewers ask of it.

`Session.run` is the loop: it waits for its turn, carries out orders, steps the consoles, and takes
a picture where a viewer is waiting for one. It alone touches the consoles. All other methods may be
called from any thread: they hold the lock for a moment, and leave orders or read what the loop has
published. Nothing else is shared, so that a slow viewer delays nobody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from cule.watch.camera import Camera, Picture
from cule.watch.consoles import Consoles
from cule.watch.errors import RequestError
from cule.watch.keys import Keys
from cule.watch.pace import Meter, Pace
from cule.watch.players import Players

#: Most pictures a second, by default.
MOST_FPS = 60

#: Longest time that the loop sleeps, and so that it takes to notice `Session.stop`.
_POLL_S = 0.1


@dataclass
class _Orders:
    """What viewers have asked the loop to do, whether it is paused or not."""

    resets: set[int] = field(default_factory=set)  # consoles
    num_steps: int = 0  # 0 or 1
    picture: bool = False

    def __bool__(self) -> bool:
        return bool(self.resets or self.num_steps or self.picture)


class Session:
    """Consoles that run in real time while viewers look at them and play.

    Attributes:
        num_consoles: Consoles N.
    """

    def __init__(self, consoles: Consoles, *, speed: float = 1.0, fps: float = MOST_FPS) -> None:
        """Publish the first picture.

        Args:
            consoles: What runs; the session's own until `run` has returned.
            speed: How many times as fast as a real console; 0: as fast as possible.
            fps: Most pictures a second; viewers share them.
        """
        config = consoles.env.config
        self.num_consoles = config.num_envs
        self._consoles = consoles
        self._frameskip = config.frameskip
        self._camera = Camera(consoles.env)
        self._step_pace = Pace(config.frameskip / consoles.env.frame_rate / speed if speed else 0.0)
        self._picture_pace = Pace(1 / fps)
        self._meter = Meter()
        self._players = Players()
        self._orders = _Orders()
        self._changed = threading.Condition()
        self._is_paused = False
        self._is_stopped = False
        self._is_awaited = True  # whether a viewer waits for a picture
        self._number = 0  # of what the consoles show; counts steps and resets
        self._facts = {
            "game": config.game,
            "policy": consoles.policy.title,
            "columns": self._camera.columns,
        }
        self._publish()

    # --- The loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Step the consoles until `stop`.

        Raises:
            CuleError: Of the environment; waiting viewers are sent away then as well.
        """
        try:
            while (turn := self._next_turn()) is not None:
                orders, keys = turn
                if orders.resets:
                    self._consoles.reset(orders.resets)
                if keys is not None:
                    self._consoles.step(keys)
                    self._meter.add(self._frameskip)
                self._number += bool(orders.resets) + (keys is not None)
                self._publish(at_once=bool(orders))
        finally:
            self.stop()
            with self._changed:
                self._changed.notify_all()

    def stop(self) -> None:
        """Make `run` return soon; takes no lock, so that a signal handler may call it."""
        self._is_stopped = True

    def _next_turn(self) -> tuple[_Orders, dict[int, Keys] | None] | None:
        """Wait for something to do.

        Returns:
            Orders, and the keys to step with, or None where no step is due; None after `stop`.
        """
        with self._changed:
            while not self._is_stopped:
                is_due = not self._is_paused and not self._step_pace.wait_s()
                if is_due or self._orders:
                    return self._begin_turn(is_due)
                wait_s = _POLL_S if self._is_paused else self._step_pace.wait_s()
                self._changed.wait(min(wait_s, _POLL_S))
        return None

    def _begin_turn(self, is_due: bool) -> tuple[_Orders, dict[int, Keys] | None]:
        orders, self._orders = self._orders, _Orders()
        if not is_due and not orders.num_steps:
            return orders, None
        if is_due:
            self._step_pace.take_turn()
        return orders, self._players.take_keys()

    def _publish(self, *, at_once: bool = False) -> None:
        """Let viewers see where the consoles are.

        Args:
            at_once: With a picture, whether or not the next one is due.
        """
        board = self._consoles.board()
        picture = None
        if at_once or (self._is_awaited and not self._picture_pace.wait_s()):
            self._picture_pace.take_turn()
            picture = self._camera.take(self._number)
        with self._changed:
            self._board = board
            if picture is not None:
                self._picture = picture
                self._is_awaited = False
                self._changed.notify_all()

    # --- Viewers ----------------------------------------------------------------------------------

    def picture(self, after: int, viewer: str, timeout_s: float) -> Picture | None:
        """A picture other than one that the viewer has.

        Args:
            after: Number of that one.
            viewer: Who asks.
            timeout_s: How long to wait.

        Returns:
            The newest picture; None where there is no other yet, or after `stop`.
        """
        with self._changed:
            self._players.hear(viewer)
            self._is_awaited = True
            self._changed.wait_for(
                lambda: self._is_stopped or self._picture.number != after, timeout_s
            )
            self._is_awaited = True  # who has got a picture comes back for the next
            return None if self._picture.number == after else self._picture

    def state(self, viewer: str) -> dict[str, Any]:
        """What is written around and under the screens; plain values.

        Args:
            viewer: Who asks; where ``player`` is "you", it is this viewer.
        """
        with self._changed:
            self._players.hear(viewer)
            holders = self._players.by_console()
            board, rate, is_paused = self._board, self._meter.rate, self._is_paused
        rows = zip(*(numbers.tolist() for numbers in board), strict=True)
        consoles = [
            {
                "score": score,
                "last_score": last_score if episode > 1 else None,
                "lives": lives,
                "episode": episode,
                "player": _who(holders.get(console), viewer),
            }
            for console, (score, last_score, lives, episode) in enumerate(rows)
        ]
        frames_per_s = 0.0 if is_paused else round(rate, 1)
        return {
            **self._facts,
            "paused": is_paused,
            "frames_per_s": frames_per_s,
            "consoles": consoles,
        }

    def play(self, viewer: str, console: int, keys: Keys) -> None:
        """Take a console over, or go on playing it.

        Args:
            viewer: Who.
            console: Which.
            keys: What is held from now on.

        Raises:
            RequestError: There is no such console, or another viewer plays it.
        """
        if not 0 <= console < self.num_consoles:
            raise RequestError(f"console is {console}; it must be in 0..{self.num_consoles - 1}")
        with self._changed:
            self._players.play(viewer, console, keys)

    def release(self, viewer: str) -> None:
        """Give the console that a viewer plays back to the policy."""
        with self._changed:
            self._players.release(viewer)

    def pause(self, paused: bool) -> None:
        """Stop all consoles, or let them go on."""
        with self._changed:
            self._is_paused = paused
            # What viewers look at from now on is where the consoles stand.
            self._orders.picture = paused
            self._changed.notify_all()

    def step_once(self) -> None:
        """Pause, and advance all consoles by one step."""
        with self._changed:
            self._is_paused = True
            self._orders.num_steps = 1
            self._changed.notify_all()

    def reset(self, viewer: str) -> None:
        """Begin a new episode in the console that a viewer plays.

        Raises:
            RequestError: The viewer plays none.
        """
        with self._changed:
            self._orders.resets.add(self._players.console_of(viewer))
            self._changed.notify_all()


def _who(holder: str | None, viewer: str) -> str | None:
    if holder is None:
        return None
    return "you" if holder == viewer else "another"
