"""OpenEnv: its client plays its server over the loopback interface, and receives cule's steps."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from openenv.core import GenericEnvClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import cule
from cule.wrappers.openenv import AtariAction, OpenEnvEnvironment, make_app, serving

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1, "num_threads": 1}

# Of the library's own client and server.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of Seaquest."""
    with serving(make_app("seaquest", max_concurrent_envs=2, **SHORT)) as address:
        yield address


def screen(result) -> np.ndarray:
    return np.array(result.observation["screen"]).reshape(result.observation["screen_shape"])


def test_a_client_receives_the_steps_of_the_environment(address, closing) -> None:
    theirs = closing(cule.AtariVectorEnv("seaquest", 1, **SHORT, autoreset_mode="Disabled"))
    rng = np.random.default_rng(0)
    with GenericEnvClient(base_url=address).sync() as env:
        result = env.reset(seed=4, episode_id="first")
        wanted, _ = theirs.reset(seed=4)
        assert result.reward is None
        assert result.observation["legal_actions"] == list(range(18))
        assert env.state() == {"episode_id": "first", "step_count": 0, "game": "seaquest"}
        ends = 0
        for _ in range(60):
            action = int(rng.integers(18))
            result = env.step({"action_id": action})
            wanted, reward, terminated, truncated, _ = theirs.step(np.array([action]))
            np.testing.assert_array_equal(screen(result), wanted[0])
            assert result.reward == reward[0]
            assert result.done == bool(terminated[0] or truncated[0])
            assert result.observation["lives"] == theirs.lives[0]
            assert result.observation["episode_frame_number"] == theirs.episode_frames[0]
            if result.done:
                ends += 1
                assert env.state()["step_count"] == 25
                result = env.reset()
                wanted, _ = theirs.reset()
                np.testing.assert_array_equal(screen(result), wanted[0])
        assert ends == 2


def test_sessions_are_apart(address) -> None:
    with GenericEnvClient(base_url=address).sync() as a, GenericEnvClient(address).sync() as b:
        first, second = a.reset(seed=1), b.reset(seed=1)
        for _ in range(5):
            first = a.step({"action_id": 2})
        assert a.state()["step_count"] == 5
        assert b.state()["step_count"] == 0
        for _ in range(5):
            second = b.step({"action_id": 2})
        np.testing.assert_array_equal(screen(first), screen(second))


def test_errors_reach_the_client(address) -> None:
    with GenericEnvClient(base_url=address).sync() as env:
        env.reset(seed=0)
        with pytest.raises(RuntimeError, match="99"):
            env.step({"action_id": 99})
        assert env.state()["step_count"] == 0
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            env.step({"action": 1})


def test_the_schema_describes_the_action(address) -> None:
    with urllib.request.urlopen(f"{address}/schema") as answer:
        schema = json.load(answer)
    assert schema["action"]["properties"]["action_id"]["type"] == "integer"


def test_without_a_server(closing) -> None:
    env = closing(OpenEnvEnvironment("pong", obs_type="ram", **SHORT))
    with pytest.raises(cule.NotResetError):
        env.step(AtariAction(action_id=0))
    assert env.reset(seed=0).screen_shape == [128]
    for action in (0, None, {"action_id": 0}):
        with pytest.raises(cule.ActionShapeError, match="it must be an AtariAction"):
            env.step(action)
    for _ in range(24):
        assert not env.step(AtariAction(action_id=0)).done
    last = env.step(AtariAction(action_id=0))
    assert last.done
    assert last.metadata == {"terminated": False, "truncated": True}
    with pytest.raises(cule.NotResetError):
        env.step(AtariAction(action_id=0))


def test_wrong_options_are_refused_before_the_server_starts() -> None:
    with pytest.raises(cule.InvalidArgumentError, match="output is 'torch'; for OpenEnv it must"):
        make_app("pong", output="torch")
    with pytest.raises(cule.UnknownGameError):
        make_app("pang")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None, "8"])
def test_sessions_fewer_than_one_are_refused(count) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=f"max_concurrent_envs is {count!r}"):
        make_app("pong", max_concurrent_envs=count)


@pytest.mark.parametrize("name", [5, True, [], "x" * 256, "\ud800"])
def test_a_refused_reset_changes_nothing(name, closing) -> None:
    env = closing(OpenEnvEnvironment("pong", obs_type="ram", **SHORT))
    env.reset(seed=0, episode_id="é" * 255)
    frames = env.step(AtariAction(action_id=0)).episode_frame_number
    with pytest.raises(cule.InvalidArgumentError, match="episode_id is"):
        env.reset(seed=1, episode_id=name)
    assert (env.state.episode_id, env.state.step_count) == ("é" * 255, 1)
    assert env.step(AtariAction(action_id=0)).episode_frame_number == frames + 4


