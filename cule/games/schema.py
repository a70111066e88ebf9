"""Shape of the game data: what its files and a user's rules file may hold.

In: parsed TOML tables. Out: frozen `GameRules`, `MultiplayerGame`, `RomInfo` and
`ConsoleProperties`. Unknown keys, wrong types and values out of range are errors.
`cule.games.language` checks the programs when they are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from cule.errors import RulesError
from cule.games.language import CORE_STATE, INT_MAX, core_state
from cule.games.tables import T, Table, package_data, parse_toml, user_data
from cule.reading import MAX_RULES_TABLES

NUM_ACTIONS = 18
RESET_SWITCH_ACTION = 40  # among the starting actions: the console RESET switch held for one frame
PADDLE_MAX = 790196  # largest paddle resistance unless a game widens it
LOG_ENTRIES = 3072  # of a game that was not measured; no log holds more
TURN_LIMIT = "turn_limit"  # state of some games for several players
NTSC_LINES, PAL_LINES = 210, 250  # picture lines; auto-detection makes the second of the first

Controller = Literal["joystick", "paddles", "none"]
Format = Literal["auto", "NTSC", "PAL"]
Difficulty = Literal["A", "B"]
_CONTROLLERS: tuple[Controller, ...] = ("joystick", "paddles", "none")
_FORMATS: tuple[Format, ...] = ("auto", "NTSC", "PAL")
_DIFFICULTIES: tuple[Difficulty, ...] = ("A", "B")
_BANKSWITCHES = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE", "DPC")


@dataclass(frozen=True)
class ConsoleProperties:
    """Setup of the console for a cartridge. The defaults are those of an unknown ROM."""

    format: Format = "auto"  # auto: detected from 60 frames, followed by another reset
    ystart: int = 34  # first picture line, counted from the frame origin
    height: int = NTSC_LINES  # picture lines; 210 becomes 250 when the format turns out PAL
    controller_left: Controller = "joystick"
    controller_right: Controller = "joystick"  # "none" behaves as a joystick
    swap_ports: bool = False
    swap_paddles: bool = False
    left_difficulty: Difficulty = "B"  # switch until the environment sets it
    right_difficulty: Difficulty = "B"
    hmove_blanks: bool = True  # whether a HMOVE blanks the first 8 pixels


@dataclass(frozen=True)
class RomInfo:
    """Facts of one known ROM file."""

    rom_id: str
    md5: str
    size: int  # bytes, decompressed
    bankswitch: str  # what detection finds: "2K", "F8", ...
    format: Literal["NTSC", "PAL"]  # final
    screen_height: int  # picture lines, final
    cart_ram_bytes: int
    single_player_game: bool  # whether there are rules for it
    console: ConsoleProperties


@dataclass(frozen=True)
class GameRules:
    """Facts of one game: its ROM files, its actions and modes, and its three programs."""

    game_id: str
    title: str
    md5: tuple[str, ...]  # of the ROM files that are this game
    minimal_actions: tuple[int, ...]  # actions that do something, ascending
    illegal_actions: tuple[int, ...]  # replaced by 0 before emulation
    starting_actions: tuple[int, ...]  # one frame each at the end of a reset; 40: RESET switch
    modes: tuple[int, ...]
    default_mode: int
    difficulties: tuple[int, ...]
    state: tuple[tuple[str, int], ...]  # persistent names and their reset values
    step: str
    lives: tuple[str, ...]  # an expression for each player
    mode_setup: str
    paddle_max: int
    log_entries: int  # the most accesses to the TIA in a frame; at most LOG_ENTRIES count
    short_frames: bool  # whether frames often end before their picture does
    notes: str
    num_players: int = 1  # of all modes
    load_mode: int | None = None  # during the reset that belongs to loading; None: the default mode
    kept: tuple[str, ...] = ()  # names of state that a reset leaves as they are

    @property
    def legal_actions(self) -> tuple[int, ...]:
        """All actions but the illegal ones, ascending."""
        return tuple(a for a in range(NUM_ACTIONS) if a not in self.illegal_actions)


@lru_cache(maxsize=1)
def load_games() -> Mapping[str, GameRules]:
    """The rules of all supported games by id, in the order of the data file."""
    tables = parse_toml("games.toml", package_data("games.toml"))
    games = {}
    for key, table in tables.items():
        reader = Table(f"games.toml: {key}", table)
        games[key] = _read_game(reader, key, is_user=False)
        reader.finish()
    return MappingProxyType(games)


@dataclass(frozen=True)
class MultiplayerGame:
    """Facts of one game for several players."""

    modes: Mapping[int, tuple[int, ...]]  # by number of players; the first is the default
    rules: GameRules  # for the most players
    pettingzoo: tuple[PettingZooName, ...]

    def rules_for(self, num_players: int, max_turn_time: int | None = None) -> GameRules:
        """The rules for a number of players that the game has modes for.

        Args:
            num_players: A key of `modes`.
            max_turn_time: Frames after which stalling costs a point; 0: never. None: as in the
                data. Of no use in games that never charge for it.
        """
        modes = self.modes[num_players]
        state = dict(self.rules.state)
        if max_turn_time is not None and TURN_LIMIT in state:
            state[TURN_LIMIT] = max_turn_time
        return replace(
            self.rules,
            modes=modes,
            default_mode=modes[0],
            state=tuple(state.items()),
            num_players=num_players,
        )

    @property
    def has_turn_limit(self) -> bool:
        """Whether stalling costs points that `max_turn_time` decides on."""
        return TURN_LIMIT in dict(self.rules.state)


@dataclass(frozen=True)
class PettingZooName:
    """A name of PettingZoo for some modes of a game."""

    name: str
    num_players: int
    modes: tuple[int, ...]  # the first is the default


@lru_cache(maxsize=1)
def load_multiplayer() -> Mapping[str, MultiplayerGame]:
    """The facts of all games for several players by id, in the order of the data file."""
    tables = parse_toml("multiplayer.toml", package_data("multiplayer.toml"))
    return MappingProxyType({key: _read_multiplayer(key, table) for key, table in tables.items()})


@lru_cache(maxsize=1)
def load_roms() -> Mapping[str, RomInfo]:
    """The facts of all known ROM files by id, in the order of the data file."""
    tables = parse_toml("roms.toml", package_data("roms.toml"))
    return MappingProxyType({key: _rom(f"roms.toml: {key}", key, t) for key, t in tables.items()})


@dataclass(frozen=True)
class UserRules:
    """One table of a user's rules file."""

    rules: GameRules
    table: Mapping[str, object]  # checked

    def console(self, base: ConsoleProperties) -> ConsoleProperties:
        """The console properties of the table; `base` has those that the table does not set."""
        return _read_console(Table(self.rules.game_id, self.table), base)


