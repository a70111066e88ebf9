"""HTTP around a session, with nothing but the standard library.

    GET  /                            the page
    GET  /frame?after=K&viewer=V      a PNG other than number K; waits, 204 if there is none
    GET  /state?viewer=V              JSON: scores, lives, episodes, players
    POST /input    {viewer, console, keys}    play an environment with these keys held
    POST /release  {viewer}                   stop playing
    POST /reset    {viewer}                   start a new episode
    POST /pause    {paused}                   pause or resume all environments
    POST /step     {}                         pause, and advance by one step

An invalid request gets a status from 400 and ``{"error": sentence}``.

A server that others can reach has a token: ``GET /?token=TOKEN`` answers with a cookie, which every
other request must carry.

Pages of other sites could send requests from the same browser. Three checks reject them: the Host
header must be an address, localhost or the served name (a foreign name that resolves to this server
is none of these); an Origin header must be this server's; and posted data must be declared as JSON,
for which browsers request permission before they send it from another site.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import importlib.resources
import ipaddress
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from cule.errors import InvalidArgumentError, shown
from cule.watch import messages
from cule.watch.messages import RequestError
from cule.watch.session import Session

#: Header with the number of a picture.
NUMBER_HEADER = "Cule-Frame"

_LENGTH = re.compile(r"[0-9]{1,9}", re.ASCII)

#: A line of a head: a token, a colon and a value (RFC 9112, section 5). The value may have control
#: characters other than these, which RFC 9110, section 5.5, allows: cookies of other programs do.
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\0\r\n]*\r?\n")

#: Headers that say where a request ends and whom it is for.
_ONCE = (b"content-length", b"transfer-encoding", b"host")

#: Most connections at a time.
MAX_CONNECTIONS = 256

#: Those of one address.
MAX_CONNECTIONS_OF_ADDRESS = 64

#: Most bytes of a request before its body.
MAX_HEAD_BYTES = 2**17

#: The page loads nothing from elsewhere, runs only its own script, and is not embedded.
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


T = TypeVar("T")

Connection: TypeAlias = socket.socket | tuple[bytes, socket.socket]  # as socketserver has it


class Reply(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    kind: str = "application/json"
    body: bytes = b""
    headers: Mapping[str, str] = {}


class WatchServer(ThreadingHTTPServer):
    """Serves a session, with one thread for each connection.

    Attributes:
        session: The session.
        host: Name or address to listen on.
        token: What requests must know; None: nothing.
        url: Address of the page, with the token.
        picture_wait_s: Longest wait of a request for a picture.
        idle_s: Time after which a connection without a complete request is closed.
        stranger_s: The same for one that has not shown the token, where there is one.
    """

    picture_wait_s = 1.0
    idle_s = 30.0
    stranger_s = 5.0
    daemon_threads = False  # closing waits for them
    request_queue_size = 64

    def __init__(self, host: str, port: int, session: Session, token: str | None = None) -> None:
        """Listen, without answering before `serving`; port 0 is any free one.

        Raises:
            InvalidArgumentError: The server cannot listen there.
        """
        if not host:
            raise InvalidArgumentError(
                "host is ''; it must be a name or address, such as 127.0.0.1, or 0.0.0.0 for all"
            )
        self.session, self.host, self.token = session, host, token
        self.page = importlib.resources.files("cule.watch").joinpath("page.html").read_bytes()
        #: When each began to wait for a request; None: while one is answered.
        self._waiting_since: dict[Connection, float | None] = {}
        self._addresses: dict[Connection, str] = {}
        self._known: set[Connection] = set()  # have shown the token
        is_ipv6 = ":" in host
        if is_ipv6:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), WatchHandler)
        except (OSError, OverflowError, TypeError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidArgumentError(
                f"host is {shown(host)} and port {port}; cule cannot listen there: {reason}"
            ) from None
        query = "" if token is None else f"?token={quote(token, safe='')}"
        self.url = f"http://{f'[{host}]' if is_ipv6 else host}:{self.server_port}/{query}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Answer requests in a ``with`` block; then close all connections and end all threads.

        Stop the session before the block ends.
        """
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            for connection in list(self._waiting_since):
                assert isinstance(connection, socket.socket)
                with contextlib.suppress(OSError):  # the viewer has closed it
                    connection.shutdown(socket.SHUT_RDWR)
            self.server_close()

    def process_request(self, request: Connection, client_address: object) -> None:
        """Start a thread for a connection, and track the connection."""
        address = str(client_address[0]) if isinstance(client_address, tuple) else ""
        share = list(self._addresses.values()).count(address)
        if len(self._waiting_since) >= MAX_CONNECTIONS or share >= MAX_CONNECTIONS_OF_ADDRESS:
            self.shutdown_request(request)
            return
        self._addresses[request] = address
        self.wait(request)
        super().process_request(request, client_address)

    def wait(self, connection: Connection) -> None:
        """A request must be complete in `idle_s` from now."""
        self._waiting_since[connection] = time.monotonic()

    def answer(self, connection: Connection) -> None:
        """The request is complete."""
        self._waiting_since[connection] = None

    def know(self, connection: Connection) -> None:
        """The connection has shown the token."""
        self._known.add(connection)

    def service_actions(self) -> None:
        """Close connections that have waited for too long, however slowly bytes arrive."""
        now = time.monotonic()
        for connection, since in list(self._waiting_since.items()):
            is_known = self.token is None or connection in self._known
            limit_s = self.idle_s if is_known else min(self.idle_s, self.stranger_s)
            if since is not None and since < now - limit_s:
                assert isinstance(connection, socket.socket)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # its thread reads an end

    def shutdown_request(self, request: Connection) -> None:
        """Close a connection, in its thread."""
        self._waiting_since.pop(request, None)
        self._addresses.pop(request, None)
        self._known.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Connection, client_address: object) -> None:
        """Report an error, unless a viewer has disconnected."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class WatchHandler(BaseHTTPRequestHandler):
    """One connection."""

    server: WatchServer
    server_version = "cule"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Bound what is read of a request, and for how long."""
        super().setup()
        self.connection.settimeout(self.server.idle_s)
        self.rfile: Any = _HeadReader(self.rfile)

    def handle_one_request(self) -> None:
        """Read a request and answer it."""
        self.rfile.lines.clear()
        self.server.wait(self.connection)
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a request for the page, a picture or the state."""
        self._answer(_GETS, self._query)

    def do_POST(self) -> None:
        """Carry out a request."""
        self._answer(_POSTS, lambda query: self._body())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is not read as a request, such as another method or a head too long."""
        self.close_connection = True
        self.request_version = self.protocol_version  # HTTP/0.9 has no status
        status = HTTPStatus(code)
        self._send(json_reply({"error": message or status.phrase}, status))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a page requests sixty pictures per second."""

    def _answer(
        self, routes: Mapping[str, Callable[[WatchServer, T], Reply]], read: Callable[[str], T]
    ) -> None:
        try:
            self._check_head()
            self._check_sender()
            path, _, query = self.path.partition("?")
            if path not in routes:
                known = ", ".join(routes)
                raise RequestError(
                    f"there is no {path} to {self.command}; there is {known}", HTTPStatus.NOT_FOUND
                )
            content = read(query)
            self.server.answer(self.connection)
            reply = self._welcome(path, content) or routes[path](self.server, content)
        except RequestError as error:
            reply = json_reply({"error": str(error)}, error.status)
            self.close_connection = True  # the body may be unread
        self._send(reply)

    def _check_head(self) -> None:
        """Reject heads that can be read in two ways, one of which makes a body a request."""
        *lines, end = self.rfile.lines[1:] or [b""]
        names = []
        for line in lines:
            header = _HEADER.fullmatch(line)
            if header is None:
                text = line.rstrip(b"\r\n").decode("latin-1")
                raise RequestError(f"a header is {shown(text)}; it must be NAME: VALUE")
            names.append(header[1].lower())
        if end not in (b"\r\n", b"\n"):
            raise RequestError("the headers have no empty line after them")
        for name in _ONCE:
            if names.count(name) > 1:
                raise RequestError(f"{name.decode()} is there {names.count(name)} times, not once")

    def _check_sender(self) -> None:
        """Reject requests whose Host or Origin header is of another server."""
        host = self.headers.get("Host", "")
        if not is_own_host(host, self.server.host):
            raise RequestError(
                f"the Host header is {shown(host)}; it must be an address, localhost or "
                f"{self.server.host}",
                HTTPStatus.FORBIDDEN,
            )
        if "Transfer-Encoding" in self.headers:
            raise RequestError("Transfer-Encoding must be left out; use Content-Length")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise RequestError(
                f"the Origin header is {shown(origin)}; it must be http://{host}",
                HTTPStatus.FORBIDDEN,
            )

    def _welcome(self, path: str, content: object) -> Reply | None:
        """Exchange the token in the address of the page for a cookie.

        Raises:
            RequestError: The request has neither.
        """
        token = self.server.token
        if token is None:
            return None
        name = f"cule-{self.server.server_port}"  # cookies are those of a host, not of a port
        given = content.get("token") if path == "/" and isinstance(content, dict) else None
        if given is not None and _equal(given, token):
            cookie = f"{name}={quote(token, safe='')}; Path=/; HttpOnly; SameSite=Lax"
            return Reply(HTTPStatus.SEE_OTHER, headers={"Location": "/", "Set-Cookie": cookie})
        # Not by http.cookies, which drops all of them for one that is not well formed.
        cookies = ";".join(self.headers.get_all("Cookie", [])).split(";")
        pairs = [cookie.strip().partition("=") for cookie in cookies]
        wanted = quote(token, safe="")
        if any(key == name and _equal(value, wanted) for key, _, value in pairs):
            self.server.know(self.connection)
            return None
        raise RequestError(
            "the token is missing or wrong; open the address that cule watch has printed",
            HTTPStatus.UNAUTHORIZED,
        )

    def _query(self, query: str) -> dict[str, str]:
        """The parameters of a request that has no body, which would be read as the next one."""
        if self.headers.get("Content-Length", "0") != "0":
            raise RequestError("a GET has no body; Content-Length must be left out")
        return messages.parse_query(query)

    def _body(self) -> bytes:
        """The posted data, which must be declared as JSON and not be too long."""
        if self.headers.get_content_type() != "application/json":
            raise RequestError(
                "Content-Type must be application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            )
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > messages.MAX_BYTES:
            raise RequestError(
                f"Content-Length is {shown(length)}; it must be in 0..{messages.MAX_BYTES}"
            )
        body: bytes = self.rfile.read(int(length))
        if len(body) < int(length):
            raise RequestError(f"Content-Length is {length}; it must be {len(body)}, as received")
        return body

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        if reply.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
        headers = {
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            **reply.headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)


class _HeadReader:
    """The file of a connection, with a bound on the lines of a request."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.lines: list[bytes] = []  # of the head of a request

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(size)
        self.lines.append(line)
        if sum(map(len, self.lines)) > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("request")  # answered with status 431
        return line

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


