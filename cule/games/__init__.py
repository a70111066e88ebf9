"""Facts, rules and ROM files of the games, kept as data.

* ``data/games.toml``: action sets, modes and the three programs of the 104 single-player games;
* ``data/multiplayer.toml``: the same of the 20 games for two or four players;
* ``data/roms.toml``: MD5, cartridge type and console properties of every known ROM file;
* `schema`: reads these, and users' rules files, into frozen dataclasses, table by table (`tables`);
* `language`: definition and parser of the rule language;
* `steps`: mode selection written as numbered steps, translated to a program of that language;
* `compiler`: rules to the int32 programs that the native core runs;
* `roms`: finds ROM files and identifies them by MD5, never by name;
* `spec`: game name, ROM path and rules path to `GameSpec`, the input of the native core.

Data flows one way: TOML text -> `GameRules` -> `CompiledRules`; path -> bytes -> MD5 -> `RomInfo`;
both meet in `GameSpec`. Adding a game is one table in each data file. No ROM is in the package.
"""

from __future__ import annotations

from cule.games.compiler import CompiledRules, compile_rules
from cule.games.roms import (
    ImportReport,
    RomStatus,
    find_rom,
    import_roms,
    rom_folders,
    rom_status,
)
from cule.games.schema import (
    ConsoleProperties,
    GameRules,
    MultiplayerGame,
    RomInfo,
    load_games,
    load_multiplayer,
    load_roms,
)
from cule.games.spec import (
    GameSpec,
    game_id_of,
    list_games,
    multiplayer_game,
    resolve,
    resolve_players,
)

__all__ = [
    "CompiledRules",
    "ConsoleProperties",
    "GameRules",
    "GameSpec",
    "ImportReport",
    "MultiplayerGame",
    "RomInfo",
    "RomStatus",
    "compile_rules",
    "find_rom",
    "game_id_of",
    "import_roms",
    "list_games",
    "load_games",
    "load_multiplayer",
    "load_roms",
    "multiplayer_game",
    "resolve",
    "resolve_players",
    "rom_folders",
    "rom_status",
]
