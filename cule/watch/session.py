"""The stepping loop, and the requests of viewers.

`Session.run` is the loop: it waits until a step is due, handles requests, steps the environments,
and renders a picture if a viewer is waiting for one. Only the loop uses the environments. Any
thread may call the other methods: they hold the lock for a moment, and leave requests or read what
the loop has published. Nothing else is shared, so a slow viewer delays no other.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from cule.watch.camera import Camera, Picture
from cule.watch.environments import Environments
from cule.watch.keys import Keys
from cule.watch.messages import RequestError
from cule.watch.pace import Meter, Pace
from cule.watch.players import TIMEOUT_S, Players

#: Most pictures per second, by default.
MOST_FPS = 60

#: Longest sleep of the loop, which bounds the delay of `Session.stop`.
_POLL_S = 0.1


@dataclass
class _Requests:
    """Requests of viewers to the loop, paused or not."""

    resets: set[int] = field(default_factory=set)  # environments
    num_steps: int = 0  # 0 or 1
    picture: bool = False

    def __bool__(self) -> bool:
        return bool(self.resets or self.num_steps or self.picture)


class Session:
    """Environments that run in real time while viewers watch and play.

    Attributes:
        num_envs: Environments N.
    """

    def __init__(
        self,
        environments: Environments,
        *,
        speed: float = 1.0,
        fps: float = MOST_FPS,
        viewer_timeout_s: float = TIMEOUT_S,
        boxes: bool = False,
        waits: bool = False,
    ) -> None:
        """Publish the first picture; until `run` returns, only the session may use `environments`.

        `speed` is a multiple of the console's own (0: as fast as possible), and viewers share at
        most `fps` pictures per second. A viewer that has sent no request for `viewer_timeout_s` has
        left. `boxes`: the boxes of objects are drawn on the screens. `waits`: there are steps only
        while a viewer plays.
        """
        config = environments.env.config
        self.num_envs = config.num_envs
        self._environments = environments
        self._frameskip = config.frameskip
        self._camera = Camera(environments.env, boxes=boxes)
        step_s = config.frameskip / environments.env.frame_rate
        self._step_pace = Pace(step_s / speed if speed else 0.0)
        self._picture_pace = Pace(1 / fps)
        self._meter = Meter()
        self._seats = environments.seats
        self._players = Players(seats=self._seats, timeout_s=viewer_timeout_s)
        self._requests = _Requests()
        self._changed = threading.Condition()
        self._waits = waits
        self._is_paused = False
        self._is_stopped = False
        self._is_awaited = True  # a viewer waits for a picture
        self._number = 0  # of the state that is shown; counts steps and resets
        self._facts = {
            "game": config.game,
            "policy": environments.policy.title,
            "columns": self._camera.columns,
        }
        self._publish()

    # --- The loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Step the environments until `stop`.

        Raises:
            CuleError: As the environment; waiting viewers then get an answer as after `stop`.
        """
        try:
            while (work := self._next_work()) is not None:
                requests, keys = work
                if requests.resets:
                    self._environments.reset(requests.resets)
                if keys is not None:
                    self._environments.step(keys)
                    self._meter.add(self._frameskip)
                self._number += bool(requests.resets) + (keys is not None)
                self._publish(at_once=bool(requests))
        finally:
            self.stop()
            with self._changed:
                self._changed.notify_all()

    def stop(self) -> None:
        """Make `run` return soon. Takes no lock, so a signal handler may call it."""
        self._is_stopped = True

    def _next_work(self) -> tuple[_Requests, dict[int, Keys] | None] | None:
        """Wait for requests and the keys of a step (None without a step); None after `stop`."""
        with self._changed:
            while not self._is_stopped:
                may_step = self._may_step()
                is_due = may_step and not self._is_paused and not self._step_pace.wait_s()
                if is_due or self._requests:
                    requests, self._requests = self._requests, _Requests()
                    if is_due:
                        self._step_pace.advance()
                    is_step = is_due or (may_step and requests.num_steps)
                    return requests, self._players.pop_keys() if is_step else None
                is_idle = self._is_paused or not may_step
                self._changed.wait(_POLL_S if is_idle else min(self._step_pace.wait_s(), _POLL_S))
        return None

    def _may_step(self) -> bool:
        return not self._waits or bool(self._players.by_slot())

    def _publish(self, *, at_once: bool = False) -> None:
        """Publish the state of the environments; `at_once`: with a picture, even if none is due."""
        board = self._environments.board()
        picture = None
        if at_once or (self._is_awaited and not self._picture_pace.wait_s()):
            self._picture_pace.advance()
            picture = self._camera.render(self._number)
        with self._changed:
            self._board = board
            if picture is not None:
                self._picture = picture
                self._is_awaited = False
                self._changed.notify_all()

    # --- Viewers ----------------------------------------------------------------------------------

    def picture(self, after: int, viewer: str, timeout_s: float) -> Picture | None:
        """Wait for a picture other than number `after`; None after the timeout or `stop`."""
        with self._changed:
            self._players.hear(viewer)
            self._is_awaited = True
            self._changed.wait_for(
                lambda: self._is_stopped or self._picture.number != after, timeout_s
            )
            self._is_awaited = True  # the viewer will request the next one
            return None if self._picture.number == after else self._picture

    def state(self, viewer: str) -> dict[str, object]:
        """The texts around and under the screens.

        ``player`` is "you" where `viewer` plays, "another" where no seat is free. With several
        players, scores and lives are lists, and ``seats`` says who has each seat.
        """
        with self._changed:
            self._players.hear(viewer)
            players = self._players.by_slot()
            board, rate, is_paused = self._board, self._meter.rate, self._is_paused
            is_idle = is_paused or not self._may_step()
        rows = zip(*(numbers.tolist() for numbers in board), strict=True)
        consoles = [
            {
                "score": score,
                "last_score": last_score if episode > 1 else None,
                "lives": lives,
                "episode": episode,
                **self._seats_of(index, players, viewer),
            }
            for index, (score, last_score, lives, episode) in enumerate(rows)
        ]
        frames_per_s = 0.0 if is_idle else round(rate, 1)
        run = {"paused": is_paused, "frames_per_s": frames_per_s}
        return {**self._facts, **run, "consoles": consoles}

    def _seats_of(self, env: int, players: Mapping[int, str], viewer: str) -> dict[str, object]:
        slots = range(env * self._seats, (env + 1) * self._seats)
        seats = [
            "policy" if slot not in players else "you" if players[slot] == viewer else "another"
            for slot in slots
        ]
        is_full = "policy" not in seats
        player = "you" if "you" in seats else "another" if is_full else None
        return {"player": player, **({"seats": seats} if self._seats > 1 else {})}

    def play(self, viewer: str, env: int, keys: Keys) -> None:
        """Play like `Players.play`; also a RequestError if there is no such environment."""
        if not 0 <= env < self.num_envs:
            raise RequestError(f"console is {env}; it must be in 0..{self.num_envs - 1}")
        with self._changed:
            self._players.play(viewer, env, keys)
            if self._waits:
                self._changed.notify_all()

    def release(self, viewer: str) -> None:
        """Return the environment that a viewer plays to the policy."""
        with self._changed:
            self._players.release(viewer)

    def pause(self, paused: bool) -> None:
        """Pause all environments, or resume them."""
        with self._changed:
            self._is_paused = paused
            self._requests.picture = paused  # of the state in which they pause
            self._changed.notify_all()

    def step_once(self) -> None:
        """Pause, and advance all environments by one step."""
        with self._changed:
            self._is_paused = True
            self._requests.num_steps = 1
            self._changed.notify_all()

    def reset(self, viewer: str) -> None:
        """Start a new episode in the environment that a viewer plays, or raise a RequestError."""
        with self._changed:
            self._requests.resets.add(self._players.env_of(viewer))
            self._changed.notify_all()
