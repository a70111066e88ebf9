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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from cule.errors import InvalidArgumentError, RulesError, shown
from cule.games.compiler import NUM_SLOTS, CodeWriter, Op
from cule.games.language import BINARY, COMPARE, INDEX, OBJECT_COLUMNS, parse_objects
from cule.games.tables import Table, package_data, parse_document

#: Most objects of a game.
MAX_OBJECTS = 2048

#: Most objects of a group, so that its program is not too long.
_GROUP_SIZE = 32

_VISIBLE = OBJECT_COLUMNS.index("visible")


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
    by_name = _read_names(where, names.body)
    groups = [
        _groups(f"{where}: {kind.name}", by_name, kind.how_many, columns)
        for kind, columns in zip(kinds, expressions, strict=True)
    ]
    # In the order of csrc/game/objects.hpp.
    words = [len(kinds)]
    place = 1 + sum(6 + 6 * len(of_kind) for of_kind in groups)
    for kind, of_kind in zip(kinds, groups, strict=True):
        cells = frozenset[int]().union(*(group.cells for group in of_kind))
        words += [len(of_kind), kind.how_many, *_cell_words(cells)]
        for group in of_kind:
            words += [group.size, place, *_cell_words(group.cells)]
            place += len(group.program)
    return ObjectTable(
        slots=tuple(
            ObjectSlot(kind.name, number, kind.hud)
            for kind in kinds
            for number in range(kind.how_many)
        ),
        words=(*words, *(word for kind in groups for group in kind for word in group.program)),
    )


class _Folding(ast.NodeTransformer):
    """Replaces what depends on nothing but the number of the object by its value."""

    def __init__(self, number: int) -> None:
        self._number = number

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.IfExp):
            test = self.visit(node.test)
            if isinstance(test, ast.Constant):
                return self.visit(node.body if test.value else node.orelse)
            return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))
        node = self.generic_visit(node)
        value = _value_of(node, self._number)
        return _regrouped(node) if value is None else ast.Constant(value)


def _regrouped(node: ast.AST) -> ast.AST:
    """1 + x - 3 as x + -2, 1 and x as x; other expressions as they are."""
    match node:
        case ast.BoolOp(op=op, values=[ast.Constant(value=first), *others]):
            if bool(first) == isinstance(op, ast.Or):
                return ast.Constant(first)
            return others[0] if len(others) == 1 else _regrouped(ast.BoolOp(op, others))
        case ast.BinOp(ast.Constant() as a, ast.Add(), x) if not isinstance(x, ast.Constant):
            return _regrouped(ast.BinOp(x, ast.Add(), a))
        case ast.BinOp(
            ast.BinOp(x, (ast.Add() | ast.Sub()) as first, ast.Constant(value=int(a))),
            (ast.Add() | ast.Sub()) as second,
            ast.Constant(value=int(b)),
        ):
            terms = ((first, a), (second, b))
            total = sum(n if isinstance(sign, ast.Add) else -n for sign, n in terms)
            return ast.BinOp(x, ast.Add(), ast.Constant(_signed(total & 0xFFFFFFFF)))
    return node


class _Name(NamedTuple):
    value: ast.expr
    cells: frozenset[int]  # of RAM that the value depends on


def _read_names(where: str, body: Sequence[ast.stmt]) -> dict[str, _Name]:
    names: dict[str, _Name] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in names:
                    raise RulesError(f"{where}: let assigns {name} twice")
                names[name] = _Name(value, _cells_of(value, names))
    if len(names) > NUM_SLOTS:
        raise RulesError(f"{where}: let has {len(names)} names; there is room for {NUM_SLOTS}")
    return names


class _Group(NamedTuple):
    """Consecutive objects of a kind that may read the same cells of RAM."""

    size: int
    cells: frozenset[int]
    program: tuple[int, ...]


def _groups(
    where: str, names: Mapping[str, _Name], count: int, columns: Sequence[ast.expr]
) -> list[_Group]:
    """Compile the objects of a kind."""
    groups: list[_Group] = []
    rows: list[Sequence[ast.expr]] = []
    cells = frozenset[int]()
    for number in range(count):
        row = [_Folding(number).visit(copy.deepcopy(tree)) for tree in columns]
        read = frozenset[int]().union(*(_cells_of(tree, names) for tree in row))
        if rows and (read != cells or len(rows) == _GROUP_SIZE):
            groups.append(_Group(len(rows), cells, _program(where, names, rows)))
            rows = []
        cells = read
        rows.append(row)
    return [*groups, _Group(len(rows), cells, _program(where, names, rows))]


