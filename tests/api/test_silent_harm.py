"""What would go wrong in silence: copies, ids with another game, forked processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.errors import InvalidArgumentError
from tests.support.api import rom_path
from tests.support.cases import long_except

pytestmark = pytest.mark.ale


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", long_except([copy.deepcopy, pickled], pickled))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sound_obs": True, "repeat_action_probability": 0.9},
        {"frameskip": (2, 7), "mode": 4, "difficulty": 1, "obs_type": "ram"},
    ],
)
def test_a_copy_of_an_environment_continues_where_it_is(
    copied: Callable[[Any], Any], options: dict[str, Any]
) -> None:
    env = gymnasium.make("cule/Breakout-v5", **options)
    env.action_space.seed(0)
    env.reset(seed=3)
    for _ in range(50):
        env.step(env.action_space.sample())
    other = copied(env)
    assert np.array_equal(other.unwrapped.ale.getScreenRGB(), env.unwrapped.ale.getScreenRGB())
    for _ in range(300):
        action = env.action_space.sample()
        mine, theirs = env.step(action), other.step(action)
        for part in zip(mine, theirs, strict=True):
            np.testing.assert_equal(*part)
    for part in zip(env.reset(), other.reset(), strict=True):
        np.testing.assert_equal(*part)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_an_interface_continues_where_it_is(
    copied: Callable[[Any], Any], pong: cule.ALEInterface
) -> None:
    pong.setFloat("repeat_action_probability", 0.5)
    pong.setBool("color_averaging", True)
    pong.loadROM(rom_path("pong"))
    pong.setFloat("repeat_action_probability", 0.0)  # of the next ROM
    for action in range(18):
        pong.act(action)
    state = pong.cloneState()
    pong.act(2)
    pong.restoreState(state)  # the screen is still the one before
    other = copied(pong)
    assert other.getFloat("repeat_action_probability") == 0.0
    for action in range(200):
        assert np.array_equal(other.getScreen(), pong.getScreen())
        assert other.act(action % 18) == pong.act(action % 18)
        assert other.cloneSystemState() == pong.cloneSystemState()
    assert copied(cule.ALEInterface()).getInt("random_seed") == -1


@pytest.mark.parametrize("game", ["breakout", [("pong", 1), ("breakout", 1)]])
def test_an_id_and_another_game_are_refused(game: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"breakout.*'pong'"):
        gymnasium.make_vec("cule/Pong-v5", num_envs=2, game=game)
    env = gymnasium.make_vec("cule/Pong-v5", num_envs=2, game="pong")
    again = gymnasium.make_vec(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.config == env.unwrapped.config


FORK = """
import os, sys, warnings
import numpy as np
import cule
warnings.simplefilter("ignore")
env = cule.AtariVectorEnv("pong", 4, **{options})
env.reset(seed=0)
child = os.fork()
if not child:
    try:
        env.step(np.zeros(env.batch_size, int))
        print("stepped", flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    env.close()
    del env
    cule.AtariVectorEnv("pong", 2, num_threads=2).reset(seed=0)
    os._exit(0)
os.waitpid(child, 0)
env.step(np.zeros(env.batch_size, int))
print("and the parent too", flush=True)
"""


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"num_threads": 2}, "os.fork"),
        ({"num_threads": 1, "batch_size": 2}, "os.fork"),
        ({"num_threads": 1}, "stepped"),
    ],
)
def test_a_forked_process_does_not_hang(options: dict[str, int], word: str) -> None:
    script = FORK.replace("{options}", repr(options))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True
    )
    assert word in done.stdout
    assert "and the parent too" in done.stdout
