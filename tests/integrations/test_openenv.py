"""OpenEnv: its client plays its server over the loopback interface, and receives cule's steps."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest
from openenv.core import GenericEnvClient

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


# uvicorn leaves its thread by SystemExit.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_port_that_is_taken_is_named(address) -> None:
    port = int(address.rpartition(":")[2])
    with (
        pytest.raises(cule.InvalidArgumentError, match=f"port {port}"),
        serving(make_app("pong", **SHORT), port=port),
    ):
        pass
