"""A `cule.MultiAgentVectorEnv` and the consoles of ``multi_agent_ale_py`` in lockstep.

Every environment has a console of the reference beside it, loaded with its seed. Rewards, lives and
the end of the game are compared in every step, RAM and screens as asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

import cule
from cule.games import find_rom, load_multiplayer
from tests.support.ale_pair import difference

NO_LIMIT = 2**31 - 1
SMALL = {"img_height": 4, "img_width": 4, "stack_num": 1}


def reference(game: str, seed: int, mode: int, **settings: Any) -> Any:
    """A console of the reference at the beginning of an episode."""
    import multi_agent_ale_py

    multi_agent_ale_py.ALEInterface.setLoggerMode("error")
    ale = multi_agent_ale_py.ALEInterface()
    values = {"random_seed": seed, "repeat_action_probability": 0.0, "frame_skip": 1} | settings
    for name, value in {**values, "max_num_frames_per_episode": 0}.items():
        (ale.setFloat if isinstance(value, float) else ale.setInt)(name, value)
    rules = load_multiplayer()[game].rules
    ale.loadROM(str(find_rom(game, rules.md5).path))
    ale.setMode(mode)
    ale.reset_game()
    return ale


class PlayersPair:
    """One mode of a game, both ways."""

    def __init__(
        self,
        game: str,
        mode: int,
        seeds: Sequence[int],
        *,
        sticky: float = 0.0,
        frameskip: int = 1,
        has_own_skip: bool = False,
        difficulty: int = 0,
        **options: Any,
    ) -> None:
        """Reset both.

        Args:
            game: Its id.
            mode: One of its modes; says how many players there are.
            seeds: Of the environments.
            sticky: Probability that an action is repeated.
            frameskip: Frames of a step.
            has_own_skip: The reference skips frames itself, instead of acting several times. It
                draws for frames after the end, so the two agree until an episode ends.
            difficulty: Of both.
            **options: Further options of the environment.
        """
        self.what = f"{game}, mode {mode}, sticky {sticky}, frameskip {frameskip}"
        self.env = cule.MultiAgentVectorEnv(
            game,
            len(seeds),
            mode=mode,
            repeat_action_probability=sticky,
            frameskip=frameskip,
            difficulty=difficulty or None,
            max_num_frames_per_episode=NO_LIMIT,
            num_threads=1,
            **{**SMALL, **options},
        )
        skip = frameskip if has_own_skip else 1
        self.calls = frameskip // skip
        settings: dict[str, Any] = {"repeat_action_probability": sticky, "frame_skip": skip}
        if "max_turn_time" in options:
            settings["max_turn_time"] = options["max_turn_time"]
        self.ales = []
        for seed in seeds:
            ale = reference(game, seed, mode, **settings)
            if difficulty:
                ale.setDifficulty(difficulty)  # holds from the next frame on
                ale.reset_game()
            self.ales.append(ale)
        self.actions = [int(action) for action in self.env.action_set]
        self.steps = 0
        self.seen = {"rewarded": 0, "ended": 0, "lives": 0}
        _, info = self.env.reset(seed=np.array(seeds))
        if difficulty:
            _, info = self.env.reset()
        self._lives = info["lives"]
        self.check(screens=True)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def step(self, actions: np.ndarray) -> None:
        """Step both, and compare what the players get."""
        self.steps += 1
        over = [ale.game_over() for ale in self.ales]
        _, reward, terminated, truncated, info = self.env.step(actions)
        for i, ale in enumerate(self.ales):
            wanted = np.zeros(self.env.num_players, np.int64)
            if over[i]:
                ale.reset_game()
            for _ in range(0 if over[i] else self.calls):
                wanted += ale.act([self.actions[index] for index in actions[i]])
                if ale.game_over():
                    break
            at = f"{self.what}, step {self.steps}, environment {i}"
            assert reward[i].tolist() == wanted.tolist(), f"{at}: rewards"
            assert bool(terminated[i]) == bool(ale.game_over()), f"{at}: end of the game"
            assert not truncated[i], at
            self.seen["rewarded"] += bool(wanted.any())
            self.seen["ended"] += bool(terminated[i])
        self.seen["lives"] += int((info["lives"] != self._lives).any())
        self._lives = info["lives"]
        assert np.array_equal(info["lives"], self.env.lives), self.what
        assert np.array_equal(info["is_out"], info["lives"] < 0), self.what

    def check(self, screens: bool = False) -> None:
        """Compare RAM, lives and counters, and perhaps the screens."""
        pictures = self.env.screens("rgb") if screens else None
        for i, ale in enumerate(self.ales):
            at = f"{self.what}, step {self.steps}, environment {i}"
            assert list(ale.allLives()) == self.env.lives[i].tolist(), f"{at}: lives"
            wrong = difference(ale.getRAM(), self.env.ram[i])
            assert not wrong, f"{at}: RAM: {wrong}"
            assert ale.getEpisodeFrameNumber() == self.env.episode_frames[i], at
            if pictures is not None:
                wrong = difference(ale.getScreenRGB(), pictures[i])
                assert not wrong, f"{at}: screen: {wrong}"

    def poke(self, cell: int, value: int) -> None:
        """Overwrite a byte of RAM in all consoles."""
        address, stride = self.env.ram.ctypes.data, self.env.ram.strides[0]
        for i, ale in enumerate(self.ales):
            ale.setRAM(cell, value)
            ctypes.c_uint8.from_address(address + i * stride + cell).value = value

    def play(
        self, rng: np.random.Generator, steps: int, *, hold: int = 1, screen_every: int = 25
    ) -> None:
        """Play random actions of all players, each held for `hold` steps."""
        shape = (len(self.ales), self.env.num_players)
        actions = np.zeros(shape, np.int64)
        for step in range(steps):
            if step % hold == 0:
                actions = rng.integers(len(self.actions), size=shape)
            self.step(actions)
            self.check(screens=step % screen_every == screen_every - 1)
