"""Game name, ROM file and rules file to the input of the native core.

In: a game name, a ROM path, a rules path, each optional. Out: `GameSpec`. The MD5 of a ROM decides
which game it is. There is one exception, the same as in ale-py: a file given as `rom_path` with an
unknown MD5 and the name of a game runs under the rules of that game, after a warning.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cule.errors import (
    InvalidArgumentError,
    RulesError,
    UnknownGameError,
    UnsupportedRomError,
    shown,
    warn,
)
from cule.files import expanded
from cule.games.compiler import CompiledRules, compile_rules
from cule.games.roms import RomFile, find_rom, read_rom, rom_stem
from cule.games.schema import (
    ConsoleProperties,
    GameRules,
    MultiplayerGame,
    RomInfo,
    UserRules,
    load_games,
    load_multiplayer,
    load_roms,
    load_user_rules,
)
from cule.reading import as_path

#: Facts of `GameRules` that the native core needs.
_CORE_FACTS = (
    *("game_id", "legal_actions", "minimal_actions", "starting_actions"),
    *("modes", "default_mode", "difficulties", "paddle_max", "num_players"),
)

#: Ids of environments of Gymnasium and EnvPool, as in ``ALE/MsPacman-v5``.
_ENV_ID = re.compile(
    r"(?:(?P<space>\w+)/)?(?P<title>\w+?)(?P<ram>-ram)?(?P<kind>NoFrameskip|Deterministic)?"
    r"(?P<version>-v\d+)?"
)
_BANK_BYTES = 2048
_ODD_SIZES = (10495,)  # DPC: 8 KiB program, 2 KiB data, 255 bytes of a dump
_SUPERCHARGER_BYTES = 8448


@dataclass(frozen=True)
class GameSpec:
    """Everything one game needs to run: ROM, console properties and compiled rules."""

    rules: GameRules
    code: CompiledRules = field(repr=False)
    rom: bytes = field(repr=False)  # decompressed
    rom_path: Path
    md5: str  # of `rom`
    console: ConsoleProperties

    @property
    def game_id(self) -> str:
        """Id of the game, as in ``ms_pacman``."""
        return self.rules.game_id

    @property
    def title(self) -> str:
        """Name of the game in environment ids, as in ``MsPacman``."""
        return self.rules.title

    def to_core_kwargs(self) -> dict[str, Any]:
        """The keyword arguments of ``cule._core.Game``, which checks their types."""
        kwargs = {name: getattr(self.rules, name) for name in _CORE_FACTS}
        if self.rules.load_mode is not None:
            kwargs["default_mode"] = self.rules.load_mode
        kwargs |= vars(self.code) | vars(self.console) | {"rom": self.rom}
        for side in ("left", "right"):
            kwargs[f"{side}_difficulty_a"] = kwargs.pop(f"{side}_difficulty") == "A"
        return {k: list(v) if isinstance(v, tuple) else v for k, v in kwargs.items()}


def list_games() -> tuple[str, ...]:
    """Ids of the supported games, in alphabetical order."""
    return tuple(sorted(load_games()))


def game_id_of(name: str) -> str:
    """The id of a game or known ROM in any usual spelling: ``MsPacman``, ``ms-pacman``.

    Raises:
        InvalidArgumentError: `name` is not a string.
        UnknownGameError: No game has this name; the message lists near matches.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(
            f"game is {shown(name)} ({type(name).__name__}); it must be a name such as 'pong'"
        )
    ids = _ids_by_compact_name()
    compact = _compact(name)
    if compact in ids:
        return ids[compact]
    found = _ENV_ID.fullmatch(name)
    if found is not None and _compact(found["title"]) in ids:
        preset = {None: "v5" if found["space"] else "envpool", "NoFrameskip": "baselines"}
        used = preset.get(found["kind"])
        hint = f", and preset={shown(used)} of AtariVectorEnv has its usual options" if used else ""
        raise UnknownGameError(
            f"game {shown(name)} is the id of an environment; the game is "
            f"{shown(ids[_compact(found['title'])])}{hint}"
        )
    near = [ids[match] for match in difflib.get_close_matches(compact, ids, n=3)]
    near += [rom_id for key, rom_id in ids.items() if compact and compact in key]
    unique = list(dict.fromkeys(near))[:5]
    hint = f"did you mean {' or '.join(unique)}?" if unique else f"games: {', '.join(list_games())}"
    raise UnknownGameError(
        f"game {shown(name)} is unknown; {hint}; a ROM of your own needs its rules as well, see "
        "docs/own_roms.md"
    )


