"""Modified games: programs and changed bytes of ``data/modifications``, for the native core.

A modification has a program that runs once after a reset, or before or after each emulated frame,
names that keep their values between frames, and parameters with ranges. Programs change RAM, the
action before a frame, or the reward after it. Other modifications change bytes of the cartridge
(`cule.games.rom_bytes`): what plays then is another cartridge with the same rules. `Modification`
is one as its file has it. An environment has any number of them in order, named by texts: a name,
``frozen_enemy(y=90)`` with parameters, ``my_mods.toml:faster_ball`` from a file of your own. Of
``a | b | original`` each episode draws one; it cannot draw another cartridge.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from cule.errors import InvalidArgumentError, RulesError, UnsupportedRomError, shown
from cule.games.compiler import NUM_SLOTS, CodeWriter, Op
from cule.games.language import INT_MAX, INT_MIN, Program, parse_modification
from cule.games.rom_bytes import ByteChange, read_bytes
from cule.games.roms import md5_of
from cule.games.spec import GameSpec
from cule.games.tables import Table, package_data, parse_document, user_data

#: When programs run, in the order of csrc/game/modifications.hpp, and the name that each has for
#: the value it can change.
MOMENTS = {"reset": "", "before_frame": "action", "every_frame": "reward"}
#: What a modification of bytes has in their place.
ROM = "rom"
#: File of the modifications of every game.
COMMON = "common"
#: Name of no modification, among alternatives.
ORIGINAL = "original"
_VALUE_SLOT = NUM_SLOTS - 1
#: What modifications change.
GROUPS = ("dynamics", "visual", "reward", "lives", "difficulty", "layout", "controls")
#: Most modifications of a file, and most kinds of episodes of an environment.
MAX_MODIFICATIONS = 1_000

#: ``[FILE.toml:]NAME[(KEY=VALUE, ...)]``.
_TEXT = re.compile(r"(?:(.+\.toml):)?(\w+)\s*(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Modification:
    """A modification of a game, as its file describes it."""

    name: str
    about: str  # effect, in a sentence
    when: str  # of `MOMENTS`, or `ROM`
    group: str  # one of `GROUPS`
    parameters: Mapping[str, range]  # allowed values
    defaults: Mapping[str, int]  # of the parameters
    state: Mapping[str, int]  # names that keep their values, with those after a reset
    program: str  # empty with `ROM`
    changes: tuple[ByteChange, ...]  # of the cartridge; empty except with `ROM`
    checked: str  # how the effect was verified
    code: Program

    def usage(self) -> str:
        """The name with its parameters and their ranges, as in ``frozen_enemy(y=30..200)``."""
        ranges = [f"{key}={r.start}..{r.stop - 1}" for key, r in self.parameters.items()]
        return f"{self.name}({', '.join(ranges)})" if ranges else self.name


@lru_cache(maxsize=1)
def games_with_modifications() -> tuple[str, ...]:
    """Ids of the games that have modifications of their own, in alphabetical order."""
    files = (resources.files("cule.games") / "data" / "modifications").iterdir()
    return tuple(sorted({file.name.removesuffix(".toml") for file in files} - {COMMON}))


@lru_cache(maxsize=128)
def load_modifications(game_id: str) -> Mapping[str, Modification]:
    """The modifications of a game's own by name, or those of every game for `COMMON`."""
    if game_id not in (*games_with_modifications(), COMMON):
        return {}
    name = f"modifications/{game_id}.toml"
    return read_modifications(game_id, parse_document(name, package_data(name)))


def all_modifications(game_id: str) -> Mapping[str, Modification]:
    """The modifications that a game can have by name, those of its own first."""
    own = load_modifications(game_id)
    return {**own, **{k: v for k, v in load_modifications(COMMON).items() if k not in own}}


def read_modifications(where: str, content: Mapping[str, object]) -> Mapping[str, Modification]:
    """Read and check the content of a file, which `where` names in errors.

    Raises:
        RulesError: A key or program is wrong.
    """
    top = Table(where, content)
    tables = top.tables("modifications")
    top.skip("game")
    top.finish()
    if len(tables) > MAX_MODIFICATIONS:
        raise RulesError(f"{where}: {len(tables)} modifications; at most {MAX_MODIFICATIONS}")
    read = [_read_modification(where, table) for table in tables]
    by_name = {modification.name: modification for modification in read}
    if len(by_name) < len(read):
        raise RulesError(f"{where}: two modifications have the same name")
    return by_name


