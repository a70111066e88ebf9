"""Faults while environments are in use: they end with an error or go on, and nothing is lost."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cule.errors import InvalidStateError
from cule.games.roms import find_rom
from cule.games.schema import load_roms
from tests.support.cases import long_except
from tests.support.runs import assert_same, draw_actions, make, reset, step_all

pytestmark = pytest.mark.ale

STEPS = 30


def test_a_rom_that_is_changed_or_removed_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_env = make("pong", 2)
    expected = [reset(expected_env, seed=1), *step_all(expected_env, draw_actions(1, STEPS, 2))]
    file = tmp_path / "pong.bin"
    file.write_bytes(find_rom("pong", {load_roms()["pong"].md5}).data)
    monkeypatch.setenv("CULE_ROM_DIR", str(tmp_path))
    env = make("pong", 2)
    results = [reset(env, seed=1)]
    file.write_bytes(b"\0" * 2048)
    results += step_all(env, draw_actions(1, 10, 2))
    file.unlink()
    results += step_all(env, draw_actions(1, STEPS, 2)[10:])
    assert_same(results, expected)
    following = draw_actions(2, STEPS, 2)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = step_all(expected_env, following)
    for other in (env, *copies):
        assert_same(step_all(other, following), expected)
        other.close()
    expected_env.close()


@pytest.mark.parametrize("game", ["pong", "montezuma_revenge"])
def test_a_flipped_bit_in_a_snapshot_is_noticed(game: str) -> None:
    env = make(game, 2)
    reset(env, seed=1)
    step_all(env, draw_actions(1, STEPS, 2))
    states = env.get_state()
    random = np.random.default_rng(1)
    places = random.choice(states.shape[1], size=min(3_000, states.shape[1]), replace=False)
    for place in places:
        damaged = states.copy()
        damaged[random.integers(2), place] ^= 1 << random.integers(8)
        with pytest.raises(InvalidStateError):
            env.set_state(damaged)
    assert np.array_equal(env.get_state(), states)
    env.close()


INTERRUPTED = """
import signal, sys
import numpy as np
import cule
from tests.support.runs import draw_actions, make

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
env, twin = (make("breakout", 32, num_threads=threads) for threads in (2, 1))
actions = draw_actions(1, 60, 32)
for each in (env, twin):
    each.reset(seed=1)
interrupted = 0
for row in actions:
    before = twin.get_state()
    twin.step(row)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        env.step(row)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    state = env.get_state()
    if np.array_equal(state, before):  # the step did not begin
        env.step(row)
        state = env.get_state()
    assert np.array_equal(state, twin.get_state())
print(interrupted)
"""


def run_script(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no alarm signal")
def test_an_interrupted_step_is_done_or_not_begun() -> None:
    done = run_script(INTERRUPTED)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


EXIT = """
import sys, threading
import numpy as np
import cule
env = cule.AtariVectorEnv("pong", 8, num_threads=2, **eval(sys.argv[1]))
env.reset(seed=0)
def step_for_ever():
    while True:
        env.send(np.zeros(env.batch_size, int))
        env.recv()
if sys.argv[2] == "sent":
    env.send(np.zeros(env.batch_size, int))
elif sys.argv[2] == "stepping":
    threading.Thread(target=step_for_ever, daemon=True).start()
    import time; time.sleep(0.2)
elif sys.argv[2] == "raised":
    raise SystemExit(3)
elif sys.argv[2] == "circle":
    env.itself = env
    del env
sys.single = cule.ALEInterface()  # outlives the modules
"""


@pytest.mark.parametrize("options", long_except([{}, {"batch_size": 4}], {"batch_size": 4}))
@pytest.mark.parametrize("moment", ["idle", "sent", "stepping", "raised", "circle"])
def test_the_interpreter_ends_with_live_environments(options: dict[str, Any], moment: str) -> None:
    done = run_script(EXIT, repr(options), moment)
    assert (done.returncode, done.stderr) == (3 if moment == "raised" else 0, ""), done