def resolve(
    game: str | None = None,
    rom_path: str | os.PathLike[str] | None = None,
    rules: str | os.PathLike[str] | None = None,
) -> GameSpec:
    """Find the ROM and the rules of a game.

    Args:
        game: Name of the game in any usual spelling; optional if ROM or rules identify it.
        rom_path: A ROM file, plain or gzip-compressed; by default the ROM folders are searched.
        rules: A TOML file with your own rules, in the language of ``games.toml``.

    Returns:
        The game, ready for the native core.

    Raises:
        InvalidArgumentError: No argument was given, or one has the wrong type.
        UnknownGameError: No game has this name.
        RomNotFoundError: The file does not exist, or no ROM of the game was found.
        UnsupportedRomError: The file is not a ROM of the game, or not a ROM.
        RulesError: The rules are not well formed.
    """
    rom_file = None if rom_path is None else _path("rom_path", rom_path)
    if rules is not None:
        return _with_rules(game, rom_file, _path("rules", rules))
    if rom_file is not None:
        return _from_file(game, rom_file)
    if game is None:
        raise InvalidArgumentError("game is None; give game, rom_path or rules")
    game_id = game_id_of(game)
    _check_has_rules(game_id)
    known = load_games()[game_id]
    return _spec(known, find_rom(game_id, known.md5))


def resolve_players(
    game: str,
    num_players: int,
    rom_path: str | os.PathLike[str] | None = None,
    max_turn_time: int | None = None,
) -> GameSpec:
    """Find the ROM of a game for several players, and its rules for a number of players.

    Args:
        game: Name of the game in any usual spelling.
        num_players: A number of players that the game has modes for.
        rom_path: Its ROM file, plain or gzip-compressed; by default the ROM folders are searched.
        max_turn_time: Frames after which stalling costs a point, in games that charge for it.

    Raises:
        UnknownGameError: No game has this name, or the game is for a single player.
        RomNotFoundError: The file does not exist, or no ROM of the game was found.
        UnsupportedRomError: The file is not the ROM of the game.
    """
    facts = multiplayer_game(game)
    game_id = facts.rules.game_id
    rules = facts.rules_for(num_players, max_turn_time)
    if rom_path is None:
        return _spec(rules, find_rom(game_id, rules.md5))
    path = _path("rom_path", rom_path)
    rom = RomFile(path, "rom_path", read_rom(path))
    if rom.md5 not in rules.md5:
        raise UnsupportedRomError(
            f"{path} is not the ROM of {shown(game_id)}: its MD5 is {rom.md5}, not {rules.md5[0]}"
        )
    return _spec(rules, rom)


def multiplayer_game(name: str) -> MultiplayerGame:
    """The facts of a game for several players, in any usual spelling of its name.

    Raises:
        InvalidArgumentError: `name` is not a string.
        UnknownGameError: No game has this name, or the game is for a single player.
    """
    game_id = game_id_of(name)
    games = load_multiplayer()
    if game_id not in games:
        raise UnknownGameError(
            f"game {shown(game_id)} is for a single player; games for several are "
            f"{', '.join(games)}"
        )
    return games[game_id]


def _with_rules(game: str | None, rom_path: Path | None, rules_path: Path) -> GameSpec:
    user = _select_rules(game, rules_path, load_user_rules(rules_path))
    rules = user.rules
    digests = rules.md5
    if not digests and rom_path is None:
        info = load_roms().get(rules.game_id)
        if info is None:
            raise InvalidArgumentError(
                f"rom_path is None, and {rules_path} does not say the md5 of {shown(rules.game_id)}"
            )
        digests = (info.md5,)
    if rom_path is None:
        rom = find_rom(rules.game_id, digests)
    else:
        rom = RomFile(rom_path, "rom_path", read_rom(rom_path))
        if digests and rom.md5 not in digests:
            raise UnsupportedRomError(
                f"{rom_path} is not the ROM of {shown(rules.game_id)}: its MD5 is {rom.md5}, "
                f"{rules_path} says {' or '.join(digests)}"
            )
    _check_size(rom)
    return _spec(rules, rom, user)


