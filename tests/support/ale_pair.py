"""ale-py and cule in lockstep: the same ROM, settings and calls, and everything compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import cule

SILENCE = 128  # a sample of sound; before the first act they are 0


def load_ale_py() -> Any:
    """The module ``ale_py``, without its messages."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def difference(expected: Any, got: Any) -> str:
    """Where two arrays differ, for messages; empty where they are equal."""
    expected, got = np.asarray(expected), np.asarray(got)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    if np.array_equal(expected, got):
        return ""
    places = np.argwhere(expected != got)
    first = tuple(places[0])
    return (
        f"{len(places)} places from {places[0].tolist()} to {places[-1].tolist()}; at the first "
        f"{got[first]} instead of {expected[first]}"
    )


class Pair:
    """An `ale_py.ALEInterface` and a `cule.ALEInterface` that get the same calls."""

    def __init__(self, game: str, **settings: Any) -> None:
        """Load a game into both.

        Args:
            game: Its id.
            settings: Settings by name, set in both before loading.
        """
        ale_py = load_ale_py()
        self.game = game
        self.reference = ale_py.ALEInterface()
        self.ours = cule.ALEInterface()
        self.frames = 0  # acts
        self.has_sounded = False  # with sound_obs, whether any sample differed from silence
        self._settings = settings
        self.load()

    def load(self) -> None:
        """Set what was given, and load the ROM (again)."""
        setters = {bool: "setBool", int: "setInt", float: "setFloat"}
        for ale in (self.reference, self.ours):
            for name, value in self._settings.items():
                getattr(ale, setters[type(value)])(name, value)
        self.load_other(self.game)

    def load_other(self, game: str) -> None:
        """Load the ROM of a game, with the settings as they are."""
        from ale_py import roms

        self.game = game
        for ale in (self.reference, self.ours):
            ale.loadROM(str(roms.get_rom_path(game)))
        self.actions = [int(action.value) for action in self.reference.getLegalActionSet()]
        self.check(colours=True)

    def both(self, method: str, *arguments: Any) -> Any:
        """Call a method of both; the results must be equal."""
        expected = getattr(self.reference, method)(*arguments)
        got = getattr(self.ours, method)(*arguments)
        assert got == expected, f"{self.where()}: {method}{arguments} is {got}, not {expected}"
        return expected

    def act(self, action: int, strength: float = 1.0) -> int:
        """Play an action in both, and compare the reward."""
        self.frames += 1
        return int(self.both("act", action, strength))

    def reset(self) -> None:
        """Reset both, and compare all there is to see."""
        self.both("reset_game")
        self.check(colours=True)

    def check(self, screen: bool = False, colours: bool = False) -> None:
        """Compare RAM, lives, flags and counters; the screen; and the screen in colour and gray."""
        wrong = difference(self.reference.getRAM(), self.ours.getRAM())
        assert not wrong, f"{self.where()}: RAM: {wrong}"
        for method in ("lives", "game_over", "game_truncated"):
            self.both(method)
        self.both("getFrameNumber")
        self.both("getEpisodeFrameNumber")
        looks = ["getAudio"] if self._settings.get("sound_obs") else []
        looks += ["getScreen"] if screen or colours else []
        looks += ["getScreenRGB", "getScreenGrayscale"] if colours else []
        for look in looks:
            expected = getattr(self.reference, look)()
            wrong = difference(expected, getattr(self.ours, look)())
            assert not wrong, f"{self.where()}: {look}: {wrong}"
            if look == "getAudio":
                self.has_sounded = self.has_sounded or bool((expected > SILENCE).any())

    def play(
        self,
        rng: np.random.Generator,
        frames: int,
        *,
        hold: int = 1,
        screen_every: int = 7,
        colours_every: int = 70,
        reset_every: int | None = None,
        strengths: bool = False,
    ) -> None:
        """Play random legal actions, resetting at game over, and compare after every frame.

        Args:
            rng: Draws the actions.
            frames: How many acts.
            hold: Acts for which an action is held.
            screen_every: Acts between looks at the screen.
            colours_every: Acts between looks at it in colour and gray.
            reset_every: Acts after which it is also reset; None: never.
            strengths: Whether the paddle strength is random.
        """
        strength = 1.0
        action = 0
        for frame in range(frames):
            early = reset_every is not None and frame % reset_every == reset_every - 1
            if early or self.reference.game_over():
                self.reset()
            if frame % hold == 0:
                action = self.actions[rng.integers(len(self.actions))]
                if strengths:
                    strength = float(np.float32(rng.uniform(-0.2, 1.2)))
            self.act(action, strength)
            self.check(
                screen=frame % screen_every == screen_every - 1,
                colours=frame % colours_every == colours_every - 1,
            )

    def where(self) -> str:
        """Game and act, for messages."""
        return f"{self.game}, act {self.frames}"
