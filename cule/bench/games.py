"""Sets of games by name: the 8 default games, the 57 of the literature, all 104."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import cule
from cule.errors import UnknownGameError
from cule.games import list_games

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

#: The games of "human-normalised scores over 57 games" (Wang et al. 2016).
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
    known = set(list_games())
    found: dict[str, None] = {}
    for word in words:
        members = SETS.get(word, (word,))
        if not known.issuperset(members):
            raise UnknownGameError(
                f"games has {word!r}; it must be a game of `cule roms list`, or one of the sets "
                f"{', '.join(SETS)}"
            )
        found |= dict.fromkeys(members)
    return tuple(found)
