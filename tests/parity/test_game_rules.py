"""Game facts and rules against ale-py, live: the plain evaluator on the RAM after every frame.

The frames inside a reset are not visible. Therefore the rules start from their reset values with
the RAM after a reset, and the first frame after a reset is not compared: its values depend on a
frame that was not visible (a reward is a difference of two frames).
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from cule.games import load_games, load_roms
from cule.games.schema import GameRules
from tests.support.cases import long_except
from tests.support.rule_evaluator import RuleEvaluator

GAMES = sorted(load_games())
FRAMES = 300
FRAMES_WITH_POKES = 400
FRAMES_BETWEEN_RESETS = 100  # with pokes, which can leave a game in a state without events
SETTLING_FRAMES = 1

pytestmark = pytest.mark.ale


@pytest.fixture(scope="module")
def ale_py() -> Any:
    module = pytest.importorskip("ale_py", reason="ale-py is not installed")
    module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
    return module


def start(ale_py: Any, game: str, seed: int) -> Any:
    from ale_py import roms

    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("max_num_frames_per_episode", 0)
    ale.loadROM(str(roms.get_rom_path(game)))
    return ale


def cartridge_ram(ale: Any, game: str) -> bytes:
    """The RAM on the cartridge: in a saved state it follows the cartridge's name, a word a byte."""
    if load_roms()[game].cart_ram_bytes == 0:
        return b""
    state = ale.cloneState().serialize()
    at = state.rindex(b"Cartridge")
    while 0x30 <= state[at] < 0x7B:
        at += 1
    assert state[at + 4] == 128
    return state[at + 8 : at + 8 + 4 * 128 : 4]


@pytest.mark.parametrize("game", long_except(GAMES, every=18))
def test_facts(ale_py: Any, game: str) -> None:
    rules = load_games()[game]
    ale = start(ale_py, game, 1)
    assert tuple(a.value for a in ale.getLegalActionSet()) == rules.legal_actions
    assert tuple(a.value for a in ale.getMinimalActionSet()) == rules.minimal_actions
    assert tuple(ale.getAvailableModes()) == rules.modes
    assert tuple(ale.getAvailableDifficulties()) == rules.difficulties
    assert ale.cloneState().getCurrentMode() == rules.default_mode
    assert ale.getScreenDims() == (load_roms()[game].screen_height, 160)


class Follower:
    """ale-py, with the rules evaluated after every frame."""

    def __init__(self, ale_py: Any, rules: GameRules, seed: int) -> None:
        self.rules = rules
        self.actions = [ale_py.Action(a) for a in rules.minimal_actions]
        self.evaluator = RuleEvaluator(rules)
        self.ale = start(ale_py, rules.game_id, seed)
        self.reset()

    def reset(self) -> None:
        self.ale.reset_game()
        self.evaluator.reset()
        for _ in range(2):  # the second time, differences with the frame before are settled too
            self._step_rules()
        self.frames = 0

    def _step_rules(self) -> None:
        cart_ram = cartridge_ram(self.ale, self.rules.game_id)
        self.evaluator.step(self.ale.getRAM().tolist(), cart_ram)

    def frame(self, action: Any) -> bool:
        """One frame; whether the game is over."""
        reward = self.ale.act(action)
        self._step_rules()
        expected = (reward, self.ale.game_over(with_truncation=False), self.ale.lives())
        rules = self.evaluator
        self.frames += 1
        if self.frames > SETTLING_FRAMES:
            assert (rules.reward, rules.terminal, rules.lives) == expected, self.frames
        return expected[1]


@pytest.mark.parametrize("game", long_except(GAMES, every=18))
def test_random_play(ale_py: Any, game: str) -> None:
    draw = random.Random(game)
    follower = Follower(ale_py, load_games()[game], seed=draw.randrange(10_000))
    action = follower.actions[0]
    for frame in range(FRAMES):
        if frame % 4 == 0:  # each action is held, so that the player makes progress
            action = draw.choice(follower.actions)
        if follower.frame(action):
            follower.reset()


@pytest.mark.parametrize("game", long_except(GAMES, every=36))
def test_overwritten_ram(ale_py: Any, game: str) -> None:
    """Reaches wraps, victories and knock-outs, which a random player never sees."""
    rules = load_games()[game]
    draw = random.Random(game)
    text = rules.step + "".join(rules.lives)
    numbers = [int(n, 0) for n in re.findall(r"\b0x[0-9A-Fa-f]+|\b\d+\b", text)]
    calls = re.findall(r"\b(?:ram|bcd\d)\(([^()]*)\)", text)
    cells = sorted({int(n, 0) & 127 for call in calls for n in call.split(",")})
    if not cells:
        assert "cartram(" in text, "only the cartridge's RAM, which cannot be written from outside"
        return
    values = sorted({(n + d) & 255 for n in numbers for d in (-1, 0, 1)} | {0, 0x80, 0x99, 0xFF})
    follower = Follower(ale_py, rules, seed=draw.randrange(10_000))
    for _ in range(FRAMES_WITH_POKES):
        if follower.frames >= SETTLING_FRAMES:
            for _ in range(draw.randrange(5)):
                cell = draw.choice(cells)
                byte = int(follower.ale.getRAM()[cell])
                ways = (draw.choice(values), draw.choice(values), byte + 1, draw.randrange(256))
                follower.ale.setRAM(cell, draw.choice(ways) & 255)
        over = follower.frame(draw.choice(follower.actions))
        if over or follower.frames == FRAMES_BETWEEN_RESETS:
            follower.reset()
