"""Several threads, interruptions, forks, and threads or memory that cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.envs.errors import CallOrderError
from cule.errors import ClosedError, ThreadStartError
from tests.support.runs import make

pytestmark = pytest.mark.ale

ROOT = Path(__file__).parents[2]


def run_script(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *words]
    options = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, **options)


SHARED = """
import threading
import gymnasium, cule
env = gymnasium.make("cule/Freeway-v5", disable_env_checker=True)
env.reset(seed=0)
counts = []
def play(number):
    done = 0
    for index in range(400):
        env.step(index % 3)
        done += 1
    counts.append(done)
threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert counts == [400] * 4, counts
print(env.unwrapped.ale.getFrameNumber())
"""

SHARED_CONSOLE = """
import threading
import numpy as np
from tests.support.concurrency import make_ale
ale, twin = make_ale(), make_ale()
first, rewards = ale.getFrameNumber(), []
def play(number):
    for index in range(500):
        rewards.append(ale.act(3))
        if index % 50 == number:
            ale.getScreenRGB(), ale.cloneState(), ale.lives()
threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert ale.getFrameNumber() == first + len(rewards) == first + 2000, ale.getFrameNumber()
assert sum(rewards) == sum(twin.act(3) for _ in rewards)
assert np.array_equal(ale.getRAM(), twin.getRAM())
assert np.array_equal(ale.getScreenRGB(), twin.getScreenRGB())
"""

RESETS = SHARED.replace("done += 1", "index % 25 == 24 and env.reset(seed=number); done += 1")


def test_threads_that_share_one_environment_wait_for_each_other() -> None:
    env = gymnasium.make("cule/Freeway-v5", disable_env_checker=True)
    env.reset(seed=0)
    first = env.unwrapped.ale.getFrameNumber()
    done = run_script(SHARED)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == first + 4 * 400 * 4, first  # no frame is lost
    done = run_script(RESETS)
    assert done.returncode == 0, done.stderr


def test_threads_that_share_a_console_lose_no_frame_and_no_reward() -> None:
    done = run_script(SHARED_CONSOLE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("made", "action"),
    [
        ("cule.AtariVectorEnv('pong', 1)", "np.zeros(1, int)"),
        ("cule.envs.AtariEnv('pong')", "0"),
    ],
)
def test_a_child_does_not_wait_for_a_call_of_the_parent(made: str, action: str) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork")
    script = f"""
import os, signal, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
import cule
from cule.envs.errors import CallOrderError
env = {made}
env.reset(seed=0)
actions = {action}
def step_for_ever():
    while True:
        env.step(actions)
threading.Thread(target=step_for_ever, daemon=True).start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            env.step(actions)
        except CallOrderError:
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""
    done = run_script(script)
    assert done.returncode == 0, done.stderr


INTERRUPTS = """
import signal, sys
import numpy as np
import cule
from tests.support.runs import make

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
"""

INTERRUPTED = f"""
{INTERRUPTS}
batch_size = int(sys.argv[1])
env = make("breakout", 4, batch_size=batch_size, num_threads=2)
env.reset(seed=0)
interrupted = 0
for turn in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00001 * turn)
        while True:
            env.send(np.zeros(batch_size, int))
            env.recv()
    except KeyboardInterrupt:
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    env.reset()
    env.send(np.zeros(batch_size, int))
    env.recv()
print(interrupted)
"""

