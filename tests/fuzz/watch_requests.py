"""Fuzz target: bytes that a connection to ``cule watch`` receives.

Each request is answered, or the connection is closed; nothing is raised.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
from pathlib import Path

from cule import AtariVectorEnv
from cule.watch.environments import Environments
from cule.watch.server import WatchHandler, WatchServer
from cule.watch.session import Session
from tests.fuzz.seeds import Corpus
from tests.support.served import still

TOKEN = "secret"
LONGEST_ANSWER_S = 20
WORDS = (
    *(b"GET ", b"POST ", b"/frame?after=", b"/input", b"/step", b"&viewer=", b" HTTP/1.1\r\n"),
    *(b"Content-Length: ", b"99999999999999999999", b"-1", b"\r\n\r\n", b"\r\n ", b"%00", b"\xff"),
    *(b"[" * 3000, b'{"viewer": ', b"1e999", b"NaN", b"Host: [::", b"Transfer-Encoding: chunked"),
)
POSTS = {
    "/input": b'{"viewer": "a", "console": 0, "keys": ["left", "fire"]}',
    "/release": b'{"viewer": "a"}',
    "/reset": b'{"viewer": "a"}',
    "/pause": b'{"paused": true}',
    "/step": b"{}",
}


@functools.cache
def make_server(token: str | None) -> WatchServer:
    """A server that accepts by itself: a target answers in its own thread."""
    env = AtariVectorEnv(
        "pong", 2, autoreset_mode="SameStep", render_mode="rgb_array", num_threads=1
    )
    session = Session(Environments(env, still(env), seed=0))
    session.pause(True)
    server = WatchServer("127.0.0.1", 0, session, token)
    server.picture_wait_s = 0.01
    return server


def close_servers() -> None:
    """Close the servers that `make_server` keeps."""
    for token in (None, TOKEN):
        server = make_server(token)
        server.server_close()
        server.session._environments.env.close()
    make_server.cache_clear()


def corpus() -> Corpus:
    """A connection with one request for each route, and one with all of them."""
    head = b"Host: localhost\r\nCookie: cule-80=secret\r\n"
    requests = {
        "page": b"GET /?token=secret HTTP/1.1\r\n" + head + b"\r\n",
        "frame": b"GET /frame?after=-1&viewer=a HTTP/1.1\r\n" + head + b"\r\n",
        "state": b"GET /state?viewer=a HTTP/1.1\r\n" + head + b"Origin: http://localhost\r\n\r\n",
    }
    for path, body in POSTS.items():
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        requests[path[1:]] = b"POST %b HTTP/1.1\r\n" % path.encode() + head + length + body
    return {name: bytes([n % 2]) + data for n, (name, data) in enumerate(requests.items())} | {
        "all": b"\0" + b"".join(requests.values())
    }


def read_requests(data: bytes, folder: Path) -> None:
    """The first byte says whether the server asks for a token."""
    server = make_server(TOKEN if data[:1] and data[0] & 1 else None)
    received = bytearray()

    def view(connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):  # closed before everything was read
            connection.sendall(data[1:])
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(2**16):
                received.extend(chunk)

    with socket.create_connection(server.server_address[:2], LONGEST_ANSWER_S) as connection:
        request, address = server.get_request()
        viewer = threading.Thread(target=view, args=(connection,))
        viewer.start()
        server.wait(request)
        try:
            with contextlib.suppress(ConnectionError):  # the viewer has closed it
                WatchHandler(request, address, server)
        finally:
            server.shutdown_request(request)
            viewer.join(LONGEST_ANSWER_S)
    assert not viewer.is_alive(), "a connection is neither answered nor closed"
    assert not received or received.startswith((b"HTTP/1.", b"<!DOCTYPE", b"{", b"<html"))
    assert b"Traceback" not in received
