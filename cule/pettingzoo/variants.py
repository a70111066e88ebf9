"""Names of ``pettingzoo.atari``, and the modes that their arguments choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cule.envs.checks import as_bool, as_choice, as_int
from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import check_keywords
from cule.games import load_multiplayer, multiplayer_game

#: Modes of pong_v3 by number of players.
_PONG = {
    2: {
        "classic": 4,
        "two_paddles": 10,
        "soccer": 14,
        "foozpong": 19,
        "hockey": 27,
        "handball": 35,
        "volleyball": 39,
        "basketball": 45,
    },
    4: {
        "classic": 6,
        "two_paddles": 11,
        "soccer": 16,
        "foozpong": 21,
        "hockey": 29,
        "quadrapong": 33,
        "handball": 37,
        "volleyball": 41,
        "basketball": 49,
    },
}
_PLANES = {"bi-plane": 15, "jet": 21}
_MAZES = {"race": 0, "robbers": 4, "capture": 44}


def _pong(given: Mapping[str, object], num_players: int) -> int:
    versions = _PONG[num_players]
    return versions[as_choice("game_version", given["game_version"], tuple(versions))]


def _combat_tank(given: Mapping[str, object], _: int) -> int:
    flags = {name: as_bool(name, value) for name, value in given.items()}
    bases = {(False, False): 1, (False, True): 8, (True, False): 10, (True, True): 13}
    return bases[flags["is_invisible"], flags["billiard_hit"]] + flags["has_maze"]


def _combat_plane(given: Mapping[str, object], _: int) -> int:
    plane = as_choice("game_version", given["game_version"], tuple(_PLANES))
    return _PLANES[plane] + (not as_bool("guided_missile", given["guided_missile"]))


def _maze_craze(given: Mapping[str, object], _: int) -> int:
    maze = as_choice("game_version", given["game_version"], tuple(_MAZES))
    return _MAZES[maze] + as_int("visibilty_level", given["visibilty_level"], 0, 3)


def _space_invaders(given: Mapping[str, object], _: int) -> int:
    weights = {
        "moving_shields": 1,
        "zigzaging_bombs": 2,
        "fast_bomb": 4,
        "invisible_invaders": 8,
        "alternating_control": 16,
    }
    return 33 + sum(weight * as_bool(name, given[name]) for name, weight in weights.items())


#: Arguments of a name with their defaults, spelled as in PettingZoo, and the mode that they choose.
_ARGUMENTS: dict[str, tuple[dict[str, object], Callable[[Mapping[str, object], int], int]]] = {
    "pong_v3": ({"game_version": "classic"}, _pong),
    "combat_tank_v2": (
        {"has_maze": True, "is_invisible": False, "billiard_hit": True},
        _combat_tank,
    ),
    "combat_plane_v2": ({"game_version": "bi-plane", "guided_missile": True}, _combat_plane),
    "maze_craze_v3": ({"game_version": "robbers", "visibilty_level": 0}, _maze_craze),
    "space_invaders_v2": (
        {
            "alternating_control": False,
            "moving_shields": True,
            "zigzaging_bombs": False,
            "fast_bomb": False,
            "invisible_invaders": False,
        },
        _space_invaders,
    ),
}


@dataclass(frozen=True)
class Variant:
    """Game and options that a name and its arguments stand for."""

    name: str
    game_id: str
    num_players: int
    mode: int


def names() -> dict[str, dict[int, tuple[str, tuple[int, ...]]]]:
    """Name: its numbers of players, the default first, each with its game and modes."""
    found: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {}
    for game_id, facts in load_multiplayer().items():
        for entry in facts.pettingzoo:
            numbers = found.setdefault(entry.name, {})
            numbers[entry.num_players] = (game_id, entry.modes)
    return found


def resolve_variant(
    name: object, num_players: int | None, mode: int | None, arguments: Mapping[str, object]
) -> Variant:
    """Resolve a name of PettingZoo or of a game to a game, mode and number of players.

    Args:
        name: Of PettingZoo, as in ``pong_v3``, or of a game, as in ``pong``.
        num_players: None: the default of the name or game.
        mode: None: what the arguments choose, or the default.
        arguments: Those of the name that choose a mode, such as ``game_version``.

    Raises:
        UnknownGameError: There is no such name.
        InvalidArgumentError: An argument is outside what the name allows.
        TypeError: The name has no such argument.
    """
    known = names()
    if num_players is not None:
        num_players = as_int("num_players", num_players)
    if mode is not None:
        mode = as_int("mode", mode)
    if not isinstance(name, str) or name not in known:
        return _game_variant(name, num_players, mode, arguments)
    numbers = known[name]
    number = next(iter(numbers)) if num_players is None else num_players
    if number not in numbers:
        words = " or ".join(map(str, numbers))
        raise InvalidArgumentError(f"num_players is {shown(number)}; for {name} it must be {words}")
    game_id, modes = numbers[number]
    defaults, choose = _ARGUMENTS.get(name, ({}, lambda given, players: modes[0]))
    check_keywords(name, arguments, defaults)
    chosen = choose({**defaults, **arguments}, number)
    if mode is not None:
        if arguments:
            raise InvalidArgumentError(
                f"mode is {mode}; with {', '.join(arguments)} it must be None"
            )
        if mode not in modes:
            words = ", ".join(map(str, modes))
            raise InvalidArgumentError(
                f"mode is {shown(mode)}; for {name} it must be one of {words}"
            )
        chosen = mode
    return Variant(name, game_id, number, chosen)


def _game_variant(
    name: object, num_players: int | None, mode: int | None, arguments: Mapping[str, object]
) -> Variant:
    """A game under its own name; `MultiAgentVectorEnv` checks modes and numbers of players."""
    check_keywords("parallel_env", arguments, ())
    facts = multiplayer_game(name)  # type: ignore[arg-type]  # checked there
    numbers = [n for n, modes in facts.modes.items() if mode is None or mode in modes]
    number = next(iter(numbers), min(facts.modes)) if num_players is None else num_players
    allowed = facts.modes.get(number, ())
    chosen = mode if mode is not None else next(iter(allowed), 0)
    game_id = facts.rules.game_id
    return Variant(game_id, game_id, number, chosen)
