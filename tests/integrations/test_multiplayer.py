"""Games for several players, against ``multi_agent_ale_py`` frame by frame: the very same play."""

from __future__ import annotations

import ast
import json
from importlib.metadata import version

import numpy as np
import pytest

from cule.games import load_multiplayer
from roms_tools import record_multiplayer
from tests.support.players_pair import PlayersPair, reference

pytest.importorskip(
    "multi_agent_ale_py", reason="multi_agent_ale_py is not installed; see make test-integrations"
)

pytestmark = pytest.mark.ale

GAMES = load_multiplayer()
MODES = [(game, mode) for game, facts in GAMES.items() for m in facts.modes.values() for mode in m]
#: The first and the last mode of each game and number of players.
SOME_MODES = [
    (game, mode)
    for game, facts in GAMES.items()
    for modes in facts.modes.values()
    for mode in dict.fromkeys((modes[0], modes[-1]))
]
SEEDS = (1, 77, 4753849, 2**31 - 1)

#: Ends of games, and penalties, that random bytes do not reach: for so many steps these cells get
#: these values, the other cells that the rules read 0 (or stay as they are).
AIMS: dict[str, list[tuple[int, bool, dict[int, int]]]] = {
    "backgammon": [
        (3, True, {0x80: 0xF1, 0x8E: 15}),
        (3, True, {0x81: 0xF1, 0x8E: 15}),
        (3, True, {0x80: 0xF1, 0x82: 15}),
    ],
    "mario_bros": [(2, False, {0x87: 0, 0x88: 0})],
    "othello": [(90, False, {0xC0: 0})],
    "pong": [(130, False, {0x8C: 0})],
    "tennis": [(2, False, {0xC7: 7}), (200, False, {0xCC: 5})],
    "video_checkers": [
        (2, True, {0x80: 0x10}),
        (2, True, {0x80: 0x90}),
        (700, False, {0xC0: 0x10}),
        (700, False, {0xC0: 0}),
    ],
    "wizard_of_wor": [
        (300, False, {0x8D: 0, 0x8C: 0}),
        (5, False, {0x8D: 0, 0x8C: 0, 0xF4: 0xF8}),
    ],
}