def _equal(given: str, token: str) -> bool:
    """Compare in a time that says nothing about the token."""
    return hmac.compare_digest(given.encode(), token.encode())


def is_own_host(header: str, served: str) -> bool:
    """Whether a Host header cannot come from a page of another site, on a server at `served`."""
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", served.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def json_reply(value: object, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """A response with a JSON value."""
    return Reply(status, body=json.dumps(value).encode())


# --- Routes -------------------------------------------------------------------------------------


def _page(server: WatchServer, query: Mapping[str, str]) -> Reply:
    policy = {"Content-Security-Policy": _CONTENT_POLICY}
    return Reply(HTTPStatus.OK, "text/html; charset=utf-8", server.page, policy)


def _frame(server: WatchServer, query: Mapping[str, str]) -> Reply:
    after, viewer = messages.after_of(query), messages.viewer_of(query)
    picture = server.session.picture(after, viewer, server.picture_wait_s)
    if picture is None:
        return Reply(HTTPStatus.NO_CONTENT)
    number = {NUMBER_HEADER: str(picture.number)}
    return Reply(HTTPStatus.OK, "image/png", picture.png(), number)


def _state(server: WatchServer, query: Mapping[str, str]) -> Reply:
    return json_reply(server.session.state(messages.viewer_of(query)))


def _request(
    carry_out: Callable[[Session, Mapping[str, object]], None], *names: str
) -> Callable[[WatchServer, bytes], Reply]:
    """A route for messages with these fields."""

    def answer(server: WatchServer, body: bytes) -> Reply:
        carry_out(server.session, messages.parse_object(body, names))
        return json_reply({})

    return answer


def _play(session: Session, fields: Mapping[str, object]) -> None:
    viewer, env = messages.viewer_of(fields), messages.console_of(fields)
    session.play(viewer, env, messages.keys_of(fields))


_GETS: dict[str, Callable[[WatchServer, dict[str, str]], Reply]] = {
    "/": _page,
    "/frame": _frame,
    "/state": _state,
}

_POSTS: dict[str, Callable[[WatchServer, bytes], Reply]] = {
    "/input": _request(_play, "viewer", "console", "keys"),
    "/release": _request(lambda s, fields: s.release(messages.viewer_of(fields)), "viewer"),
    "/reset": _request(lambda s, fields: s.reset(messages.viewer_of(fields)), "viewer"),
    "/pause": _request(lambda s, fields: s.pause(messages.paused_of(fields)), "paused"),
    "/step": _request(lambda s, _: s.step_once()),
}
