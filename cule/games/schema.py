"""Shape of the game data: what `games.toml`, `roms.toml` and a user's rules file may hold.

In: parsed TOML tables. Out: frozen `GameRules`, `RomInfo` and `ConsoleProperties`. Unknown keys,
wrong types and values out of range are errors that name the table, the key and what is allowed.
`cule.games.language` checks the programs when they are compiled.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeGuard, TypeVar

from cule.errors import RulesError
from cule.games.language import CORE_STATE, INT_MAX, INT_MIN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NUM_ACTIONS = 18
RESET_SWITCH_ACTION = 40  # among the starting actions: the console RESET switch held for one frame
PADDLE_MAX = 790196  # largest paddle resistance unless a game widens it
LOG_ENTRIES = 3072  # of a game that was not measured; no log holds more
NTSC_LINES, PAL_LINES = 210, 250  # picture lines; auto-detection makes the second of the first
MAX_RULES_BYTES = 1_000_000

T = TypeVar("T")
TextT = TypeVar("TextT", bound=str)

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
    lives: str
    mode_setup: str
    paddle_max: int
    log_entries: int  # the most accesses to the TIA in a frame; at most LOG_ENTRIES count
    short_frames: bool  # whether frames often end before their picture does
    notes: str

    @property
    def legal_actions(self) -> tuple[int, ...]:
        """All actions but the illegal ones, ascending."""
        return tuple(a for a in range(NUM_ACTIONS) if a not in self.illegal_actions)


@lru_cache(maxsize=1)
def load_games() -> Mapping[str, GameRules]:
    """The rules of all supported games by id, in the order of the data file."""
    tables = _parse_toml("games.toml", _package_data("games.toml"))
    games = {}
    for key, table in tables.items():
        reader = _Table(f"games.toml: {key}", table)
        games[key] = _read_game(reader, key, is_user=False)
        reader.finish()
    return MappingProxyType(games)


@lru_cache(maxsize=1)
def load_roms() -> Mapping[str, RomInfo]:
    """The facts of all known ROM files by id, in the order of the data file."""
    tables = _parse_toml("roms.toml", _package_data("roms.toml"))
    return MappingProxyType({key: _rom(f"roms.toml: {key}", key, t) for key, t in tables.items()})


@dataclass(frozen=True)
class UserRules:
    """One table of a user's rules file."""

    rules: GameRules
    table: Mapping[str, object]  # checked

    def console(self, base: ConsoleProperties) -> ConsoleProperties:
        """The console properties of the table; `base` has those that the table does not set."""
        return _read_console(_Table(self.rules.game_id, self.table), base)


