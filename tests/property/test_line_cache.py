"""Lines taken over from the frame before (csrc/tia/line_cache.hpp) are those that would be drawn.

`screens()` draws a frame's log from its start, without the cache; observations of full size and
one frame are drawn with it. RAM observations are made without it.
"""

from __future__ import annotations

import numpy as np
import pytest

from cule.games import load_games
from tests.property.runs import draw_actions, make

pytestmark = pytest.mark.ale

STEPS = 60


def check(game: str, steps: int, frameskip: int, seed: int) -> None:
    """Every observation is the screen, and nothing else differs from a run without pictures."""
    keywords = {"frameskip": frameskip, "max_num_frames_per_episode": 40 * frameskip}
    bare = make(game, 2, obs_type="ram", **keywords)
    bare.reset(seed=seed)
    height, width = bare.screens("gray").shape[1:]
    size = {"img_height": height, "img_width": width, "stack_num": 1, "maxpool": False}
    env = make(game, 2, **size, **keywords)
    env.reset(seed=seed)
    num_actions = len(env.action_set)
    for step, actions in enumerate(draw_actions(seed, steps, 2) % num_actions):
        obs, *results = env.step(actions)
        ram, *expected = bare.step(actions)
        where = f"{game}, frameskip {frameskip}, step {step}"
        goes_on = ~(results[1] | results[2])  # the last frames of an episode are not observed
        assert np.array_equal(obs[goes_on, 0], env.screens("gray")[goes_on]), where
        assert np.array_equal(env.ram, ram), where
        for one, other in zip(results[:3], expected[:3], strict=True):
            assert np.array_equal(one, other), where
    env.close()
    bare.close()


@pytest.mark.parametrize("game", sorted(load_games()))
def test_games(game: str) -> None:
    check(game, STEPS, frameskip=1, seed=1)
    check(game, STEPS, frameskip=3, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games_for_long(game: str) -> None:
    for frameskip in (1, 4):
        check(game, 1000, frameskip, seed=frameskip)