def load_user_rules(path: Path) -> dict[str, UserRules]:
    """Read a rules file of a user.

    It is a TOML file with one table for each game. A table has the keys of `games.toml`, of which
    only `state`, `step` and `lives` are required, and may set fields of `ConsoleProperties`.

    Raises:
        RulesError: The file cannot be read, or a table is not well formed.
    """
    tables = parse_toml(f"rules: {path}", user_data("rules", str(path)))
    if not tables:
        raise RulesError(f"rules: {path} has no table; it needs one, named after the game")
    if len(tables) > MAX_RULES_TABLES:
        raise RulesError(f"rules: {path} has {len(tables)} tables; at most {MAX_RULES_TABLES}")
    return {key: _user_game(f"{path}: {key}", key, table) for key, table in tables.items()}


def _user_game(where: str, game_id: str, table: Mapping[str, object]) -> UserRules:
    reader = Table(where, table)
    rules = _read_game(reader, game_id, is_user=True)
    _read_console(reader, ConsoleProperties())
    reader.finish()
    return UserRules(rules, MappingProxyType(table))


def _read_game(reader: Table, game_id: str, *, is_user: bool) -> GameRules:
    """Read the keys of `games.toml`; a user's table may omit those with a default."""

    def default(value: T) -> T | None:
        return value if is_user else None

    actions = range(NUM_ACTIONS)
    illegal = reader.integers("illegal_actions", actions, default(()), is_set=False)
    legal = tuple(action for action in actions if action not in illegal)
    state = reader.state("state", CORE_STATE)
    modes = reader.integers("modes", range(INT_MAX), default((0,)))
    settings = Table(f"{reader.where}: settings", reader.table("settings", default({})))
    rules = GameRules(
        game_id=game_id,
        title=reader.text("title", default(game_id.title().replace("_", ""))),
        md5=reader.digests("md5", default(())),
        minimal_actions=reader.integers("minimal_actions", actions, default(legal)),
        illegal_actions=illegal,
        starting_actions=reader.integers(
            "starting_actions", (*actions, RESET_SWITCH_ACTION), default(()), is_set=False
        ),
        modes=modes,
        default_mode=reader.integer("default_mode", modes, default(modes[0])),
        difficulties=reader.integers("difficulties", range(4), default((0, 1, 2, 3))),
        state=state,
        step=reader.text("step"),
        lives=(reader.text("lives"),),
        mode_setup=reader.text("mode_setup", default("")),
        paddle_max=settings.integer("paddle_max", range(1, 2**24), PADDLE_MAX),
        log_entries=settings.integer("log_entries", range(1, LOG_ENTRIES + 1), LOG_ENTRIES),
        short_frames=settings.flag("short_frames", False),
        notes=reader.text("notes", default("")),
    )
    settings.finish()
    overlap = sorted(set(rules.minimal_actions) & set(rules.illegal_actions))
    if overlap:
        raise reader.error("minimal_actions", f"holds the illegal actions {overlap}")
    if len(rules.modes) > 1 and not rules.mode_setup.strip():
        raise reader.error("mode_setup", f"is empty, but there are {len(rules.modes)} modes")
    return rules


