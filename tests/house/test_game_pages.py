"""The pages of the games, which `make docs` makes, are complete and true."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import cule
from cule.games import load_games
from cule.games.modifications import games_with_modifications, load_modifications
from cule.games.objects import games_with_objects, load_objects
from cule.zoo import cards

ROOT = Path(__file__).parents[2]


@cache
def game_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("game_pages", ROOT / "docs/game_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["game_pages"] = module
    spec.loader.exec_module(module)
    return module


@cache
def pages() -> dict[str, str]:
    result: dict[str, str] = game_pages().pages()
    return result


def test_every_game_has_a_page_and_a_row() -> None:
    assert set(pages()) == {"index.md"} | {f"{game}.md" for game in load_games()}
    for game in load_games():
        assert f"({game}.md)<br>`{game}`" in pages()["index.md"]


@pytest.mark.parametrize("game", ["pong", "ms_pacman", "tetris", "video_chess"])
def test_facts_are_those_of_the_environment(game: str) -> None:
    env = cule.AtariEnv(game)
    page = pages()[f"{game}.md"]
    actions = ", ".join(f"`{name}`" for name in env.get_action_meanings())
    assert f"| actions | {actions} |" in page
    env.reset(seed=3)
    assert f"| lives | {env.ale.lives() or 'none'} |" in page
    env.close()


def test_objects_and_modifications_are_listed() -> None:
    for game in load_games():
        page = pages()[f"{game}.md"]
        assert ("## Objects" in page) == (game in games_with_objects())
        assert ("## Modifications" in page) == (game in games_with_modifications())
        if game in games_with_objects():
            for slot in load_objects(game).slots:
                assert f"| `{slot.name}` |" in page, game
        if game in games_with_modifications():
            for name, modification in load_modifications(game).items():
                assert f"| `{name}` | {modification.about} |" in page, game


def test_trained_agents_are_listed() -> None:
    for name, card in cards().items():
        row = f"| `zoo:{name}` | {card.noop.mean:,.1f} | {card.sticky.mean:,.1f} |"
        assert row in pages()[f"{card.game}.md"]
    with_agents = {card.game for card in cards().values()}
    for game in load_games():
        assert ("## Trained agents" in pages()[f"{game}.md"]) == (game in with_agents)
        assert (f"({game}.md#trained-agents) |" in pages()["index.md"]) == (game in with_agents)


def test_a_screen_depends_on_its_game_alone() -> None:
    screens = game_pages()._screens
    assert screens(("breakout", "pong"), False)["pong"] == screens(("pong",), False)["pong"]


def test_rewards_are_changes_of_the_score_or_have_words() -> None:
    for game, rules in load_games().items():
        differences = re.findall(r"reward = s - score\n", rules.step)
        signed = re.search(r"\bs = .* - ", rules.step) is not None
        if not differences or (signed and game not in ("wizard_of_wor",)):
            assert game in game_pages().REWARDS, game
    assert set(game_pages().REWARDS) <= set(load_games())


@pytest.mark.long
def test_links_and_pictures_have_targets() -> None:
    shown = set()
    for page in pages().values():
        for link in re.findall(r"\]\(([^()\s]+)\)", page):
            if link.endswith(".png"):
                shown.add(link)
            else:
                path = link.removeprefix("../")
                assert link.partition("#")[0] in pages() or (ROOT / "docs" / path).is_file(), link
    pictures = game_pages().pictures()
    assert shown == set(pictures)
    assert all(content.startswith(b"\x89PNG") for content in pictures.values())


def test_runs_of_numbers() -> None:
    assert game_pages()._numbers((0, 1, 2, 4, 6, 7)) == "0 to 2, 4, 6, 7"
