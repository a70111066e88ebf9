"""What the tests of the Python faces share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

import cule
from cule.games import resolve

MakeEnv = Callable[..., cule.AtariVectorEnv]


def rom_path(game: str) -> Any:
    """Path of the ROM of a game."""
    return resolve(game).rom_path


def actions_for(env: cule.AtariVectorEnv, seed: int, steps: int) -> list[np.ndarray]:
    """Random actions for a number of steps."""
    rng = np.random.default_rng(seed)
    rows = env.batch_size
    if env.config.continuous:
        low, high = env.single_action_space.low, env.single_action_space.high
        return [rng.uniform(low, high, (rows, 3)).astype(np.float32) for _ in range(steps)]
    return [rng.integers(env.single_action_space.n, size=rows) for _ in range(steps)]


def rollout_digest(env: cule.AtariVectorEnv, steps: int = 40, seed: int = 0) -> str:
    """Digest of everything that a seeded run returns, dtypes and shapes included."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value):
                if key != "final_obs":  # holds unspecified rows
                    digest.update(key.encode())
                    add(value[key])
        else:
            array = np.asarray(value)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())

    for value in env.reset(seed=seed):
        add(value)
    for actions in actions_for(env, seed, steps):
        for value in env.step(actions):
            add(value)
    return digest.hexdigest()
