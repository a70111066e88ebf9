"""Translated code is exact to the interpreter: state after every frame, games and random programs.

`CULE_TRANSLATION=0` makes a game that is interpreted. The parity tests run translated, against
ale-py; here both forms run side by side, so that neither goes untested.
"""

from __future__ import annotations

import platform
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cule import _core
from cule.envs.plan import make_game
from cule.games import load_games, resolve
from tests.programs import core_game
from tests.property.runs import draw_actions, make
from tests.random_programs import CARTRIDGES, random_bytes_image, random_image

HAS_TRANSLATION = sys.platform == "linux" and platform.machine() == "x86_64"
FRAMES = 120
STEPS = 60

needs_translation = pytest.mark.skipif(
    not HAS_TRANSLATION, reason="ROMs are translated on Linux on x86-64 only"
)


def both(monkeypatch: pytest.MonkeyPatch, make_one: Any) -> tuple[Any, Any]:
    """What `make_one` makes, translated and interpreted."""
    monkeypatch.delenv("CULE_TRANSLATION", raising=False)
    translated = make_one()
    monkeypatch.setenv("CULE_TRANSLATION", "0")
    return translated, make_one()


def check_pair(consoles: tuple[_core.Console, _core.Console], seed: str, frames: int) -> None:
    """Random actions and resets to both; RAM, reward and picture equal on every frame."""
    translated, interpreted = consoles
    rng = random.Random(seed)
    for frame in range(frames):
        if interpreted.game_over() or rng.random() < 0.02:
            translated.reset_game()
            interpreted.reset_game()
        action = rng.randrange(18)
        assert translated.act(action) == interpreted.act(action), f"{seed}, frame {frame}: reward"
        assert np.array_equal(translated.ram(), interpreted.ram()), f"{seed}, frame {frame}: RAM"
        if frame % 5 == 0:
            same = np.array_equal(translated.screen_index(), interpreted.screen_index())
            assert same, f"{seed}, frame {frame}: picture"
    assert translated.get_state(True) == interpreted.get_state(True), seed


@pytest.mark.ale
@needs_translation
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = resolve(game).to_core_kwargs()
    games = both(monkeypatch, lambda: make_game(kwargs))
    check_pair((_core.Console(games[0]), _core.Console(games[1])), game, FRAMES)
    assert games[1].code_bytes == 0
    assert games[0].code_bytes > 0


@pytest.mark.slow
@pytest.mark.ale
@needs_translation
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games_for_long(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolve(game)
    games = both(monkeypatch, lambda: make_game(spec.to_core_kwargs()))
    for seed in range(3):
        options = {"random_seed": seed, "repeat_action_probability": 0.25 * (seed > 0)}
        pair = (_core.Console(games[0], **options), _core.Console(games[1], **options))
        check_pair(pair, f"{game} {seed}", 6000)


@needs_translation
@pytest.mark.parametrize("kind", CARTRIDGES)
@pytest.mark.parametrize("writer", [random_image, random_bytes_image])
def test_random_programs(writer: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5000, 5012):
        rom = writer(seed, kind)
        left = "paddles" if seed % 2 else "joystick"
        consoles = both(
            monkeypatch,
            lambda rom=rom, left=left: _core.Console(core_game(rom, controller_left=left)),
        )
        check_pair(consoles, f"{writer.__name__} {kind} {seed}", 30)


@pytest.mark.ale
def test_batches_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consoles that find new code at the same time, in four threads."""

    def play(num_threads: int) -> list[np.ndarray]:
        env = make("ms_pacman", 16, num_threads=num_threads)
        env.reset(seed=3)
        frames = [np.array(env.step(row)[0]) for row in draw_actions(5, STEPS, 16)]
        env.close()
        return frames

    monkeypatch.setenv("CULE_TRANSLATION", "0")
    expected = play(1)
    monkeypatch.delenv("CULE_TRANSLATION")
    for num_threads in (1, 4):
        for step, (left, right) in enumerate(zip(play(num_threads), expected, strict=True)):
            assert np.array_equal(left, right), f"{num_threads} threads, step {step}"


FORKED = """
import os, sys
import numpy as np
import cule

def play(steps):
    return [env.step(np.full(2, step % 6))[0].sum() for step in range(steps)]

env = cule.AtariVectorEnv("pong", 2, num_threads=1)
env.reset(seed=1)
play(20)
state = env.get_state()
child = os.fork()
sums = play(60)  # both find code that the other does not know of
env.set_state(state)
sys.exit(sums != play(60) or (child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


@pytest.mark.ale
@needs_translation
def test_processes_after_a_fork_have_code_of_their_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_wish_is_read_when_a_game_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rom = random_image(1, "4K")
    games = both(monkeypatch, lambda: core_game(rom))
    assert (games[0].code_bytes > 0) == HAS_TRANSLATION
    assert games[1].code_bytes == 0
