"""Rules of games that do not exist, for tests of the rule language."""

from __future__ import annotations

from dataclasses import replace

from cule.games.schema import GameRules, load_games


def rules_of(step: str = "", lives: str = "1", setup: str = "", **state: int) -> GameRules:
    """Rules of a made-up game."""
    names = {"score": 0, "reward": 0, "terminal": 0, **state}
    pong = load_games()["pong"]
    return replace(
        pong,
        game_id="made_up",
        state=tuple(names.items()),
        step=step,
        lives=(lives,),
        mode_setup=setup,
        paddle_max=pong.paddle_max,
    )
