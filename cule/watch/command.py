"""``cule watch``: from the command line to a session in the browser."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import secrets
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeAlias

from cule.envs.vector_env import BatchEnv
from cule.errors import InvalidArgumentError
from cule.familiar_names import Parser
from cule.files import check_new_file
from cule.option_fields import Bounds, parse_options
from cule.signals import signals_call
from cule.watch.environments import Environments, Played
from cule.watch.policies import (
    ALONE,
    PlayOptions,
    Policy,
    open_random,
    open_trained,
)
from cule.watch.server import WatchServer
from cule.watch.session import MOST_FPS, Session

#: Most environments: the sides of the picture stay below the 16,384 pixels that browsers draw.
MAX_ENVS = 1024

#: Least characters of a token.
MIN_TOKEN = 8

DEFAULT_GAME, DEFAULT_ENVS = "pong", 16

#: Makes what records environments; leaving the context writes the dataset.
Recording: TypeAlias = Callable[[BatchEnv], AbstractContextManager[Played]]


@dataclass(frozen=True, kw_only=True)
class WatchOptions(PlayOptions):
    """Options of ``cule watch``."""

    game: str | None = None
    """Game; default: that of the checkpoint, or pong."""

    num_envs: Annotated[int, Bounds(0, MAX_ENVS)] = 0
    """Environments; 0: 16, or 1 with --record."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: Annotated[int, Bounds(0, 65_535)] = 8000
    """Port; 0: a free one."""

    token: str | None = None
    """Secret in the address of the page; default: a random one where other machines can connect,
    else none."""

    open: bool = False
    """Open the page in a browser."""

    speed: float = 1.0
    """1: real time; 0: as fast as possible."""

    fps: float = MOST_FPS
    """Most pictures per second."""

    boxes: bool = False
    """Draw the boxes of objects, in games that have a table of objects."""

    num_players: int | None = field(default=None, metadata=ALONE)
    """Players of each environment: 2 or 4 in games that have such modes, default 1; as many viewers
    can play it."""

    record: Path | None = None
    """Dataset to write, with the seeds and actions of all environments; they then run only while a
    viewer plays. See docs/watch.md."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            InvalidArgumentError: A number outside its range, or options that contradict each other.
            StorageError: The dataset cannot be written.
        """
        if self.token is not None and len(self.token) < MIN_TOKEN:
            raise InvalidArgumentError(
                f"token has {len(self.token)} characters; it must have at least {MIN_TOKEN}"
            )
        if not 0.0 <= self.speed < math.inf:
            raise InvalidArgumentError(f"speed is {self.speed}; it must be at least 0, and finite")
        if not 0.0 < self.fps < math.inf:
            raise InvalidArgumentError(f"fps is {self.fps}; it must be above 0, and finite")
        super().__post_init__()
        if self.record is not None:
            check_new_file("record", self.record)


def parse(words: Sequence[str]) -> WatchOptions:
    """Parse the arguments after ``cule watch``.

    Raises:
        InvalidArgumentError, StorageError: As of `WatchOptions`.
    """
    parser = Parser(
        prog="cule watch",
        description="Watch many environments in the browser, and play them. Ctrl-C ends it.",
    )
    return parse_options(parser, WatchOptions, words)


def watch(options: WatchOptions, recording: Recording | None = None) -> int:
    """Run ``cule watch`` with the result of `parse` until a signal stops it; return 0.

    Args:
        options: The options.
        recording: With ``options.record``, what writes this dataset.

    Raises:
        CuleError: The game, ROM, checkpoint, device, host or port is not available, or the
            environments cannot be recorded.
        StorageError: The dataset cannot be written.
    """
    env, policy = _open(options)
    context = contextlib.nullcontext(env) if recording is None else recording(env)
    with contextlib.closing(env), context as played:
        session = Session(
            Environments(env, policy, seed=options.seed, played=played),
            speed=options.speed,
            fps=options.fps,
            boxes=options.boxes,
            waits=recording is not None,
        )
        server = WatchServer(options.host, options.port, session, _token(options))
        with signals_call(lambda _: session.stop()), server.serving():
            if server.token is not None and options.token is None:
                print("other machines can reach this address, so it has a token")
            print(f"{server.url} (Ctrl-C ends it)", flush=True)
            if recording is not None:
                print(f"recording to {options.record} while you play: click a screen", flush=True)
            if options.open:
                webbrowser.open(server.url)
            session.run()
    return 0


def _token(options: WatchOptions) -> str | None:
    """Secret that viewers must know; None: nothing, where they are on this machine."""
    if options.token is None and not _is_loopback(options.host):
        return secrets.token_urlsafe()
    return options.token


def _is_loopback(host: str) -> bool:
    """Whether no other machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open(options: WatchOptions) -> tuple[BatchEnv, Policy]:
    default = DEFAULT_ENVS if options.record is None else 1
    options = replace(options, num_envs=options.num_envs or default)
    if options.checkpoint is not None:
        return open_trained(options)
    named = replace(options, game=options.game or DEFAULT_GAME)
    return open_random(named, 1 if options.num_players is None else options.num_players)
