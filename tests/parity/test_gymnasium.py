"""``gymnasium.make`` and ``make_vec`` of cule's ids against those of ale-py's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from tests.parity.test_ale_interface import generator
from tests.support.ale_pair import difference, load_ale_py
from tests.support.cases import long_except
from tests.support.vector_pair import boundary_actions

pytestmark = pytest.mark.ale

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Pong-v5", {}),
    ("MsPacman-v5", {"full_action_space": True, "obs_type": "grayscale"}),
    ("SpaceInvaders-v5", {"mode": 9, "difficulty": 1, "frameskip": (2, 6)}),
    ("Skiing-v5", {"obs_type": "ram", "frameskip": 2}),
    ("Skiing-v5", {"continuous": True, "frameskip": 3}),
    ("AirRaid-v5", {"repeat_action_probability": 0.0}),
    ("Kaboom-v5", {"continuous": True, "sound_obs": True}),
    ("Enduro-v5", {"continuous": True, "continuous_action_threshold": 0.2, "frameskip": 1}),
    ("Berzerk-v5", {"sound_obs": True, "obs_type": "grayscale"}),
    ("Tennis-v5", {"max_num_frames_per_episode": 70, "mode": 2, "difficulty": 3}),
    ("Tetris-v5", {"frameskip": 7}),
    ("Breakout-v0", {}),
    ("Asterix-v4", {"obs_type": "ram"}),
    ("PongNoFrameskip-v0", {"obs_type": "grayscale"}),
    ("SpaceInvadersNoFrameskip-v4", {"max_num_frames_per_episode": 30}),
]


def same(expected: Any, got: Any) -> bool:
    """Equality of observations, arrays or dicts of them."""
    if isinstance(expected, dict):
        return expected.keys() == got.keys() and all(same(expected[k], got[k]) for k in expected)
    return not difference(expected, got)


@pytest.mark.parametrize(
    ("name", "keywords"), long_except(CASES, every=4), ids=[case[0] for case in CASES]
)
@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")  # v0 and v4
def test_single(name: str, keywords: dict[str, Any]) -> None:
    gymnasium.register_envs(load_ale_py())
    gymnasium.register_envs(cule)
    space = "ALE/" if name.endswith("-v5") else ""
    theirs = gymnasium.make(f"{space}{name}", disable_env_checker=True, **keywords)
    ours = gymnasium.make(f"cule/{name}", disable_env_checker=True, **keywords)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    theirs.action_space.seed(int(generator(name).integers(1000)))
    done = 0
    for seed in (11, None, 12):
        expected, got = theirs.reset(seed=seed), ours.reset(seed=seed)
        assert same(expected[0], got[0])
        assert expected[1] == got[1]
        for _ in range(40):
            action = theirs.action_space.sample()
            expected, got = theirs.step(action), ours.step(action)
            assert same(expected[0], got[0])
            assert expected[1:] == got[1:]
            if expected[2] or expected[3]:
                done += 1
                assert same(theirs.reset()[0], ours.reset()[0])
    assert done or "max_num_frames_per_episode" not in keywords
    theirs.close()
    ours.close()


def test_continuous_actions_at_the_threshold() -> None:
    """Rounded as in ale-py."""
    keywords = {"continuous": True, "repeat_action_probability": 0.0, "obs_type": "ram"}
    theirs = load_ale_py().AtariEnv("enduro", frameskip=1, **keywords)
    ours = cule.AtariEnv("enduro", frameskip=1, **keywords)
    theirs.reset(seed=0)
    ours.reset(seed=0)
    for action in boundary_actions(generator("boundary"), 400, 0.5):
        expected, got = theirs.step(action), ours.step(action)
        assert same(expected[0], got[0])
        assert expected[1:] == got[1:]


@pytest.mark.parametrize(("name", "keywords"), [("Seaquest-v5", {}), ("Pong-v5", {"stack_num": 2})])
def test_make_vec(name: str, keywords: dict[str, Any]) -> None:
    gymnasium.register_envs(load_ale_py())
    gymnasium.register_envs(cule)
    theirs = gymnasium.make_vec(f"ALE/{name}", num_envs=2, num_threads=1, **keywords)
    ours = gymnasium.make_vec(f"cule/{name}", num_envs=2, num_threads=1, **keywords)
    assert same(theirs.reset(seed=5)[0], ours.reset(seed=5)[0])
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.integers(0, 6, 2)
        expected, got = theirs.step(actions), ours.step(actions)
        assert all(map(same, expected[:4], got[:4]))
        assert same(expected[4]["episode_frame_number"], got[4]["episode_frame_number"])
    theirs.close()
    ours.close()
