"""The game data: complete, consistent between its two files, and with nothing dead in it."""

from __future__ import annotations

import ast

import pytest

from cule.games import load_games, load_multiplayer, load_roms
from cule.games.language import CORE_STATE, RESERVED, core_state, parse_rules
from cule.games.schema import LOG_ENTRIES, TURN_LIMIT, GameRules

GAMES = sorted(load_games())
WITHOUT_RULES = {"combat", "joust", "maze_craze", "warlords"}


def names_in(*nodes: ast.AST) -> tuple[set[str], set[str]]:
    """Names read and names written; the name of a call is neither."""
    found = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    read = {n.id for n in found if isinstance(n.ctx, ast.Load)} - (RESERVED - {"mode"})
    return read, {n.id for n in found if isinstance(n.ctx, ast.Store)}


def test_every_rom_has_rules_or_says_that_it_has_none() -> None:
    roms = load_roms()
    assert len(load_games()) == 104
    assert set(roms) - set(load_games()) == WITHOUT_RULES
    assert {rom_id for rom_id, info in roms.items() if not info.single_player_game} == WITHOUT_RULES
    assert len({info.md5 for info in roms.values()}) == len(roms) == 108


@pytest.mark.parametrize("game", GAMES)
def test_games_and_roms_agree(game: str) -> None:
    rules, info = load_games()[game], load_roms()[game]
    assert rules.game_id == info.rom_id == game
    assert rules.md5 == (info.md5,)
    assert rules.title == game.title().replace("_", "")
    assert rules.default_mode == rules.modes[0]
    reads_cart_ram = "cartram(" in rules.step + "".join(rules.lives) + rules.mode_setup
    assert not reads_cart_ram or info.cart_ram_bytes == 128


def test_what_a_gpu_needs_was_counted_in_every_game() -> None:
    assert all(300 < rules.log_entries < LOG_ENTRIES for rules in load_games().values())
    short = {game for game, rules in load_games().items() if rules.short_frames}
    assert short == {"journey_escape", "tic_tac_toe_3d"}


@pytest.mark.parametrize("rom_id", sorted(load_roms()))
def test_console_facts_are_consistent(rom_id: str) -> None:
    info = load_roms()[rom_id]
    sizes = {"2K": 2048, "4K": 4096, "F8": 8192, "E0": 8192, "FE": 8192, "F6": 16384, "DPC": 10495}
    assert info.size == sizes[info.bankswitch.removesuffix("SC")]
    assert (info.cart_ram_bytes == 128) == info.bankswitch.endswith("SC")
    assert info.console.format in ("auto", info.format)
    detected_height = info.console.height
    if info.console.height == 210 and info.format == "PAL":
        detected_height = 250
    assert info.screen_height == detected_height


def parsed(rules: GameRules) -> tuple[set[str], set[str], set[str]]:
    """State names, names read and names written by any program."""
    tree = parse_rules(rules.game_id, rules.state, rules.step, rules.lives, rules.mode_setup)
    read, written = names_in(*tree.step.body, *tree.lives, *tree.setup.body)
    # `x += 1` reads what it writes, but that alone is no use of it
    return {name for name, _ in tree.state}, read, written


@pytest.mark.parametrize("game", GAMES)
def test_no_name_is_dead(game: str) -> None:
    rules = load_games()[game]
    state, read, written = parsed(rules)
    assert written - state - read == set(), "local names that nothing reads"
    assert state - read - set(CORE_STATE) == set(), "state that nothing reads"
    assert state - written - set(CORE_STATE) == set(), "state that nothing writes"


@pytest.mark.parametrize("game", load_multiplayer())
def test_games_for_several_players(game: str) -> None:
    facts = load_multiplayer()[game]
    rules = facts.rules
    state, read, written = parsed(rules)
    core = set(core_state(rules.num_players))
    assert written - state - read == set(), "local names that nothing reads"
    assert state - read - core == set(), "state that nothing reads"
    assert state - written - core - {TURN_LIMIT} == set(), "state that nothing writes"
    tree = parse_rules(game, rules.state, rules.step, rules.lives, rules.mode_setup)
    assert "mode" in names_in(*tree.setup.body)[0]
    assert rules.md5 == (load_roms()[game].md5,)
    if game in load_games():
        assert rules.title == load_games()[game].title
        assert rules.paddle_max == load_games()[game].paddle_max
    modes = [mode for allowed in facts.modes.values() for mode in allowed]
    assert len(modes) == len(set(modes)), "a mode has one number of players"


def test_modes_for_several_players_are_all_there() -> None:
    games = load_multiplayer()
    assert len(games) == 20
    assert sum(len(modes) for facts in games.values() for modes in facts.modes.values()) == 237


@pytest.mark.parametrize("game", [g for g in GAMES if len(load_games()[g].modes) > 1])
def test_mode_setup_goes_by_the_mode(game: str) -> None:
    rules = load_games()[game]
    tree = parse_rules(game, rules.state, rules.step, rules.lives, rules.mode_setup)
    read, _ = names_in(*tree.setup.body)
    assert "mode" in read