CONTINUED = f"""
{INTERRUPTS}
env = make("breakout", 4, batch_size=2, num_threads=2)
env.reset(seed=0)
interrupted = 0
for turn in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00001 * turn)
        while True:
            try:
                env.send(np.zeros(2, int))
            except cule.CallOrderError:
                pass  # sent before the interruption
            env.recv()
    except KeyboardInterrupt:
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
seen = set()
for _ in range(20):
    try:
        env.send(np.zeros(2, int))
    except cule.CallOrderError:
        pass
    seen |= set(env.recv()[4]["env_id"].tolist())
assert seen == set(range(4)), seen
print(interrupted)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no alarm signal")
def test_interrupted_receives_lose_no_environment() -> None:
    done = run_script(CONTINUED)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 150


@pytest.mark.skipif(os.name == "nt", reason="there is no alarm signal")
@pytest.mark.parametrize("batch_size", [2, 4], ids=["some", "all"])
def test_a_reset_mends_interrupted_asynchronous_steps(batch_size: int) -> None:
    done = run_script(INTERRUPTED, str(batch_size))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 150


def test_close_ends_a_recv_that_waits() -> None:
    env = make("pong", 4, batch_size=4, num_threads=2)
    env.reset(seed=0)
    errors: list[BaseException] = []

    def play() -> None:
        try:
            while True:
                env.send(np.zeros(4, np.int64))
                env.recv()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    time.sleep(0.05)
    env.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [type(error) for error in errors] == [ClosedError]


def test_an_interrupted_close_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("pong", 1)
    env.reset(seed=0)
    batch = env._batch

    class Interrupted:
        """As a batch on a GPU, which has nothing left to close then."""

        def close(self) -> None:
            batch.close()
            monkeypatch.delattr(Interrupted, "close")
            raise KeyboardInterrupt

    monkeypatch.setattr(env, "_batch", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        env.close()
    assert env.closed
    env.close()
    with pytest.raises(ClosedError):
        env.step(np.zeros(1, np.int64))


@pytest.mark.parametrize("batch_size", [2, 4], ids=["some", "all"])
def test_a_reset_does_not_wait_for_a_recv_that_waits(batch_size: int) -> None:
    """One of the calls takes the environments under way; for the other there are too few."""
    options = {"batch_size": batch_size, "frameskip": 1000, "max_num_frames_per_episode": 10**6}
    env, new = (make("pong", 4, num_threads=2, **options) for _ in range(2))
    actions, shape = np.zeros(batch_size, np.int64), env.observation_space.shape
    done: dict[str, object] = {}

    def start(call: Callable[[], tuple[Any, ...]]) -> threading.Thread:
        def record() -> None:
            try:
                done[call.__name__] = call()[0].shape
            except Exception as error:
                done[call.__name__] = type(error)

        thread = threading.Thread(target=record, daemon=True)
        thread.start()
        return thread

    outcomes = set()
    for _ in range(100):
        env.reset(seed=0)
        env.send(actions)
        env.recv()  # from now on no environment that is under way has finished
        env.send(actions)
        threads = [start(env.recv)]
        time.sleep(0.001)
        threads.append(start(env.reset))
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        outcomes.add((done["recv"], done["reset"]))
        if (shape, CallOrderError) in outcomes:
            break
    assert outcomes <= {(shape, CallOrderError), (CallOrderError, shape), (shape, shape)}
    assert (shape, CallOrderError) in outcomes
    assert np.array_equal(first_frames(env), first_frames(new))


def first_frames(env: cule.AtariVectorEnv) -> np.ndarray:
    """Observations of all environments after a reset by seed."""
    frames = np.zeros((env.num_envs, *env.single_observation_space.shape), np.uint8)
    obs, info = env.reset(seed=7)
    frames[info["env_id"]] = obs
    for _ in range(env.num_envs // env.batch_size - 1):
        obs, *_, info = env.recv()
        frames[info["env_id"]] = obs
    return frames


TOO_MANY_THREADS = """
import numpy as np
import cule
from cule.errors import ThreadStartError
from tests.support.starvation import starve
env = cule.AtariVectorEnv("pong", 1, num_threads=1)
env.reset(seed=0)
starve("memory", 100 << 20)
try:
    cule.AtariVectorEnv("pong", 2, num_threads=500)
except ThreadStartError as error:
    print(error)
env.step(np.zeros(1, int))
"""

TOO_MANY_STATES = """
import signal
import numpy as np
import cule
from cule.errors import OutOfMemoryError
from tests.support.starvation import feed, starve
options = {"num_threads": 3, "resets": "cached", "num_reset_states": 300, "noop_max": 1}
env, twin = (cule.AtariVectorEnv("pong", 2, **options) for _ in range(2))
starve("memory", 15 << 20)
signal.alarm(50)
try:
    env.reset(seed=0)
except OutOfMemoryError as error:
    print(error)
feed("memory")
assert np.array_equal(env.reset(seed=0)[0], twin.reset(seed=0)[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as on Linux")
def test_threads_that_cannot_be_started() -> None:
    done = run_script(TOO_MANY_THREADS)
    assert done.returncode == 0, done.stderr
    assert "499 threads besides the caller are wanted," in done.stdout
    assert issubclass(ThreadStartError, cule.CuleError)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as on Linux")
def test_memory_that_runs_out_in_threads() -> None:
    # So that the heaps of threads, which are mapped in advance, do not have them.
    done = run_script(TOO_MANY_STATES, MALLOC_MMAP_THRESHOLD_="32768")
    assert done.returncode == 0, done.stderr
    assert "memory ran out" in done.stdout
