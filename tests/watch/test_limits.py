"""What one viewer, or no viewer, can do to the others: cookies, bodies, connections."""

from __future__ import annotations

import contextlib
import socket
import sys
from urllib.parse import quote

import pytest

from cule.errors import InvalidArgumentError
from cule.watch import server as server_module
from tests.support.served import serve
from tests.watch.test_server import LIMIT_S, TOKEN, make_env

pytestmark = pytest.mark.ale


def test_other_cookies_do_not_matter() -> None:
    with serve(make_env(), token=TOKEN) as served:
        own = f"cule-{served.server.server_port}={quote(TOKEN, safe='')}"
        for other in ('a={"b": [1, 2]}', "a b=c d", "n[0]=1", "\xe9=\xe8", "=;;", own[:-1]):
            for cookies in (f"{other}; {own}", f"{own}; {other}"):
                assert served.get("/state?viewer=a", Cookie=cookies).status == 200, cookies


def test_a_body_is_no_second_request() -> None:
    with serve(make_env()) as served:
        port = served.server.server_port
        host = f"Host: 127.0.0.1:{port}\r\n"
        inner = f"GET /state?viewer=a HTTP/1.1\r\n{host}\r\n"
        length = f"Content-Length: {len(inner)}"
        for header in (
            length,
            "Transfer-Encoding: chunked",
            f"Content-Length: 0\r\n{length}",
            f"{length}\r\ncontent-length: 0",
            "Content-Length: 0\r\nContent-Length: 0",
            f"Content-Length : {len(inner)}",
            f"Content-Length\t: {len(inner)}",
            f" {length}",
            f"A: a\r\n {length}",
            f"a\r\n{length}",
            f": a\r\n{length}",
            f"A\0: a\r\n{length}",
            f"A\x1f: a\r\n{length}",
            f"A\x7f: a\r\n{length}",
            f"\xe9: a\r\n{length}",
            f"A: a\0\r\n{length}",
            f"A: a\r{length}",
            f"Content-Length: 0\r{length}",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding :",
            "Transfer-Encoding:",
            "a\r\nTransfer-Encoding: chunked",
            f"Host: 127.0.0.1:{port}",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
                text = f"GET / HTTP/1.1\r\n{host}{header}\r\n\r\n{inner}"
                connection.sendall(text.encode("latin-1"))
                with contextlib.suppress(ConnectionResetError):
                    answer = connection.makefile("rb").read()
                    assert answer.startswith(b"HTTP/1.1 400 "), header
                    assert answer.count(b"HTTP/1.1 ") == 1, header


def test_a_head_has_an_end() -> None:
    with serve(make_env()) as served:
        port = served.server.server_port
        for text in ("", "A: a\r\n", "A: a", "A"):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
                connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{text}".encode())
                connection.shutdown(socket.SHUT_WR)
                assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 400 "), text


def test_heads_of_other_programs_are_read() -> None:
    with serve(make_env()) as served:
        port = served.server.server_port
        for text in (
            "A:\r\n",
            "A: \xe9\ta\x0b\x1c\x7f\x85 \r\na!#$%&'*+-.^_`|~0: b\r\nA: c\r\n",
            "A:a\n",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
                head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{text}\r\n"
                connection.sendall(head.encode("latin-1"))
                assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 200 "), text


@pytest.mark.skipif(sys.platform != "linux", reason="all of 127.0.0.0/8 is this machine there")
def test_an_address_has_a_share_of_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS_OF_ADDRESS", 2)
    with serve(make_env()) as served, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", served.server.server_port)
        idle = [
            stack.enter_context(socket.create_connection(address, LIMIT_S, ("127.0.0.2", 0)))
            for _ in range(3)
        ]
        assert idle[2].recv(1) == b""
        assert served.get("/").status == 200


def test_strangers_have_less_time() -> None:
    with serve(make_env(), token=TOKEN) as served:
        served.server.stranger_s = 0.0
        address = ("127.0.0.1", served.server.server_port)
        with socket.create_connection(address, LIMIT_S) as connection:
            assert connection.recv(1) == b""


def test_an_empty_host_is_refused() -> None:
    with serve(make_env()) as served, pytest.raises(InvalidArgumentError, match="host is ''"):
        server_module.WatchServer("", 0, served.session)