def _program(
    where: str, names: Mapping[str, _Name], rows: Sequence[Sequence[ast.expr]]
) -> tuple[int, ...]:
    """Compile the rows of a group, with the names that they need."""
    uses = Counter(name for row in rows for tree in row for name in _names_in(tree))
    for name in reversed(list(names)):  # names use earlier ones
        if uses[name]:
            uses.update(_names_in(names[name].value))
    kept = [name for name in names if uses[name] > 1 and not _is_cheap(names[name].value)]
    replacing = _Replacing({name: names[name].value for name in names if name not in kept})
    writer = CodeWriter(where, {name: slot for slot, name in enumerate(kept)}, combines=True)
    for name in kept:
        writer.assign(name, replacing.visit(copy.deepcopy(names[name].value)))
    conditions = [_conditions(replacing.visit(row[_VISIBLE])) for row in rows]
    shared = []
    while all(conditions) and len({ast.dump(of_row[0]) for of_row in conditions}) == 1:
        shared.append(conditions[0][0])
        conditions = [of_row[1:] for of_row in conditions]
    none_visible = [jump for test in shared for jump in writer.unless(test)]
    for number, (row, tests) in enumerate(zip(rows, conditions, strict=True)):
        hidden = [jump for test in tests for jump in writer.unless(test)]
        columns = [replacing.visit(tree) for tree in row]
        columns[_VISIBLE] = ast.Constant(1)
        writer.emit(Op.ROW, number, *_words_of_row(columns))
        for column, tree in enumerate(columns):
            if not isinstance(tree, ast.Constant):
                writer.expression(tree)
                writer.emit(Op.EMIT, column, pops=1)
        writer.land(*hidden)
    writer.land(*none_visible)
    return writer.finish()


def _words_of_row(columns: Sequence[ast.expr]) -> list[int]:
    """Columns that are constant, and zeros for others; two in a word."""
    numbers = []
    for tree in columns:
        match tree:
            case ast.Constant(value=int(value)):
                numbers.append(min(max(value, -32768), 32767) & 0xFFFF)
            case _:
                numbers.append(0)
    return [_signed(b << 16 | a) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]


def _names_in(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _is_cheap(value: ast.expr) -> bool:
    """Whether a value takes a single operation, as a name does."""
    match value:
        case ast.Call(func=ast.Name(id="ram"), args=[ast.Constant()]):
            return True
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return isinstance(left, ast.Call) and _is_cheap(left)
    return False


def _conditions(visible: ast.expr) -> list[ast.expr]:
    """The parts of a condition, all of which have to hold."""
    match visible:
        case ast.BoolOp(op=ast.And(), values=parts):
            return [part for tree in parts for part in _conditions(tree)]
        case ast.BinOp(  # a bit: x >> 5 & 1 is not 0 where x & 32 is not
            ast.BinOp(x, ast.RShift(), ast.Constant(value=int(shift))),
            ast.BitAnd(),
            ast.Constant(1),
        ) if shift in range(8):
            return [ast.BinOp(x, ast.BitAnd(), ast.Constant(1 << shift))]
    return [visible]


class _Replacing(ast.NodeTransformer):
    """Replaces names by their values."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        return node if value is None else self.visit(copy.deepcopy(value))


def _cells_of(tree: ast.AST, names: Mapping[str, _Name]) -> frozenset[int]:
    """Cells that code reads, itself or through names; all, if an address may be any."""
    match tree:
        case ast.Name(id=name) if name in names:
            return names[name].cells
        case ast.Call(func=ast.Name(id="ram" | "bcd"), args=[ast.Constant(value=int(address))]):
            return frozenset({address & 127})
        case ast.Call(func=ast.Name(id="ram" | "bcd")):
            return frozenset(range(128))
    return frozenset().union(*(_cells_of(node, names) for node in ast.iter_child_nodes(tree)))


def _cell_words(cells: frozenset[int]) -> list[int]:
    """A bit for each cell, in four words."""
    bits = sum(1 << cell for cell in cells)
    return [_signed(bits >> 32 * word & 0xFFFFFFFF) for word in range(4)]


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


def _value_of(node: ast.AST, number: int) -> int | None:
    """The value of an expression whose parts are folded, for an object; None: it is no constant."""
    match node:
        case ast.Name(id=name) if name == INDEX:
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case ast.Call(
            func=ast.Name(id="table"), args=[ast.Constant(value=int(at)), ast.List(elts=entries)]
        ):
            return int(ast.literal_eval(entries[min(max(at, 0), len(entries) - 1)]))
        case ast.BinOp(ast.Constant(value=int(a)), op, ast.Constant(value=int(b))):
            name = BINARY[type(op)]
        case ast.Compare(ast.Constant(value=int(a)), [op], [ast.Constant(value=int(b))]):
            name = COMPARE[type(op)]
        case _:
            return None
    if name not in _OPERATIONS or (b == 0 and name in ("FLOORDIV", "MOD")):
        return None
    value = int(_OPERATIONS[name](a, b))
    return value if value == _signed(value & 0xFFFFFFFF) else None  # the machine wraps


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
