"""Fixtures of the tests of the Python faces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cule
from tests.support.api import MakeEnv, rom_path


@pytest.fixture
def make_env() -> Iterator[MakeEnv]:
    """Makes vector environments, pong with two consoles by default, and closes them."""
    made: list[cule.AtariVectorEnv] = []

    def make(game: Any = "pong", num_envs: int = 2, **keywords: Any) -> cule.AtariVectorEnv:
        keywords.setdefault("num_threads", 1)
        env = cule.AtariVectorEnv(game, num_envs, **keywords)
        made.append(env)
        return env

    yield make
    for env in made:
        env.close()


@pytest.fixture
def pong() -> cule.ALEInterface:
    """An interface with pong loaded, without sticky actions."""
    ale = cule.ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom_path("pong"))
    return ale