def test_a_port_that_is_taken_is_named(address) -> None:
    port = int(address.rpartition(":")[2])
    with (
        pytest.raises(cule.InvalidArgumentError, match=f"port {port}; cule .* already in use"),
        serving(make_app("pong", **SHORT), port=port),
    ):
        pass


@pytest.mark.parametrize(
    ("host", "port"),
    [
        *(("", 0), (None, 0), (3, 0), ("\0", 0), ("http://127.0.0.1", 0)),
        *(("127.0.0.1", port) for port in (-1, 65_536, 2**70, 1.5, "8000", None)),
    ],
)
def test_where_no_server_can_listen(host, port) -> None:
    # In a message of this thread, not of a thread of the server.
    with (
        pytest.raises(cule.InvalidArgumentError, match=r"^host is .*(cule cannot listen|must be)"),
        serving(make_app("pong", **SHORT), host=host, port=port),
    ):
        pass


@pytest.mark.parametrize("app", [None, 3, "pong"])
def test_what_is_no_application(app) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=r"^app is "), serving(app):
        pass


def opened(address: str, stack: ExitStack) -> ClientConnection:
    """A connection with a session, as soon as one is free."""
    for _ in range(1000):
        client = stack.enter_context(connect(f"{address.replace('http', 'ws')}/ws"))
        with suppress(ConnectionClosed):
            client.send('{"type": "state"}')
            if json.loads(client.recv())["type"] == "state":
                return client
    pytest.fail("no session is free")


@pytest.mark.parametrize(
    "message",
    [
        *("", "{", "null", "[]", b"\xff", '{"type": "\\ud800"}', '{"type": "step"}'),
        *(
            f'{{"type": "{kind}", "data": {{"{name}": {value}}}}}'
            for kind, name in (("step", "action_id"), ("reset", "seed"))
            for value in ("NaN", "1e400", "9" * 5000, "[" * 30_000)
        ),
        '{"type": "reset"}',
    ],
    ids=itertools.count(),
)
def test_a_client_that_misbehaves_or_vanishes_loses_its_session_alone(message, address) -> None:
    with GenericEnvClient(address).sync() as env, ExitStack() as stack:  # two sessions at most
        env.reset(seed=0)
        for _ in range(3):
            client = opened(address, stack)
            client.send(message)
            assert json.loads(client.recv())["type"] in ("error", "observation")
            with suppress(OSError):  # the server may have closed it
                client.socket.shutdown(socket.SHUT_RDWR)
        assert env.step({"action_id": 0}).reward == 0.0


@pytest.mark.parametrize("origin", ["http://example.com", "null", "itself"])
def test_web_pages_are_refused(origin, address) -> None:
    origin = address if origin == "itself" else origin  # a foreign name may lead here
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(f"{address.replace('http', 'ws')}/ws", origin=origin),
    ):
        pass
    web = http.client.HTTPConnection(address.removeprefix("http://"))
    web.request("POST", "/mcp", "{}", {"Content-Type": "text/plain", "Origin": origin})
    assert web.getresponse().status == 403
    web.close()


def test_large_messages_are_refused(address) -> None:
    def status_of(body: object) -> int:
        web = http.client.HTTPConnection(address.removeprefix("http://"))
        web.request("POST", "/reset", body, {"Content-Type": "application/json"})
        status = web.getresponse().status
        web.close()
        return status

    allowed = b"{}".ljust(65_536)
    assert status_of(allowed) == 200
    assert status_of(allowed + b" ") == 413
    assert status_of(itertools.repeat(b" ", 2)) == 413  # chunks, of which there may be any number
    with connect(f"{address.replace('http', 'ws')}/ws") as client:
        client.send(allowed, text=True)
        assert "UNKNOWN_TYPE" in client.recv()
        client.send(allowed + b" ", text=True)
        with pytest.raises(ConnectionClosed, match="too big"):
            client.recv()


def test_a_server_does_not_wait_for_half_a_request() -> None:
    with ExitStack() as server:
        address = server.enter_context(serving(make_app("pong", **SHORT)))
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /reset HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
                b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{"
            )
            assert b"100 Continue" in client.recv(100)  # it waits for the rest
            end = threading.Thread(target=server.close)
            end.start()
            end.join(60)
            has_ended = not end.is_alive()
        end.join()
        assert has_ended
