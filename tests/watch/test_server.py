"""A session over HTTP: pictures, keys, errors, and a clean end."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

from cule import AtariVectorEnv, MultiAgentVectorEnv
from cule.errors import ClosedError, InvalidArgumentError
from cule.watch import server as server_module
from cule.watch import session as session_module
from cule.watch.environments import Environments
from cule.watch.keys import KEYS, joystick_of
from cule.watch.server import NUMBER_HEADER, WatchServer, is_own_host
from cule.watch.session import Session
from tests.support.served import LIMIT_S, VIEWER, decode, serve, still

pytestmark = pytest.mark.ale


def make_env(game: str = "breakout", num_envs: int = 3, **options: Any) -> AtariVectorEnv:
    defaults = {
        "frameskip": 1,
        "full_action_space": True,
        "reward_clipping": False,
        "autoreset_mode": "SameStep",
        "render_mode": "rgb_array",
        "num_threads": 1,
    }
    return AtariVectorEnv(game, num_envs, **(defaults | options))


@pytest.mark.parametrize("game", ["breakout", "klax"])  # NTSC and PAL
def test_pictures_are_the_screens(game: str) -> None:
    with serve(make_env(game)) as served:
        for _ in range(5):
            served.play(1, "right", "fire")
            picture = decode(served.step().body)
            screens = served.env.render()
            assert screens is not None
            height = len(screens[0])
            assert picture.shape == (2 * height, 2 * 160, 3)
            assert np.array_equal(picture[:height, :160], screens[0])
            assert np.array_equal(picture[:height, 160:], screens[1])
            assert np.array_equal(picture[height:, :160], screens[2])
            assert not picture[height:, 160:].any()


@pytest.mark.parametrize(("game", "frames_per_s"), [("breakout", 60), ("klax", 50)])
def test_a_console_runs_as_fast_as_a_real_one(
    game: str, frames_per_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods_s: list[float] = []
    pace = session_module.Pace
    monkeypatch.setattr(
        session_module, "Pace", lambda period_s: periods_s.append(period_s) or pace(period_s)
    )
    env = make_env(game, num_envs=1, frameskip=4)
    with contextlib.closing(env):
        Session(Environments(env, still(env), seed=0), speed=2.0, fps=30.0)
    assert periods_s == pytest.approx([4 / frames_per_s / 2, 1 / 30])


def random_keys(random: np.random.Generator) -> list[str]:
    return [key for key in sorted(KEYS) if random.random() < 0.4]


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("ms_pacman", {}),
        ("breakout", {"full_action_space": False, "frameskip": 4}),
        ("pong", {"continuous": True}),
    ],
)
def test_keys_are_actions(game: str, options: dict[str, Any]) -> None:
    twin = make_env(game, **options)
    twin.reset(seed=0)
    random = np.random.default_rng(1)
    with serve(make_env(game, **options)) as served:
        for _ in range(60):
            actions = np.zeros_like(twin.action_space.sample())
            keys = random_keys(random)
            assert served.play(2, *keys).status == 200
            actions[2] = joystick_of(twin)(frozenset(keys))
            served.step()
            twin.step(actions)
            assert np.array_equal(served.env.ram, twin.ram)
        untouched = twin.ram[:2].copy()
        # After the release the policy plays, and the tap is dropped.
        served.play(2, "fire")
        assert served.post("/release", {"viewer": VIEWER}).status == 200
        served.step()
        twin.step(np.zeros_like(actions))
        assert np.array_equal(served.env.ram, twin.ram)
        assert not np.array_equal(untouched, twin.ram[:2])
    twin.close()


def test_a_picture_is_waited_for() -> None:
    with serve(make_env()) as served:
        first = served.frame()
        assert first.headers["Content-Type"] == "image/png"
        answers: list[Any] = []
        viewer = threading.Thread(
            target=lambda: answers.append(served.session.picture(first.number, "other", LIMIT_S))
        )
        viewer.start()
        served.post("/step", {})
        viewer.join()
        assert answers[0].number == first.number + 1
        assert answers[0].png() == served.frame(first.number).body
        served.server.picture_wait_s = 0.0
        nothing = served.frame(first.number + 1)
        assert (nothing.status, nothing.body) == (204, b"")


def test_environments_run_by_themselves() -> None:
    with serve(make_env(), paused=False, speed=0.0, fps=1e6) as served:
        number = -1
        for _ in range(5):
            answer = served.frame(number)
            assert answer.status == 200
            assert answer.number > number
            number = answer.number
        assert not served.state()["paused"]
        assert served.post("/pause", {"paused": True}).status == 200
        assert served.state()["paused"]
        assert served.post("/pause", {"paused": False}).status == 200
        assert served.frame(served.frame().number).status == 200


def test_state_says_who_plays() -> None:
    with serve(make_env()) as served:
        assert served.play(1).status == 200
        assert served.play(1, viewer="viewer2").status == 409
        assert served.play(2, viewer="viewer2").status == 200
        state = served.state()
        assert {key: state[key] for key in ("game", "policy", "columns", "paused")} == {
            "game": "breakout",
            "policy": "nothing",
            "columns": 2,
            "paused": True,
        }
        assert [row["player"] for row in state["consoles"]] == [None, "you", "another"]
        assert state["consoles"][0] == {
            "score": 0,
            "last_score": None,
            "lives": 5,
            "episode": 1,
            "player": None,
        }


def test_state_of_several_players() -> None:
    games = MultiAgentVectorEnv("pong", 2, autoreset_mode="SameStep", num_threads=1)
    with serve(games) as served:
        assert served.play(1, "up").status == 200
        first = served.state()["consoles"]
        assert first[0]["seats"] == ["policy", "policy"]
        assert (first[1]["player"], first[1]["seats"]) == ("you", ["you", "policy"])
        assert served.state("other")["consoles"][1]["player"] is None
        assert served.play(1, "down", viewer="other").status == 200
        assert served.state("other")["consoles"][1]["seats"] == ["another", "you"]
        assert served.state("third")["consoles"][1]["player"] == "another"
        assert served.play(1, viewer="third").status == 409
        for _ in range(3):
            served.step()
        console = served.state()["consoles"][1]
        assert console["score"] == [0, 0]
        assert console["lives"] == np.asarray(games.lives)[1].tolist()


def test_a_player_begins_a_new_game() -> None:
    with serve(make_env()) as served:
        assert served.post("/reset", {"viewer": VIEWER}).status == 409
        served.play(1, "fire")
        for _ in range(10):
            served.step()
        frames = served.env.episode_frames.copy()
        before = served.frame().number
        assert served.post("/reset", {"viewer": VIEWER}).status == 200
        assert decode(served.frame(before).body).any()
        assert (served.env.episode_frames == frames).tolist() == [True, False, True]
        assert [row["episode"] for row in served.state()["consoles"]] == [1, 2, 1]


def test_page_is_alone_and_complete() -> None:
    with serve(make_env()) as served:
        page = served.get("/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "://" not in text
    assert "src=" not in text
    assert NUMBER_HEADER in text
    assert all(f'"{key}"' in text for key in KEYS)
    assert all(path in text for path in ("/input", "/release", "/reset", "/pause", "/step"))


GOOD = {"viewer": VIEWER, "console": 0, "keys": []}

REJECTED: list[tuple[str, Any, int, str]] = [
    ("/input", b"{", 400, "no JSON"),
    ("/input", b"\xff", 400, "no JSON"),
    ("/input", b"[" * 4000, 400, "no JSON"),
    ("/input", b"", 400, "no JSON"),
    ("/input", [], 400, "an object of console, keys, viewer"),
    ("/input", {"viewer": VIEWER}, 400, "an object of console, keys, viewer"),
    ("/input", {**GOOD, "more": 1}, 400, "an object of console, keys, viewer"),
    ("/input", {**GOOD, "console": 3}, 400, "console is 3; it must be in 0..2"),
    ("/input", {**GOOD, "console": -1}, 400, "console is -1"),
    ("/input", {**GOOD, "console": True}, 400, "console is True; it must be an integer"),
    ("/input", {**GOOD, "console": 1.0}, 400, "console is 1.0; it must be an integer"),
    ("/input", {**GOOD, "keys": "up"}, 400, "keys is 'up'; it must be a list of"),
    ("/input", {**GOOD, "keys": ["jump"]}, 400, "down, fire, left, right, up"),
    ("/input", {**GOOD, "keys": [["up"]]}, 400, "keys is"),
    ("/input", {**GOOD, "viewer": ""}, 400, "1 to 64 letters and digits"),
    ("/input", {**GOOD, "viewer": "a b"}, 400, "1 to 64 letters and digits"),
    ("/input", {**GOOD, "viewer": 7}, 400, "viewer is 7"),
    ("/release", {}, 400, "an object of viewer"),
    ("/pause", {"paused": 1}, 400, "paused is 1; it must be true or false"),
    ("/step", {"steps": 2}, 400, "an object of nothing"),
    ("/nowhere", {}, 404, "there is /input, /release"),
    ("/input", b"x" * 5000, 400, "Content-Length is '5000'; it must be in 0..4096"),
]


def test_bad_messages_are_rejected() -> None:
    with serve(make_env()) as served:
        before = served.env.get_state()
        for path, message, status, sentence in REJECTED:
            answer = served.post(path, message)
            assert answer.status == status, (path, message)
            assert sentence in answer.json["error"]
        for path in (
            "/frame?viewer=a&after=x",
            "/frame?viewer=a&after=1&after=2",
            "/frame?after=1",
            "/state?viewer=%00",
            "/state?" + "&".join("abcdefghij"),
        ):
            assert served.get(path).status == 400, path
        assert served.get("/../pyproject.toml").status == 404
        assert np.array_equal(served.env.get_state(), before)
        assert served.state()["consoles"][0]["player"] is None
        assert served.play(0, "up").status == 200


def test_a_message_cut_short_is_not_carried_out() -> None:
    with serve(make_env()) as served:
        port = served.server.server_port
        body = b'{"paused": false}'
        head = (
            f"POST /pause HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
            connection.sendall(f"{head}Content-Length: 500\r\n\r\n".encode() + body)
            connection.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 400 ")
        assert served.state()["paused"]  # as before


def test_other_sites_are_kept_out() -> None:
    with serve(make_env()) as served:
        own = f"127.0.0.1:{served.server.server_port}"
        assert served.post("/step", {}, Origin=f"http://{own}").status == 200
        for headers, status, sentence in (
            ({"Host": "evil.example"}, 403, "Host header is 'evil.example'"),
            ({"Host": "["}, 403, "Host header"),
            ({"Host": ""}, 403, "Host header is ''"),
            ({"Origin": "http://evil.example"}, 403, "Origin header is 'http://evil.example'"),
            ({"Origin": "null"}, 403, "Origin header is 'null'"),
            ({"Content_Type": "text/plain"}, 415, "application/json"),
            ({"Content_Length": "-1"}, 400, "Content-Length is '-1'"),
            ({"Content_Length": "000000000999999"}, 400, "it must be in 0..4096"),
        ):
            answer = served.post("/step", {}, **headers)
            assert answer.status == status, headers
            assert sentence in answer.json["error"]
        assert served.get("/", Host="evil.example").status == 403
        assert served.get("/frame?viewer=a", Host="localhost").status == 200


TOKEN = "a secret; with signs+&="


def test_a_token_is_asked_for() -> None:
    with serve(make_env(), token=TOKEN) as served:
        name = f"cule-{served.server.server_port}"
        before = served.env.get_state()
        for cookie in ("", f"{name}=", f"{name}=wrong", f"other={quote(TOKEN)}", "\x7f=;;="):
            for path in ("/", "/?token=", "/?token=wrong", "/state?viewer=a", "/frame?viewer=a"):
                answer = served.get(path, Cookie=cookie)
                assert answer.status == 401, (cookie, path)
                assert "token is missing or wrong" in answer.json["error"]
                assert "Set-Cookie" not in answer.headers
            assert served.post("/step", {}, Cookie=cookie).status == 401
        assert served.get(f"/state?viewer=a&token={quote(TOKEN)}").status == 401
        assert np.array_equal(served.env.get_state(), before)

        address = urlsplit(served.server.url)
        welcome = served.get(f"{address.path}?{address.query}")
        assert (welcome.status, welcome.headers["Location"]) == (303, "/")
        cookie, *properties = welcome.headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Lax"} <= set(properties)
        assert served.get("/", Cookie=cookie).body == served.server.page
        assert served.get("/state?viewer=a", Cookie=f"a=b; {cookie}").status == 200
        assert served.post("/step", {}, Cookie=cookie).status == 200


def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    with serve(make_env()) as served:
        assert served.get("/").status == 200  # a connection that stays open
        address = ("127.0.0.1", served.server.server_port)
        with contextlib.ExitStack() as stack:
            others = [
                stack.enter_context(socket.create_connection(address, LIMIT_S)) for _ in range(3)
            ]
            assert others[2].recv(1) == b""
            assert served.get("/").status == 200
        request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode()
        while True:  # until the server has seen that the others are closed
            with (
                contextlib.suppress(OSError),
                socket.create_connection(address, LIMIT_S) as another,
            ):
                another.sendall(request)
                if another.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n":
                    break


def test_a_slow_request_is_given_up() -> None:
    with serve(make_env()) as served:
        address = ("127.0.0.1", served.server.server_port)
        with socket.create_connection(address, LIMIT_S) as connection:
            connection.sendall(b"GET / HT")
            assert served.get("/").status == 200
            served.server.idle_s = 0.0
            assert connection.recv(1) == b""


def test_heads_are_limited() -> None:
    with serve(make_env()) as served:
        address = ("127.0.0.1", served.server.server_port)
        line = b"A: " + b"a" * 60_000 + b"\r\n"
        for head, status in (
            (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
            (b"GET / HTTP/1.1\r\n" + 3 * line, b"431"),
            (b"GET / HTTP/1.1\r\n" + 101 * b"a: b\r\n" + b"\r\n", b"431"),
            (b"FETCH / HTTP/1.1\r\n\r\n", b"501"),
            (b"HEAD / HTTP/1.1\r\n\r\n", b"501"),
            (b"PRI * HTTP/2.0\r\n\r\n", b"505"),
            (b"\x16\x03\x01 /\r\n\r\n", b"400"),
        ):
            with socket.create_connection(address, LIMIT_S) as connection:
                connection.sendall(head)
                with connection.makefile("rb") as file:
                    assert file.readline().split()[1] == status
                    body = file.read().partition(b"\r\n\r\n")[2]
                assert bool(body) != head.startswith(b"HEAD")
                assert not body or json.loads(body).keys() == {"error"}
        assert served.get("/").status == 200


def test_own_hosts() -> None:
    for header in ("localhost:8000", "127.0.0.1", "192.168.1.2:80", "[::1]:8000", "Machine:8000"):
        assert is_own_host(header, "machine"), header
    for header in ("machine.example", "localhost.example:8000", "127.0.0.1.example", "", ":80"):
        assert not is_own_host(header, "machine"), header


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address() -> None:
    with serve(make_env()) as served:
        server = WatchServer("::1", 0, served.session)
        assert server.url == f"http://[::1]:{server.server_port}/"
        with server.serving():
            with urllib.request.urlopen(server.url, timeout=LIMIT_S) as answer:
                assert answer.read() == server.page
            served.session.stop()


def test_an_end_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    with serve(make_env()) as served:
        served.frame()  # this connection stays open
        waiting = http.client.HTTPConnection(
            "127.0.0.1", served.server.server_port, timeout=LIMIT_S
        )
        waiting.connect()  # and this one never asks for anything
        assert served.state()["paused"]
    assert served.env.closed
    assert threading.active_count() == threads
    assert waiting.sock.recv(1) == b""
    waiting.close()


def test_a_broken_console_ends_the_session() -> None:
    env = make_env()
    session = Session(Environments(env, still(env), seed=0))
    env.close()
    with pytest.raises(ClosedError):
        session.run()
    assert session.picture(0, VIEWER, LIMIT_S) is None


def test_a_taken_port_is_said() -> None:
    with serve(make_env()) as served:
        port = served.server.server_port
        with pytest.raises(InvalidArgumentError, match=f"port {port}; cule cannot listen there"):
            WatchServer("127.0.0.1", port, served.session)
        with pytest.raises(InvalidArgumentError, match="cannot listen there: encoding"):
            WatchServer("\udcff", 0, served.session)
        with pytest.raises(InvalidArgumentError, match="cannot listen there"):
            WatchServer("no such host", 0, served.session)
