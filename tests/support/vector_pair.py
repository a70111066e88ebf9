"""The vector environments of ale-py and cule in lockstep, every result compared."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np

import cule
from tests.support.ale_pair import difference, load_ale_py

INFO_KEYS = ("env_id", "lives", "frame_number", "episode_frame_number")


def random_actions(space: Any, rng: np.random.Generator, rows: int) -> np.ndarray:
    """Actions for `rows` consoles, from the space of one."""
    if hasattr(space, "n"):
        return rng.integers(space.n, size=rows)
    return rng.uniform(space.low, space.high, (rows, *space.shape)).astype(np.float32)


def boundary_actions(rng: np.random.Generator, rows: int, threshold: float) -> np.ndarray:
    """Continuous actions with x, y or button value at the threshold, give or take a rounding error.

    Returns float32 ``[rows, 3]``.
    """
    angles = rng.uniform(-np.pi, np.pi, rows).astype(np.float32)
    sides = np.where(rng.random(rows) < 0.5, np.cos(angles), np.sin(angles))
    radii = np.minimum(threshold / np.abs(sides), 1.0).astype(np.float32)
    radii = np.nextafter(radii, rng.integers(0, 2, rows).astype(np.float32))
    fires = np.nextafter(np.float32(threshold), rng.integers(0, 2, rows).astype(np.float32))
    return np.stack([radii, angles, fires], axis=1)


class VectorPair:
    """An ale-py vector environment and ours, made with the same keywords; a context manager."""

    def __init__(self, game: str, num_envs: int, **keywords: Any) -> None:
        """Make both."""
        load_ale_py()
        from ale_py.vector_env import AtariVectorEnv

        self.name = f"{game} {keywords}"
        self.num_envs = num_envs
        self.reference = AtariVectorEnv(game, num_envs=num_envs, num_threads=1, **keywords)
        self.ours = cule.AtariVectorEnv(
            game, num_envs=num_envs, num_threads=1, resets="exact", **keywords
        )
        self.keywords = keywords
        self.steps = 0
        self.num_ended = 0  # episodes, over all consoles
        self._episode_frames = np.zeros(num_envs, np.int32)
        assert self.ours.single_action_space == self.reference.single_action_space
        assert self.ours.single_observation_space == self.reference.single_observation_space

    def __enter__(self) -> VectorPair:
        """Nothing beyond what is made already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close both."""
        self.reference.close()
        self.ours.close()

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Reset both and compare what comes back."""
        expected = self.reference.reset(seed=seed, options=options)
        got = self.ours.reset(seed=seed, options=options)
        self._compare_obs(expected[0], got[0])
        self._compare_info(expected[1], got[1])
        self._episode_frames = expected[1]["episode_frame_number"].copy()

    def step(self, actions: np.ndarray) -> np.ndarray:
        """Step both and compare what comes back; which consoles have terminated or truncated."""
        expected = self.reference.step(actions)
        got = self.ours.step(actions)
        self.steps += 1
        for name, theirs, mine in zip(
            ("reward", "terminated", "truncated"), expected[1:4], got[1:4], strict=True
        ):
            self._same(name, theirs, mine)
        self._compare_obs(expected[0], got[0])
        self._compare_info(expected[4], got[4])
        self._compare_final(expected, got)
        self._episode_frames = expected[4]["episode_frame_number"].copy()
        done: np.ndarray = expected[2] | expected[3]
        self.num_ended += int(done.sum())
        return done

    def play(self, rng: np.random.Generator, steps: int, hold: int = 1) -> None:
        """Play random actions, each held for some steps."""
        actions = np.empty(0)
        for step in range(steps):
            if step % hold == 0:
                actions = random_actions(
                    self.reference.single_action_space, rng, len(self._episode_frames)
                )
            self.step(actions)

    def _same(self, what: str, expected: Any, got: Any) -> None:
        wrong = difference(expected, got)
        assert not wrong, f"{self.name}, step {self.steps}: {what}: {wrong}"

    def _compare_obs(self, expected: Any, got: Any) -> None:
        self._same("obs", expected, got)

    def _compare_info(self, expected: dict[str, Any], got: dict[str, Any]) -> None:
        for key in INFO_KEYS:
            self._same(key, expected[key], got[key])
        known = {*INFO_KEYS, "final_obs"}
        assert set(expected) <= known, f"ale-py has more: {set(expected) - known}"

    def _compare_final(self, expected: tuple[Any, ...], got: tuple[Any, ...]) -> None:
        """Rows of ``final_obs`` where an episode ended; the others are unspecified in ale-py."""
        theirs, mine = expected[4], got[4]
        assert ("final_obs" in theirs) == ("final_obs" in mine), f"{self.name}, step {self.steps}"
        if "final_obs" not in theirs:
            return
        ended = mine["_final_info"]
        done = expected[2] | expected[3]
        if self.keywords.get("life_loss_info") and not self.keywords.get("episodic_life"):
            # A lost life is reported and the game continues: only a counter that did not is a reset.
            assert not (ended & ~done).any()
            assert ended[theirs["episode_frame_number"] <= self._episode_frames].all()
        else:
            self._same("ended", done, ended)
        self._same("final_obs", theirs["final_obs"][ended], mine["final_obs"][ended])
