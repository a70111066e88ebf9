"""send and recv, with whole and with partial batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cule.envs.errors import ActionShapeError, CallOrderError
from cule.errors import ClosedError, InvalidArgumentError, InvalidStateError, NotResetError
from tests.support.api import MakeEnv, actions_for

pytestmark = pytest.mark.ale


def test_send_and_recv_are_step(make_env: MakeEnv) -> None:
    one, two = make_env(num_envs=4, num_threads=2), make_env(num_envs=4, num_threads=2)
    one.reset(seed=0)
    two.reset(seed=0)
    for actions in actions_for(one, 0, 20):
        two.send(actions)
        for left, right in zip(one.step(actions)[:4], two.recv()[:4], strict=True):
            assert np.array_equal(left, right)


def test_every_console_of_a_partial_batch_plays_on(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4, batch_size=2, num_threads=2)
    obs, info = env.reset(seed=0)
    assert obs.shape == (2, 4, 84, 84)
    assert env.observation_space.shape == (2, 4, 84, 84)
    assert env.action_space.shape == (2,)
    seen = set(info["env_id"].tolist())
    for _ in range(20):
        env.send(np.zeros(2, np.int64))
        obs, reward, terminated, truncated, info = env.recv()
        assert obs.shape == (2, 4, 84, 84)
        assert reward.shape == terminated.shape == truncated.shape == (2,)
        assert len(set(info["env_id"].tolist())) == 2
        seen |= set(info["env_id"].tolist())
    assert seen == {0, 1, 2, 3}


def test_partial_batches_give_each_console_its_own_run(make_env: MakeEnv) -> None:
    together = make_env("breakout", 4)
    expected = [together.reset(seed=0)[0]]
    expected += [together.step(np.ones(4, np.int64))[0] for _ in range(15)]
    env = make_env("breakout", 4, batch_size=2, num_threads=2)
    obs, info = env.reset(seed=0)
    steps = np.zeros(4, np.int64)
    for _ in range(25):
        for row, console in enumerate(info["env_id"]):
            if steps[console] < len(expected):
                assert np.array_equal(obs[row], expected[steps[console]][console])
        steps[info["env_id"]] += 1
        obs, _, _, _, info = env.step(np.ones(2, np.int64))
    assert steps.sum() == 50


def test_reset_with_consoles_on_their_way(make_env: MakeEnv) -> None:
    env = make_env(num_envs=5, batch_size=2, num_threads=2)
    first = {}
    for _ in range(3):
        obs, info = env.reset(seed=0)
        first.update(zip(info["env_id"].tolist(), obs, strict=True))
        env.send(np.zeros(2, np.int64))
    expected, _ = make_env(num_envs=5).reset(seed=0)
    for console, row in first.items():
        assert np.array_equal(row, expected[console])


def test_order_of_calls(make_env: MakeEnv) -> None:
    env = make_env()
    for call in (lambda: env.send(np.zeros(2, np.int64)), env.recv):
        with pytest.raises(NotResetError):
            call()
    env.reset(seed=0)
    with pytest.raises(CallOrderError, match="send"):
        env.recv()
    env.send(np.zeros(2, np.int64))
    with pytest.raises(CallOrderError, match="recv"):
        env.send(np.zeros(2, np.int64))
    for call in (
        lambda: env.step(np.zeros(2, np.int64)),
        lambda: env.step_frames(np.zeros(2, np.int64)),
        env.get_state,
        env.render,
        env.screens,
    ):
        with pytest.raises(RuntimeError):
            call()
    env.recv()
    env.step(np.zeros(2, np.int64))


def test_what_needs_whole_batches(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4, batch_size=2)
    env.reset(seed=0)
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        env.step_frames(np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="partial reset"):
        env.reset(options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(ActionShapeError):
        env.send(np.zeros(4, np.int64))
    with pytest.raises(InvalidArgumentError, match="decorrelate_steps"):
        make_env(num_envs=4, batch_size=2, decorrelate_steps=5)


def test_close_with_consoles_on_their_way(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4, batch_size=2, num_threads=2)
    env.reset(seed=0)
    env.send(np.zeros(2, np.int64))
    env.close()
    env.close()


def test_states_of_partial_batches(make_env: MakeEnv) -> None:
    """Restored at a reset, before any reset, and with a batch in hand."""
    source = make_env("breakout", num_envs=4)
    source.reset(seed=5)
    for actions in actions_for(source, 0, 20):
        source.step(actions)
    rows, frames = source.get_state(), source.episode_frames
    env = make_env("breakout", num_envs=4, batch_size=2, num_threads=1)
    _, info = env.reset(options={"states": rows})
    assert np.array_equal(info["episode_frame_number"], frames[info["env_id"]])
    _, _, _, _, rest = env.recv()
    assert sorted([*info["env_id"], *rest["env_id"]]) == [0, 1, 2, 3]
    env.set_state(rows)
    env.send(np.zeros(2, np.int64))
    _, _, _, _, after = env.recv()
    assert np.array_equal(after["env_id"], rest["env_id"])
    damaged = rows.copy()
    damaged[3, 200] ^= 1
    with pytest.raises(InvalidStateError):
        env.reset(options={"states": damaged})
    seen = [*env.recv()[4]["env_id"], *env.recv()[4]["env_id"]]
    assert sorted(seen) == [0, 1, 2, 3]
    fresh = make_env("breakout", num_envs=4, batch_size=2, num_threads=1)
    fresh.set_state(rows)
    _, _, _, _, first = fresh.recv()
    assert np.array_equal(first["episode_frame_number"], frames[first["env_id"]])


def test_a_refused_reset_forgets_no_results(make_env: MakeEnv) -> None:
    env, twin = make_env("breakout", 4), make_env("breakout", 4)
    for each in (env, twin):
        each.reset(seed=5)
    damaged = env.get_state()
    damaged[3, 200] ^= 1
    actions = actions_for(env, 0, 2)
    env.send(actions[0])
    for _ in range(2):
        with pytest.raises(InvalidStateError):
            env.reset(options={"states": damaged})
        with pytest.raises(CallOrderError, match="while 4 environments have been sent"):
            env.step(actions[1])
    for left, right in zip(env.recv()[:4], twin.step(actions[0])[:4], strict=True):
        assert np.array_equal(left, right)
    with pytest.raises(CallOrderError, match="0 have been sent"):
        env.recv()
    assert np.array_equal(env.step(actions[1])[0], twin.step(actions[1])[0])


def when_its_turn(call: Callable[..., Any], *arguments: object) -> Any:
    """Call again until the other thread has called before."""
    while True:
        try:
            return call(*arguments)
        except CallOrderError:
            time.sleep(0)


def test_a_thread_sends_while_another_copies_results(make_env: MakeEnv) -> None:
    num_envs, num_steps = 64, 12
    options = {"img_height": 210, "img_width": 160, "grayscale": False}
    plain, env = (make_env("pong", num_envs=num_envs, num_threads=2, **options) for _ in range(2))
    actions = actions_for(plain, 3, num_steps)
    plain.reset(seed=0)
    expected = [plain.step(row)[0] for row in actions]
    env.reset(seed=0)
    env.send(actions[0])
    received: list[bool] = []

    def receive() -> None:
        received.extend(np.array_equal(when_its_turn(env.recv)[0], each) for each in expected)

    thread = threading.Thread(target=receive)
    thread.start()
    for row in actions[1:]:
        when_its_turn(env.send, row)
    thread.join()
    assert received == [True] * num_steps


def test_calls_from_several_threads_wait_for_each_other(make_env: MakeEnv) -> None:
    env = make_env(num_envs=8, num_threads=2)
    env.reset(seed=0)
    ended: list[type] = []

    def play() -> None:
        try:
            while True:
                env.step(np.zeros(8, np.int64))
        except ClosedError as error:
            ended.append(type(error))

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seed in range(10):
        env.reset(seed=seed)
    env.close()
    for thread in threads:
        thread.join(timeout=300)
    assert ended == [ClosedError] * 3