def episodes_of(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """The modifications that an episode can have, where texts have ``|`` between alternatives."""
    choices = [[part.strip() for part in text.split("|")] for text in texts]
    count = math.prod(map(len, choices))
    if count > MAX_MODIFICATIONS:
        raise InvalidArgumentError(
            f"modifications is {shown(list(texts))}; it has {count} combinations, and at most "
            f"{MAX_MODIFICATIONS} are allowed"
        )
    return [
        tuple(name for name in chosen if name != ORIGINAL) for chosen in itertools.product(*choices)
    ]


def modify_spec(spec: GameSpec, texts: Sequence[str]) -> tuple[GameSpec, list[tuple[str, ...]]]:
    """The cartridge of an environment, and the programs of each kind of episode that it can have.

    Args:
        spec: The game.
        texts: Modifications of the environment, as a user names them.

    Returns:
        The game with the changed cartridge, and the texts without those that change it.

    Raises:
        InvalidArgumentError: A name or parameter is wrong, alternatives change different bytes, or
            two modifications change the same byte.
        UnsupportedRomError: The cartridge has other bytes than a modification expects.
        RulesError: A file cannot be read, or is wrong.
    """
    episodes = episodes_of(texts)
    games = [_change_bytes(spec, episode) for episode in episodes]
    if any(game.rom != games[0].rom for game in games):
        raise InvalidArgumentError(
            f"modifications is {shown(list(texts))}, whose alternatives differ in the bytes of the "
            "cartridge; an episode can draw programs only: give modifications of bytes outside "
            "the alternatives, or to some environments of a list"
        )
    programs = [
        tuple(text for text in episode if find_modification(spec.game_id, text).when != ROM)
        for episode in episodes
    ]
    return games[0], programs


def _change_bytes(spec: GameSpec, texts: Sequence[str]) -> GameSpec:
    """The game with the bytes that modifications change."""
    rom = bytearray(spec.rom)
    changed_by: dict[int, str] = {}
    for text in texts:
        modification, values = _choose(spec.game_id, text)
        for change in modification.changes:
            at = change.offset
            found = f"0x{spec.rom[at]:02x}" if at < len(rom) else f"no byte: its size is {len(rom)}"
            if found != f"0x{change.old:02x}":
                raise UnsupportedRomError(
                    f"modifications holds {shown(text)}, for a ROM with 0x{change.old:02x} at "
                    f"offset 0x{at:04x}; {spec.rom_path} has {found}"
                )
            if at in changed_by:
                raise InvalidArgumentError(
                    f"modifications holds {shown(changed_by[at])} and {shown(text)}, which both "
                    f"change the byte at offset 0x{at:04x} of the ROM; it must be one of them"
                )
            changed_by[at] = text
            rom[at] = change.value(modification.parameters, values)
    if not changed_by:
        return spec
    image = bytes(rom)
    return dataclasses.replace(spec, rom=image, md5=md5_of(image))


def compile_modifications(game_id: str, texts: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Compile the modifications of each kind of environment to words for the native core.

    Args:
        game_id: The game.
        texts: Modifications of each kind, as a user names them; there is one at least. None
            changes bytes of the cartridge (`modify_spec`).

    Raises:
        InvalidArgumentError: A name or parameter is wrong; the message says what is allowed.
        RulesError: A file cannot be read, or is wrong.
    """
    programs = [program for kind in texts for program in _compile_kind(game_id, kind)]
    words = [len(texts)]
    place = 1 + len(programs)
    for program in programs:
        words.append(place)
        place += len(program)
    return (*words, *(word for program in programs for word in program))


def _compile_kind(game_id: str, texts: Sequence[str]) -> list[tuple[int, ...]]:
    """The program of each of `MOMENTS`, with modifications one after the other."""
    where = f"modifications of {game_id}"
    chosen = [_choose(game_id, text) for text in texts]
    slots = dict.fromkeys(filter(None, MOMENTS.values()), _VALUE_SLOT)
    used = 0
    for number, (modification, _) in enumerate(chosen):
        for name in modification.state:
            slots[f"{number}.{name}"] = used
            used += 1
    free = used
    for number, (modification, _) in enumerate(chosen):  # locals of one end with its program
        for local, name in enumerate(modification.code.local_names, start=free):
            slots[f"{number}.{name}"] = local
            used = max(used, local + 1)
    if used > _VALUE_SLOT:
        raise InvalidArgumentError(
            f"modifications is {shown(list(texts))}; together they have {used} names, and there is "
            f"room for {_VALUE_SLOT}"
        )
    writers = {moment: CodeWriter(f"{where}: {moment}", slots) for moment in MOMENTS}
    for number, (modification, values) in enumerate(chosen):
        names = _Names(number, values)
        for name, value in modification.state.items():
            writers["reset"].emit(Op.CONST, value, pushes=1)
            writers["reset"].emit(Op.STORE, slots[f"{number}.{name}"], pops=1)
        body = [names.visit(copy.deepcopy(line)) for line in modification.code.body]
        writers[modification.when].block(body)
    return [writer.finish() for writer in writers.values()]


class _Names(ast.NodeTransformer):
    """Gives the parameters of a modification their values, and its other names a prefix."""

    def __init__(self, number: int, values: Mapping[str, int]) -> None:
        self._number, self._values = number, values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._values:
            return ast.Constant(self._values[node.id])
        if node.id in MOMENTS.values():
            return node
        return ast.Name(f"{self._number}.{node.id}", node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])


def find_modification(game_id: str, text: str) -> Modification:
    """The modification that a text names.

    Raises:
        InvalidArgumentError: There is none; the message lists those of the game or the file.
        RulesError: A file cannot be read, or is wrong.
    """
    return _choose(game_id, text)[0]


def _choose(game_id: str, text: str) -> tuple[Modification, dict[str, int]]:
    """The modification that a text names, and the values of its parameters."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(
            f"modifications holds {shown(text)}; each must be a name, as in 'lazy_enemy', or "
            "'frozen_enemy(y=90)' with parameters, or 'FILE.toml:NAME' from a file of your own"
        )
    path, name, arguments = match.groups()
    known = (
        all_modifications(game_id)
        if path is None
        else _parse_file(path, user_data("modifications", path))
    )
    if name not in known:
        of = game_id if path is None else path
        raise InvalidArgumentError(
            f"modifications holds {shown(text)}; {of} has {', '.join(known)}"
        )
    return known[name], _values(known[name], text, arguments or "")


@lru_cache(maxsize=8)  # a file can be named a thousand times for one environment
def _parse_file(path: str, data: bytes) -> Mapping[str, Modification]:
    return read_modifications(path, parse_document(path, data))


def _values(modification: Modification, text: str, arguments: str) -> dict[str, int]:
    """The value of each parameter."""
    usage = modification.usage()
    values = dict(modification.defaults)
    unset = set(values)
    for argument in filter(None, (part.strip() for part in arguments.split(","))):
        match = re.fullmatch(r"(\w+)\s*=\s*(-?\d{1,10})", argument)
        if match is None or match[1] not in unset:
            raise InvalidArgumentError(f"modifications holds {shown(text)}; it must be {usage}")
        if int(match[2]) not in modification.parameters[match[1]]:
            raise InvalidArgumentError(
                f"modifications holds {shown(text)}, with {argument}; it must be {usage}"
            )
        values[match[1]] = int(match[2])
        unset.remove(match[1])
    return values


def _read_modification(where: str, content: Mapping[str, object]) -> Modification:
    name = Table(where, {"name": content.get("name")}).text("name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise RulesError(f"{where}: name {shown(name)}; a name is made of a-z, 0-9 and _")
    table = Table(f"{where}: {name}", content)
    table.skip("name")
    parameters = table.table("parameters", {})
    allowed = {key: _range(table, key, value) for key, value in parameters.items()}
    ranges = {key: values for key, (values, _) in allowed.items()}
    when = table.choice("when", (*MOMENTS, ROM))
    changes = read_bytes(table, ranges) if when == ROM else ()
    state = {} if when == ROM else dict(table.state("state", (), {}))
    for key in parameters.keys() & state.keys():
        raise table.error("state", f"and parameters both have {shown(key)}")
    program = "" if when == ROM else table.text("program")
    modification = Modification(
        name=name,
        about=table.text("about", ""),
        when=when,
        group=table.choice("group", GROUPS, "dynamics"),
        parameters=ranges,
        defaults={key: default for key, (_, default) in allowed.items()},
        state=state,
        program=program,
        changes=changes,
        checked=table.text("checked", ""),
        code=parse_modification(
            table.where, tuple(state), tuple(parameters), MOMENTS.get(when, ""), program
        ),
    )
    table.finish()
    return modification


def _range(table: Table, key: str, values: object) -> tuple[range, int]:
    """Allowed values of a parameter, and its default."""
    match values:
        case [int(low), int(high), int(default)] if INT_MIN <= low <= default <= high < INT_MAX:
            if bool not in map(type, (low, high, default)):
                return range(low, high + 1), default
    words = "it must be [lowest, highest, default]"
    raise table.error("parameters", f"has {key} = {shown(values)}; {words}")
