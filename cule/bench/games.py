"""Sets of games by name: the 8 default games, the 57 of the literature, all 104."""

from __future__ import annotations

from collections.abc import Sequence

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
_ATARI_57 = """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk
    bowling boxing breakout centipede chopper_command crazy_climber defender demon_attack
    double_dunk enduro fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond
    kangaroo krull kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong
    private_eye qbert riverraid road_runner robotank seaquest skiing solaris space_invaders
    star_gunner surround tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor
    yars_revenge zaxxon
"""
ATARI_57 = tuple(_ATARI_57.split())

#: Names of several games.
SETS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT_GAMES,
    "57": ATARI_57,
    "all": tuple(list_games()),
}


def games_named(words: Sequence[str]) -> tuple[str, ...]:
    """Resolve names of games and sets of games, each game once, in the given order.

    Args:
        words: Games and names of `SETS`.

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