def cells_and_values(game: str) -> tuple[list[int], list[int]]:
    """Cells that the rules of a game read, and bytes around the numbers in them."""
    cells, values = set(), {0, 1, 2, 0x7F, 0x80, 0x99, 0xFE, 0xFF}
    for node in ast.walk(ast.parse(GAMES[game].rules.step)):
        if isinstance(node, ast.Call):
            cells |= {arg.value & 0x7F for arg in node.args if isinstance(arg, ast.Constant)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            values |= {node.value + d & 0xFF for d in (-1, 0, 1)}
    return sorted(cells), sorted(values)


def poke_and_play(pair: PlayersPair, game: str, rng: np.random.Generator, steps: int) -> None:
    """Play while the bytes that the rules read are overwritten."""
    cells, values = cells_and_values(game)
    for _ in range(steps):
        for _ in range(rng.integers(3)):
            pair.poke(int(rng.choice(cells)), int(rng.choice(values)))
        pair.play(rng, 1)


@pytest.mark.parametrize(("game", "mode"), SOME_MODES)
def test_games(game: str, mode: int) -> None:
    pair = PlayersPair(game, mode, (1,))
    pair.play(np.random.default_rng(mode), 60)
    pair.close()
    pair = PlayersPair(game, mode, (4753849,), sticky=0.25, frameskip=4)
    pair.play(np.random.default_rng(mode + 1), 25)
    pair.close()


@pytest.mark.parametrize("game", GAMES)
def test_rules_on_overwritten_memory(game: str) -> None:
    mode = GAMES[game].rules.modes[0]
    pair = PlayersPair(game, mode, (3,))
    rng = np.random.default_rng(0)
    poke_and_play(pair, game, rng, 150)
    assert pair.seen["rewarded"] or game in ("backgammon", "maze_craze", "video_checkers")
    pair.close()


@pytest.mark.parametrize("game", ["boxing", "pong", "wizard_of_wor"])
def test_skip_of_the_reference(game: str) -> None:
    """A skip that the reference makes itself; what it draws after an end is not drawn here."""
    mode = GAMES[game].rules.modes[0]
    pair = PlayersPair(game, mode, (9, 10), sticky=0.25, frameskip=4, has_own_skip=True)
    pair.play(np.random.default_rng(5), 40)
    assert not pair.seen["ended"]
    pair.close()


def test_time_to_stall() -> None:
    for limit in (1, 7, 0):
        pair = PlayersPair("tennis", 2, (1,), max_turn_time=limit)
        pair.play(np.random.default_rng(limit), 40)
        assert bool(pair.seen["rewarded"]) == (limit > 0)
        pair.close()


def test_difficulty_holds_from_the_next_frame() -> None:
    for game, difficulty in (("backgammon", 3), ("othello", 2), ("surround", 1)):
        mode = GAMES[game].rules.modes[0]
        pair = PlayersPair(game, mode, (4,), difficulty=difficulty)
        pair.play(np.random.default_rng(1), 30)
        pair.close()


def test_facts_of_the_interface() -> None:
    for game, facts in GAMES.items():
        ale = reference(game, 1, facts.rules.modes[0])
        for number in (2, 4):
            assert tuple(ale.getAvailableModes(number)) == facts.modes.get(number, ()), game
        assert tuple(ale.getMinimalActionSet()) == facts.rules.minimal_actions, game
        assert tuple(ale.getLegalActionSet()) == facts.rules.legal_actions, game
        assert tuple(ale.getAvailableDifficulties()) == facts.rules.difficulties, game
        assert ale.numPlayersActive() == facts.rules.num_players, game


def test_the_record_is_what_the_reference_does() -> None:
    golden = json.loads(record_multiplayer.TARGET.read_text(encoding="utf-8"))
    package = record_multiplayer.PACKAGE
    assert version(package) == golden[package], f"run {record_multiplayer.COMMAND}"
    for game, mode in (("pong", 5), ("double_dunk", 16), ("entombed", 3)):
        assert record_multiplayer.record(game, mode) == golden["traces"][game][str(mode)], game


# --- The long form -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("frameskip", [1, 4])
@pytest.mark.parametrize(("game", "mode"), MODES)
def test_every_mode(game: str, mode: int, frameskip: int, sticky: float) -> None:
    pair = PlayersPair(game, mode, SEEDS, sticky=sticky, frameskip=frameskip)
    pair.play(np.random.default_rng(mode), 240 // frameskip, screen_every=20)
    pair.close()


@pytest.mark.slow
@pytest.mark.parametrize("hold", [1, 12])
@pytest.mark.parametrize(("game", "mode"), SOME_MODES)
def test_long_play(game: str, mode: int, hold: int) -> None:
    pair = PlayersPair(game, mode, SEEDS[:2])
    pair.play(np.random.default_rng(hold), 4000, hold=hold)
    pair.close()


@pytest.mark.slow
@pytest.mark.parametrize(("game", "mode"), SOME_MODES)
def test_long_play_on_overwritten_memory(game: str, mode: int) -> None:
    pair = PlayersPair(game, mode, SEEDS[:1])
    rng = np.random.default_rng(mode)
    poke_and_play(pair, game, rng, 2500)
    cells, _ = cells_and_values(game)
    for steps, clears, values in AIMS.get(game, []):
        for _ in range(steps):
            for cell in cells if clears else ():
                pair.poke(cell, 0)
            for cell, value in values.items():
                pair.poke(cell & 0x7F, value)
            pair.play(rng, 1)
    assert pair.seen["rewarded"]
    assert pair.seen["ended"]
    assert pair.seen["lives"] or all(text == "0" for text in GAMES[game].rules.lives)
    pair.close()
