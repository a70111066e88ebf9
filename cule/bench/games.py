"""Sets of games by name: the 8 default games, the 57 of the literature, all 104."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import cule
from cule.errors import UnknownGameError, shown
from cule.games import game_id_of, list_games

#: Games without --games: simple and busy kernels, small and bank-switched cartridges.
DEFAULT_GAMES = (
    "pong",
    "breakout",
    "seaquest",
    "ms_pacman",
    "space_invaders",
    "qbert",
    "montezuma_revenge",
    "riverraid",
)

#: The games of "human-normalized scores over 57 games" (Wang et al. 2016).
with (Path(cule.__file__).parent / "agents" / "data" / "human_scores.csv").open() as _scores:
    ATARI_57 = tuple(sorted(row["game"] for row in csv.DictReader(_scores)))

#: Names of several games.
SETS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT_GAMES,
    "57": ATARI_57,
    "all": tuple(list_games()),
}


def games_named(words: Sequence[str]) -> tuple[str, ...]:
    """Resolve names of games and of `SETS`: each game once, in the given order.

    Raises:
        UnknownGameError: A name is neither.
    """
    found: dict[str, None] = {}
    for word in words:
        found |= dict.fromkeys(SETS[word] if word in SETS else (_game_named(word),))
    return tuple(found)


def _game_named(word: str) -> str:
    try:
        game = game_id_of(word)
    except UnknownGameError as error:
        raise UnknownGameError(
            f"games has {shown(word)}: {error}; it can also be one of the sets {', '.join(SETS)}"
        ) from None
    if game not in list_games():
        raise UnknownGameError(f"games has {shown(word)}, which has no single-player rules")
    return game
