"""Objects on the screen as functions of RAM: tables of ``data/objects``, for the native core.

A table lists kinds of objects, each with a name, a count and expressions for the columns of a row:
position and size of a box in screen pixels, whether the object is visible, and a value such as a
score. The expressions were checked against the screen of ale-py 0.12.1 during random play; each
kind records its hit rate, offset and intersection over union.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from cule.errors import InvalidArgumentError, RulesError, shown
from cule.games.compiler import CodeWriter, Op
from cule.games.language import BINARY, COMPARE, INDEX, OBJECT_COLUMNS, parse_objects
from cule.games.tables import Table, package_data, parse_document

#: Most objects of a game.
MAX_OBJECTS = 2048

#: Kinds of at most this many objects get a program for each, in which everything that follows from
#: the number of the object is a constant. On a CPU these programs take half the time.
_MAX_UNROLLED = 40

#: Slot of `INDEX`, as csrc/game/objects.hpp has it.
_INDEX_SLOT = 31


class ObjectSlot(NamedTuple):
    """Object that a row of an observation is of."""

    name: str
    """Name of the kind, such as "ball"; the same for the same role in all games."""

    number: int
    """Number among the objects of the kind, from 0."""

    hud: bool
    """Whether it is a score, timer or number of lives rather than a part of the scene."""


class ObjectsLayout(NamedTuple):
    """Names of the axes of observations of objects, ``[..., K, 6]``, or sprites."""

    columns: tuple[str, ...]
    """Names of the last axis: x, y, w and h of a box in pixels of the screen, from its top left
    corner; visible, 0 or 1; value, such as a score, lives, a direction or a kind, or 0. Of sprites:
    see docs/objects.md."""

    slots: Mapping[str, tuple[ObjectSlot, ...]]
    """Rows of each game; none with sprites, whose rows are whatever is on the screen. Games with
    fewer rows than others of the batch have zeros after theirs."""


@dataclass(frozen=True)
class ObjectTable:
    """The objects of a game."""

    slots: tuple[ObjectSlot, ...]
    words: tuple[int, ...]  # as the native core takes them


@lru_cache(maxsize=1)
def games_with_objects() -> tuple[str, ...]:
    """Ids of the games that have a table of objects, in alphabetical order."""
    files = (resources.files("cule.games") / "data" / "objects").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files))


@lru_cache(maxsize=128)
def load_objects(game_id: str) -> ObjectTable:
    """The objects of a game.

    Raises:
        InvalidArgumentError: There is no table; the message lists the games that have one.
    """
    if game_id not in games_with_objects():
        raise InvalidArgumentError(
            f"{shown(game_id)} has no table of objects; there is one for "
            f"{', '.join(games_with_objects())}"
        )
    name = f"objects/{game_id}.toml"
    return compile_objects(game_id, parse_document(name, package_data(name)))


def objects_layout(game_ids: Sequence[str]) -> ObjectsLayout:
    """The layout of a batch of games."""
    return ObjectsLayout(OBJECT_COLUMNS, {name: load_objects(name).slots for name in game_ids})


def compile_objects(where: str, content: Mapping[str, object]) -> ObjectTable:
    """Compile a table of objects.

    Args:
        where: What errors begin with.
        content: The table as TOML has it.

    Raises:
        RulesError: A key or expression is wrong.
    """
    top = Table(where, content)
    kinds = [_read_kind(Table(where, kind)) for kind in top.tables("objects")]
    let = top.text("let", "")
    for key in ("game", "screen", "checked"):  # what the table was compared with
        top.skip(key)
    top.finish()
    if sum(kind.how_many for kind in kinds) > MAX_OBJECTS:
        raise RulesError(f"{where}: more than {MAX_OBJECTS} objects")
    names, expressions = parse_objects(where, let, [kind.expressions for kind in kinds])
    slots = {name: slot for slot, name in enumerate(names.local_names)}
    if len(slots) > _INDEX_SLOT:
        raise RulesError(f"{where}: let has {len(slots)} names; there is room for {_INDEX_SLOT}")
    first = CodeWriter(f"{where}: let", slots)
    first.block(names.body)
    programs = [first.finish()]
    slots[INDEX] = _INDEX_SLOT
    parts = [
        part
        for kind, columns in zip(kinds, expressions, strict=True)
        for part in _unrolled(kind, columns)
    ]
    for kind, columns in parts:
        writer = CodeWriter(f"{where}: {kind.name}", slots)
        by_name = dict(zip(OBJECT_COLUMNS, columns, strict=True))
        writer.expression(by_name["visible"])
        hidden = writer.jump(Op.JUMP_IF_ZERO, pops=1)
        writer.emit(Op.CONST, 1, pushes=1)
        writer.emit(Op.EMIT, OBJECT_COLUMNS.index("visible"), pops=1)
        for name in ("x", "y", "w", "h", "value"):
            writer.expression(by_name[name])
            writer.emit(Op.EMIT, OBJECT_COLUMNS.index(name), pops=1)
        writer.land(hidden)
        programs.append(writer.finish())
    cells_of_names = _cells_of_names(names.body)
    groups = [_groups(cells_of_names, kind.how_many, columns) for kind, columns in parts]
    # In the order of csrc/game/objects.hpp.
    num_words = 2 + sum(7 + 5 * len(of_kind) for of_kind in groups)
    words = [len(parts), num_words]
    place = num_words + len(programs[0])
    for (kind, _), of_kind, program in zip(parts, groups, programs[1:], strict=True):
        cells = frozenset[int]().union(*(group.cells for group in of_kind))
        words += [len(of_kind), kind.how_many, place, *_cell_words(cells)]
        for group in of_kind:
            words += [group.size, *_cell_words(group.cells)]
        place += len(program)
    return ObjectTable(
        slots=tuple(
            ObjectSlot(kind.name, number, kind.hud)
            for kind in kinds
            for number in range(kind.how_many)
        ),
        words=(*words, *(word for program in programs for word in program)),
    )


def _unrolled(kind: _Kind, columns: Sequence[ast.expr]) -> list[tuple[_Kind, Sequence[ast.expr]]]:
    """A kind as it is, or one for each of its objects if these are few."""
    if kind.how_many > _MAX_UNROLLED:
        return [(kind, columns)]
    single = kind._replace(how_many=1)
    return [
        (single, [_Folding(number).visit(copy.deepcopy(tree)) for tree in columns])
        for number in range(kind.how_many)
    ]


class _Folding(ast.NodeTransformer):
    """Replaces what depends on nothing but the number of the object by its value."""

    def __init__(self, number: int) -> None:
        self._number = number

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.IfExp):
            node.test = self.visit(node.test)
            if isinstance(node.test, ast.Constant):
                return self.visit(node.body if node.test.value else node.orelse)
        try:
            return ast.Constant(_value_of(node, self._number))
        except _NotConstantError:
            return self.generic_visit(node)


class _Group(NamedTuple):
    size: int  # objects of one kind
    cells: frozenset[int]  # of RAM that each of them may read


def _cells_of_names(body: Sequence[ast.stmt]) -> dict[str, frozenset[int]]:
    """For each name that is assigned, the cells of RAM that its value depends on."""
    cells: dict[str, frozenset[int]] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                cells[name] = _cells_of(value, 0).union(*_cells_of_used(value, cells))
    return cells


def _cells_of_used(tree: ast.AST, cells: Mapping[str, frozenset[int]]) -> list[frozenset[int]]:
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [cells[name] for name in names if name in cells]


def _groups(
    names: Mapping[str, frozenset[int]], count: int, columns: Sequence[ast.expr]
) -> list[_Group]:
    """The objects of a kind, in order, where those of a group may read the same cells of RAM."""
    shared = frozenset[int]().union(*(cells for x in columns for cells in _cells_of_used(x, names)))
    groups: list[_Group] = []
    for number in range(count):
        cells = shared.union(*(_cells_of(tree, number) for tree in columns))
        same = groups.pop().size if groups and groups[-1].cells == cells else 0
        groups.append(_Group(same + 1, cells))
    return groups


def _cells_of(tree: ast.AST, number: int) -> frozenset[int]:
    """Cells that code reads for the object of this number; all, if an address may be any."""
    match tree:
        case ast.IfExp(test=test, body=then, orelse=other):
            try:
                return _cells_of(then if _value_of(test, number) else other, number)
            except _NotConstantError:
                pass  # one or the other
        case ast.Call(func=ast.Name(id="ram" | "bcd"), args=[address]):
            try:
                return frozenset({_value_of(address, number) & 127})
            except _NotConstantError:
                return frozenset(range(128))
    return frozenset().union(*(_cells_of(node, number) for node in ast.iter_child_nodes(tree)))


def _cell_words(cells: frozenset[int]) -> list[int]:
    """A bit for each cell, in four words."""
    bits = sum(1 << cell for cell in cells)
    return [_signed(bits >> 32 * word & 0xFFFFFFFF) for word in range(4)]


class _NotConstantError(Exception):
    """A value depends on more than the number of the object."""


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "ADD": operator.add,
    "SUB": operator.sub,
    "MUL": operator.mul,
    "FLOORDIV": operator.floordiv,
    "MOD": operator.mod,
    "AND": operator.and_,
    "OR": operator.or_,
    "XOR": operator.xor,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _value_of(node: ast.AST, number: int) -> int:
    """The value of an expression for the object of this number."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id="i"):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            name = BINARY[type(op)]
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            name = COMPARE[type(op)]
        case ast.IfExp(test=test, body=then, orelse=other):
            return _value_of(then if _value_of(test, number) else other, number)
        case ast.Call(func=ast.Name(id="table"), args=[index, ast.List(elts=entries)]):
            at = min(max(_value_of(index, number), 0), len(entries) - 1)
            return _value_of(entries[at], number)
        case _:
            raise _NotConstantError
    a, b = _value_of(left, number), _value_of(right, number)
    if name not in _OPERATIONS or (b == 0 and name in ("FLOORDIV", "MOD")):
        raise _NotConstantError
    value = int(_OPERATIONS[name](a, b))
    if value != _signed(value & 0xFFFFFFFF):  # the machine wraps
        raise _NotConstantError
    return value


def _signed(word: int) -> int:
    return word - (word >> 31 << 32)


class _Kind(NamedTuple):
    name: str
    how_many: int
    hud: bool
    expressions: tuple[str, ...]  # of `OBJECT_COLUMNS`


def _read_kind(table: Table) -> _Kind:
    texts = {name: table.text(name) for name in OBJECT_COLUMNS[:-1]}
    texts["value"] = table.text("value", "") or "0"
    kind = _Kind(
        table.text("name"),
        table.integer("count", range(1, MAX_OBJECTS + 1)),
        table.flag("hud", False),
        tuple(texts.values()),  # in the order of `OBJECT_COLUMNS`
    )
    table.skip("measured")
    table.finish()
    return kind