def _read_multiplayer(game_id: str, table: Mapping[str, object]) -> MultiplayerGame:
    reader = Table(f"multiplayer.toml: {game_id}", table)
    actions = range(NUM_ACTIONS)
    numbers = range(256)
    words = {2: "two_player_modes", 4: "four_player_modes"}
    modes = {n: reader.integers(key, numbers, is_set=False) for n, key in words.items()}
    modes = {n: values for n, values in modes.items() if values}
    most = max(modes)
    state = reader.state("state", [n for n in core_state(most) if n != "score"])
    settings = Table(f"{reader.where}: settings", reader.table("settings"))
    info = load_roms()[game_id]
    rules = GameRules(
        game_id=game_id,
        title=game_id.title().replace("_", ""),
        md5=(info.md5,),
        minimal_actions=reader.integers("minimal_actions", actions),
        illegal_actions=(),
        starting_actions=reader.integers("starting_actions", actions, is_set=False),
        modes=modes[most],
        default_mode=modes[most][0],
        difficulties=reader.integers("difficulties", range(4)),
        state=state,
        step=reader.text("step"),
        lives=reader.texts("lives", most),
        mode_setup=reader.text("mode_setup"),
        paddle_max=settings.integer("paddle_max", range(1, 2**24), PADDLE_MAX),
        log_entries=settings.integer("log_entries", range(1, LOG_ENTRIES + 1), LOG_ENTRIES),
        short_frames=settings.flag("short_frames", False),
        notes=reader.text("notes"),
        num_players=most,
        load_mode=reader.integer("load_mode", numbers),
        kept=reader.choices("kept", tuple(name for name, _ in state)),
    )
    settings.finish()
    names = []
    for entry in reader.tables("pettingzoo"):
        named = Table(f"{reader.where}: pettingzoo", entry)
        players = named.integer("players", tuple(modes))
        allowed = named.integers("modes", modes[players], is_set=False)
        names.append(PettingZooName(named.text("name"), players, allowed))
        named.finish()
    reader.finish()
    return MultiplayerGame(MappingProxyType(modes), rules, tuple(names))


def _read_console(reader: Table, base: ConsoleProperties) -> ConsoleProperties:
    """Read console properties; `base` has those that the table does not set."""
    return ConsoleProperties(
        format=reader.choice("format", _FORMATS, base.format),
        ystart=reader.integer("ystart", range(65), base.ystart),
        height=reader.integer("height", range(160, 257), base.height),
        controller_left=reader.choice("controller_left", _CONTROLLERS, base.controller_left),
        controller_right=reader.choice("controller_right", _CONTROLLERS, base.controller_right),
        swap_ports=reader.flag("swap_ports", base.swap_ports),
        swap_paddles=reader.flag("swap_paddles", base.swap_paddles),
        left_difficulty=reader.choice("left_difficulty", _DIFFICULTIES, base.left_difficulty),
        right_difficulty=reader.choice("right_difficulty", _DIFFICULTIES, base.right_difficulty),
        hmove_blanks=reader.flag("hmove_blanks", base.hmove_blanks),
    )


def _rom(where: str, rom_id: str, table: Mapping[str, object]) -> RomInfo:
    reader = Table(where, table)
    format_source = reader.choice("format_source", ("auto", "property"))
    console = _read_console(reader, ConsoleProperties())
    height = console.height
    assert console.format != "auto", "roms.toml names the detected format"
    detected = console.format
    if format_source == "auto":
        # The data file has the result of the detection; the console needs its start.
        starts_with = NTSC_LINES if (detected, height) == ("PAL", PAL_LINES) else height
        console = replace(console, format="auto", height=starts_with)
    info = RomInfo(
        rom_id=rom_id,
        md5=reader.checked_digest("md5", reader.text("md5")),
        size=reader.integer("size", range(2048, 65537)),
        bankswitch=reader.choice("bankswitch", _BANKSWITCHES),
        format=detected,
        screen_height=height,
        cart_ram_bytes=reader.integer("cart_ram", (0, 128)),
        single_player_game=reader.flag("single_player_game"),
        console=console,
    )
    reader.choice("tv_type", ("COLOR",))
    has_paddles = "paddles" in (console.controller_left, console.controller_right)
    if reader.flag("paddles") != has_paddles:
        raise reader.error("paddles", "contradicts the controllers")
    reader.finish()
    return info
