"""A session that is served on a free port, and a viewer of it without a browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule import AtariVectorEnv
from cule.datasets import Recorder
from cule.watch.environments import Environments
from cule.watch.policies import Policy
from cule.watch.server import NUMBER_HEADER, WatchServer
from cule.watch.session import Session

#: Limit of waits that end by themselves, however busy the machine is.
LIMIT_S = 120.0

#: What the viewer of these tests calls itself.
VIEWER = "viewer1"


def still(env: AtariVectorEnv) -> Policy:
    """A policy that does nothing, so that only a person moves the game."""
    actions = np.zeros_like(env.action_space.sample())
    return Policy("nothing", lambda _: actions)


@dataclass
class Answer:
    """An HTTP response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def number(self) -> int:
        return int(self.headers[NUMBER_HEADER])


@dataclass
class Served:
    """A running session and a connection to it."""

    env: AtariVectorEnv
    session: Session
    server: WatchServer
    connection: http.client.HTTPConnection

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, message: Any, **headers: str) -> Answer:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self._ask("POST", path, body, {"Content-Type": "application/json", **headers})

    def frame(self, after: int = -1) -> Answer:
        return self.get(f"/frame?after={after}&viewer={VIEWER}")

    def state(self, viewer: str = VIEWER) -> Any:
        return self.get(f"/state?viewer={viewer}").json

    def play(self, console: int, *keys: str, viewer: str = VIEWER) -> Answer:
        message = {"viewer": viewer, "console": console, "keys": keys}
        return self.post("/input", message)

    def step(self) -> Answer:
        """One step of the paused session; the picture after it."""
        before = self.frame().number
        assert self.post("/step", {}).status == 200
        return self.frame(before)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, named)
        response = self.connection.getresponse()
        return Answer(response.status, response.headers, response.read())


@contextlib.contextmanager
def serve(
    env: AtariVectorEnv,
    policy: Any = None,
    *,
    paused: bool = True,
    token: str | None = None,
    recorder: Recorder | None = None,
    **options: Any,
) -> Iterator[Served]:
    """A session of an environment, by default one that only viewers move, as `cule watch` runs it.

    Without its time limits: a viewer is present however long its next request takes, and a
    picture is waited for until there is one.
    """
    options.setdefault("viewer_timeout_s", LIMIT_S)
    environments = Environments(env, policy or still(env), seed=0, played=recorder)
    session = Session(environments, **options)
    if paused:
        session.pause(True)
    server = WatchServer("127.0.0.1", 0, session, token)
    server.picture_wait_s = server.idle_s = LIMIT_S
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT_S)
    loop = threading.Thread(target=session.run)
    with contextlib.closing(env), server.serving():
        loop.start()
        try:
            yield Served(env, session, server, connection)
        finally:
            session.stop()
            loop.join()
    connection.close()


def decode(png: bytes) -> NDArray[np.uint8]:
    """The colours of an indexed PNG without filters, uint8 ``[H, W, 3]``."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(name + data),)
        chunks[name] = data
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert kind == [8, 3, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    return palette[lines[:, 1:]]
