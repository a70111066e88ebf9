"""Ctrl-C during calls that would take minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import long_except

pytestmark = [
    pytest.mark.ale,
    pytest.mark.skipif(os.name == "nt", reason="there is no alarm signal"),
]

START = """
import signal
import numpy as np
import cule
from cule.errors import CuleError, NotResetError
from tests.support.runs import make

def interrupt(*_):
    raise KeyboardInterrupt

def interrupted(call, after=0.3):
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        call()
    except KeyboardInterrupt:
        return True
    return False

LONG = {"noop_max": 100_000, "num_threads": 2, "max_num_frames_per_episode": 108_000}
"""

#: Each would take a minute or longer.
SCRIPTS = {
    "reset": """
env = make("pong", 40, **LONG)
assert interrupted(lambda: env.reset(seed=0))
try:
    env.step(np.zeros(40, int))
except NotResetError:
    print("done")
""",
    "one thread": """
env = make("pong", 20, **LONG | {"num_threads": 1})
assert interrupted(lambda: env.reset(seed=0))
print("done")
""",
    "decorrelation": """
env = make("pong", 2, num_threads=2, repeat_action_probability=0.0, decorrelate_steps=1_000_000)
assert interrupted(lambda: env.reset(seed=0))
try:
    env.observe()
except NotResetError:
    print("done")
""",
    "cached resets": """
env = make("pong", 2, resets="cached", num_reset_states=60, **LONG)
assert interrupted(lambda: env.reset(seed=0))
print("done")
""",
    "asynchronous": """
env = make("pong", 40, batch_size=20, **LONG)
assert interrupted(lambda: env.reset(seed=0))
env.close()
print("done")
""",
    "act": """
from tests.support.concurrency import make_ale
ale = make_ale()
ale.setInt("frame_skip", 2**31 - 1)
from cule.games.roms import find_rom
from cule.games.schema import load_roms
ale.loadROM(find_rom("pong", {load_roms()["pong"].md5}).path)
assert interrupted(lambda: ale.act(0))
print("done")
""",
    "playback": """
import tempfile
from cule.datasets import Recorder, open_dataset
env = make("pong", 8, episode_info=True)
recorder = Recorder(env)
recorder.reset(seed=0)
for _ in range(40):
    recorder.step(np.zeros(8, int))
with tempfile.TemporaryDirectory() as folder:
    recorder.save(folder + "/x.cule")
    dataset = open_dataset(folder + "/x.cule")
def play():
    return [(step.obs.sum(), step.valid.sum()) for step in dataset.replay(num_envs=3)]
def play_for_ever():
    while True:
        play()
before = play()
assert interrupted(play_for_ever)
assert play() == before
print("done")
""",
    "a handler that calls the environment": """
from cule.envs.errors import CallOrderError
env = make("pong", 40, **LONG)
def step(*_):
    env.step(np.zeros(40, int))
signal.signal(signal.SIGALRM, step)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    env.reset(seed=0)
except CuleError:
    print("done")
""",
}


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("name", long_except(SCRIPTS, every=2))
def test_a_long_call_ends(name: str) -> None:
    done = run_script(START + SCRIPTS[name])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize(
    ("made", "lock"),
    [
        ('make("pong", 4)', "env._lock"),
        ('cule.AtariEnv("pong")', "env.ale._lock"),
    ],
)
def test_a_signal_while_environments_are_left_behind_in_a_child(made: str, lock: str) -> None:
    script = f"""
import os, threading, warnings
from cule.envs.errors import CallOrderError
warnings.simplefilter("ignore")

class Interrupting:
    lock, left = threading.RLock(), 2

    def acquire(self, blocking=True):
        Interrupting.left -= 1
        if Interrupting.left >= 0:
            raise KeyboardInterrupt
        return self.lock.acquire(blocking)

    def release(self):
        self.lock.release()

env = {made}
env.reset(seed=0)
{lock} = interrupting = Interrupting()
def call_for_ever():
    with interrupting.lock:
        held.set()
        threading.Event().wait()
held = threading.Event()
threading.Thread(target=call_for_ever, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    try:
        env.reset(seed=0)
    except CallOrderError:
        os._exit(Interrupting.left >= 0)
    os._exit(1)
print("done" if os.waitpid(child, 0)[1] == 0 else "waits")
os._exit(0)
"""
    done = run_script(START + script)
    assert done.stdout == "done\n", done.stderr