def _select_rules(game: str | None, path: Path, tables: dict[str, UserRules]) -> UserRules:
    if game is None:
        if len(tables) > 1:
            raise RulesError(f"{path} has the tables {', '.join(tables)}; say which one with game")
        return next(iter(tables.values()))
    if not isinstance(game, str):
        raise InvalidArgumentError(f"game is {shown(game)}; it must be a name")
    for key, user in tables.items():
        if _compact(key) == _compact(game):
            return user
    raise UnknownGameError(
        f"game {shown(game)} has no table in {path}; there is {', '.join(tables)}"
    )


def _from_file(game: str | None, path: Path) -> GameSpec:
    try:
        wanted = None if game is None else game_id_of(game)
    except UnknownGameError as error:
        raise UnknownGameError(
            f"{error}; for a game of your own, pass rules as well as rom_path"
        ) from None
    rom = RomFile(path, "rom_path", read_rom(path))
    stem = rom_stem(path)
    games = load_games()
    info = _infos_by_md5().get(rom.md5)
    if info is not None:
        named = wanted or (stem if stem in games else info.rom_id)
        if named != info.rom_id:
            raise UnsupportedRomError(
                f"{path} is the ROM of {shown(info.rom_id)} (MD5 {rom.md5}), not of "
                f"{shown(named)}; pass game={shown(info.rom_id)} to play it"
            )
        _check_has_rules(info.rom_id)
        return _spec(games[info.rom_id], rom)
    if stem not in games or wanted not in (None, stem):
        as_game = f" as {shown(wanted)}" if wanted else ""
        raise UnsupportedRomError(
            f"{path} cannot be run{as_game}: its MD5 {rom.md5} is no known ROM's; "
            "pass rules, a TOML file with its reward, game-over and lives rules"
        )
    _check_size(rom)
    warn(
        f"{path} has the name of {shown(stem)}, but its MD5 is {rom.md5} instead of "
        f"{' or '.join(games[stem].md5)}; it runs under the rules of {shown(stem)} with the "
        "console properties of an unknown ROM",
    )
    return _spec(games[stem], rom)


def _check_has_rules(game_id: str) -> None:
    if game_id not in load_games():
        raise UnsupportedRomError(
            f"{shown(game_id)} has no single-player rules; play it with MultiAgentVectorEnv, or "
            "pass rules, a TOML file with its reward, game-over and lives rules"
        )


def _check_size(rom: RomFile) -> None:
    size = len(rom.data)
    if size % _BANK_BYTES and size % _SUPERCHARGER_BYTES and size not in _ODD_SIZES:
        raise UnsupportedRomError(
            f"{rom.path} holds {size} bytes, which is no size of a cartridge (a multiple of "
            f"{_BANK_BYTES}, or {_ODD_SIZES[0]}); is the file truncated?"
        )


def _spec(rules: GameRules, rom: RomFile, user: UserRules | None = None) -> GameSpec:
    """The console properties are those of a known ROM; a user's rules can change them."""
    info = _infos_by_md5().get(rom.md5)
    console = info.console if info else ConsoleProperties()
    return GameSpec(
        rules=rules,
        code=compile_rules(rules),
        rom=rom.data,
        rom_path=rom.path,
        md5=rom.md5,
        console=user.console(console) if user else console,
    )


def _path(name: str, value: str | os.PathLike[str]) -> Path:
    return expanded(as_path(name, value))


def _compact(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


@lru_cache(maxsize=1)
def _ids_by_compact_name() -> dict[str, str]:
    return {_compact(rom_id): rom_id for rom_id in load_roms()}


@lru_cache(maxsize=1)
def _infos_by_md5() -> dict[str, RomInfo]:
    return {info.md5: info for info in load_roms().values()}