def load_user_rules(path: Path) -> dict[str, UserRules]:
    """Read a rules file of a user.

    It is a TOML file with one table for each game. A table has the keys of `games.toml`, of which
    only `state`, `step` and `lives` are required, and may set fields of `ConsoleProperties`.

    Raises:
        RulesError: The file cannot be read, or a table is not well formed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RULES_BYTES + 1)
    except OSError as error:
        raise RulesError(f"rules: cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_RULES_BYTES:
        raise RulesError(f"rules: {path} is larger than {MAX_RULES_BYTES} bytes")
    tables = _parse_toml(f"rules: {path}", data)
    if not tables:
        raise RulesError(f"rules: {path} has no table; it needs one, named after the game")
    return {key: _user_game(f"{path}: {key}", key, table) for key, table in tables.items()}


def _package_data(name: str) -> bytes:
    return (resources.files("cule.games") / "data" / name).read_bytes()


def _parse_toml(where: str, data: bytes) -> dict[str, dict[str, object]]:
    try:
        content: dict[str, object] = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RulesError(f"{where}: not a TOML file: {error}") from None
    tables = {}
    for key, table in content.items():
        if not isinstance(table, dict):
            raise RulesError(
                f"{where}: {key!r} is outside a table; put it under [name_of_the_game]"
            )
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", key):
            raise RulesError(
                f"{where}: table name {key!r}; a game id is made of a-z, 0-9 and _, as in ms_pacman"
            )
        tables[key] = table
    return tables


def _user_game(where: str, game_id: str, table: Mapping[str, object]) -> UserRules:
    reader = _Table(where, table)
    rules = _read_game(reader, game_id, is_user=True)
    _read_console(reader, ConsoleProperties())
    reader.finish()
    return UserRules(rules, MappingProxyType(table))


def _read_game(reader: _Table, game_id: str, *, is_user: bool) -> GameRules:
    """Read the keys of `games.toml`; a user's table may omit those with a default."""

    def default(value: T) -> T | None:
        return value if is_user else None

    actions = range(NUM_ACTIONS)
    state = reader.state("state")
    modes = reader.integers("modes", range(INT_MAX), default((0,)))
    settings = _Table(f"{reader.where}: settings", reader.table("settings", default({})))
    rules = GameRules(
        game_id=game_id,
        title=reader.text("title", default(game_id.title().replace("_", ""))),
        md5=reader.digests("md5", default(())),
        minimal_actions=reader.integers("minimal_actions", actions, default(tuple(actions))),
        illegal_actions=reader.integers("illegal_actions", actions, default(()), is_set=False),
        starting_actions=reader.integers(
            "starting_actions", (*actions, RESET_SWITCH_ACTION), default(()), is_set=False
        ),
        modes=modes,
        default_mode=reader.integer("default_mode", modes, default(modes[0])),
        difficulties=reader.integers("difficulties", range(4), default((0, 1, 2, 3))),
        state=state,
        step=reader.text("step"),
        lives=reader.text("lives"),
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


def _read_console(reader: _Table, base: ConsoleProperties) -> ConsoleProperties:
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
    reader = _Table(where, table)
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


class _Table:
    """Reads one TOML table key by key, with checks of types and ranges.

    A key without a default (None) is required.
    """

    def __init__(self, where: str, table: Mapping[str, object]) -> None:
        self.where = where
        self._table = table
        self._known: list[str] = []

    def error(self, key: str, message: str) -> RulesError:
        return RulesError(f"{self.where}: {key} {message}")

    def finish(self) -> None:
        """Raise a RulesError for a key that was not read."""
        for key in self._table:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                allowed = ", ".join(self._known)
                raise RulesError(f"{self.where}: unknown key {key!r}; {hint}allowed: {allowed}")

    def _value(self, key: str, default: object) -> object:
        self._known.append(key)
        value = self._table.get(key, default)
        if value is None:
            raise RulesError(f"{self.where}: {key!r} is missing")
        return value

    def _typed(self, key: str, default: T | None, kind: type[T], what: str) -> T:
        value = self._value(key, default)
        if not isinstance(value, kind):
            raise self.error(key, f"is {value!r}; it must be {what}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self._typed(key, default, str, "a text")

    def flag(self, key: str, default: bool | None = None) -> bool:
        return self._typed(key, default, bool, "true or false")

    def choice(self, key: str, allowed: Sequence[TextT], default: TextT | None = None) -> TextT:
        value = self._value(key, default)
        for option in allowed:
            if value == option:
                return option
        raise self.error(key, f"is {value!r}; allowed: {', '.join(allowed)}")

    def integer(self, key: str, allowed: Collection[int], default: int | None = None) -> int:
        value = self._value(key, default)
        if not _is_integer(value) or value not in allowed:
            raise self.error(key, f"is {value!r}; allowed: {_range_text(allowed)}")
        return value

    def integers(
        self,
        key: str,
        allowed: Collection[int],
        default: tuple[int, ...] | None = None,
        *,
        is_set: bool = True,
    ) -> tuple[int, ...]:
        """A list of integers; `is_set`: ascending, without repetition, and not empty."""
        values = self._value(key, default)
        if not isinstance(values, list | tuple):
            raise self.error(key, f"is {values!r}; it must be a list of integers")
        for value in values:
            if not _is_integer(value) or value not in allowed:
                raise self.error(key, f"holds {value!r}; allowed: {_range_text(allowed)}")
        if is_set and not values:
            raise self.error(key, "is empty; it needs at least one value")
        if is_set and any(a >= b for a, b in pairwise(values)):
            raise self.error(key, "must be in ascending order, without repetition")
        return tuple(values)

    def digests(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        values = self._value(key, default)
        if not isinstance(values, list | tuple):
            raise self.error(key, f"is {values!r}; it must be a list of MD5s")
        return tuple(self.checked_digest(key, value) for value in values)

    def checked_digest(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
            raise self.error(key, f"has {value!r}; an MD5 digest is 32 digits 0-9 a-f")
        return value

    def table(self, key: str, default: Mapping[str, object] | None = None) -> Mapping[str, object]:
        return self._typed(key, default, dict, "a table")

    def state(self, key: str) -> tuple[tuple[str, int], ...]:
        values = {}
        for name, value in self.table(key).items():
            if not _is_integer(value) or not INT_MIN <= value <= INT_MAX:
                raise self.error(key, f"has {name} = {value!r}; it must be a 32-bit integer")
            values[name] = value
        for name in CORE_STATE:
            if name not in values:
                raise self.error(key, f"lacks {name!r}; it needs {', '.join(CORE_STATE)}")
        return tuple(values.items())


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _range_text(allowed: Collection[int]) -> str:
    if isinstance(allowed, range):
        return f"{allowed.start}..{allowed.stop - 1}"
    return ", ".join(str(value) for value in allowed)
