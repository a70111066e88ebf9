"""The rule language of `games.toml`: the only parser and checker of its programs.

In: the `step`, `lives` and `mode_setup` texts of one game. Out: `ParsedRules`, syntax trees that
contain nothing but what is listed here. Texts have Python's syntax; everything not listed is an
error that names the game, the program, the line and the construct.

* Values are 32-bit signed integers with wrap-around. True and False are 1 and 0.
* Expressions: integer constants, names, ``+ - * // % & | ^ << >>``, unary ``- + ~ not``, ``and or``
  (with Python's values), comparisons (0 or 1), ``x if c else y``. ``//`` and ``%`` round down; with
  divisor 0 they give 0. A shift is by a constant 0..31. ``a < b < c`` is ``a < b and b < c``.
* Calls: ``ram(i) cartram(i) bcd1(i) bcd2(lo, hi) bcd3(lo, mid, hi)``; indices wrap at 128.
* Statements: ``name = expression``, ``name += expression`` and its kin, ``if elif else``, ``pass``.
* Names of `state` persist between runs. All other names are local to one run and must be assigned
  on every path that leads to a use.
* `lives` is one expression over the state for each player. If it calls ``ram`` and the like, it is
  evaluated at the end of each step instead and kept, with the value 0 after a reset.
* With several players ``reward_p0``, ``reward_p1`` and so on take the place of ``reward``.
* Expressions of objects (`parse_objects`) call ``ram(i) bcd(i) table(k, [constants])``: two decimal
  digits, and the k-th constant, clipped to the ends. They have the name ``i`` and shift by any
  value; one outside 0..31 moves all bits out.
* Programs of modifications (`parse_modification`) also have the statement ``poke(i, value)``, which
  writes the lowest 8 bits of the value to RAM, and the expression ``rand(n)``, a random number from
  0 to n - 1, or 0 where n is not positive. Those that run before a frame have the name ``action``,
  those that run after it ``reward``, and can assign them.
* `mode_setup` also has the name ``mode``, ``while condition:``, the statements ``select(n)``,
  ``soft_reset()``, ``act(a)`` and ``fail()``, and the expression ``rand()``. It can also be written
  as numbered steps, which `cule.games.steps` translates to such a program.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

from cule.errors import RulesError, shown
from cule.games.steps import has_steps, program_of
from cule.reading import MAX_PROGRAM_CHARS, MAX_PROGRAM_LEVELS, MAX_PROGRAM_NAMES

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
#: The state names every game has, in the order of their slots.
CORE_STATE = ("score", "reward", "terminal")


def core_state(num_players: int) -> tuple[str, ...]:
    """The state names in the order of their first slots; those of several players have rewards."""
    if num_players == 1:
        return CORE_STATE
    first, *others = (f"reward_p{player}" for player in range(num_players))
    return ("score", first, "terminal", *others)


#: Number of arguments of each call that reads memory.
READS = {"ram": 1, "cartram": 1, "bcd1": 1, "bcd2": 2, "bcd3": 3}
#: Likewise in the expressions of objects, which also have ``table(k, [constants])``.
OBJECT_READS = {"ram": 1, "bcd": 1}
#: Columns of an object's row, in order, and its expressions in a table.
OBJECT_COLUMNS = ("x", "y", "w", "h", "visible", "value")
#: Number of the object among those of its kind, in the expressions of objects.
INDEX = "i"
MAX_TABLE = 256
_OBJECT_NAMES = frozenset({*OBJECT_READS, INDEX, "table"})
#: Number of arguments of each statement that drives the console during mode_setup.
EFFECTS = {"select": 1, "soft_reset": 0, "act": 1, "fail": 0}
#: Likewise of each statement that changes RAM in a modification.
POKES = {"poke": 2}
#: Names with a meaning of their own, which no rule may assign.
RESERVED = frozenset({*READS, *EFFECTS, "rand", "mode"})
_MODIFICATION_NAMES = frozenset({*READS, *POKES, "rand", "action", "reward"})
#: State name that holds the value of a `lives` expression that reads memory; no rule can spell it.
KEPT_LIVES = "lives at the end of the step"

#: Binary operators and comparisons, with the names of their operations.
BINARY: dict[type[ast.AST], str] = {
    ast.Add: "ADD",
    ast.Sub: "SUB",
    ast.Mult: "MUL",
    ast.FloorDiv: "FLOORDIV",
    ast.Mod: "MOD",
    ast.BitAnd: "AND",
    ast.BitOr: "OR",
    ast.BitXor: "XOR",
    ast.LShift: "SHL",
    ast.RShift: "SHR",
}
COMPARE: dict[type[ast.AST], str] = {
    ast.Eq: "EQ",
    ast.NotEq: "NE",
    ast.Lt: "LT",
    ast.LtE: "LE",
    ast.Gt: "GT",
    ast.GtE: "GE",
}


@dataclass(frozen=True)
class Program:
    """Checked statements and the local names they assign, in order of appearance."""

    body: tuple[ast.stmt, ...]
    local_names: tuple[str, ...]


@dataclass(frozen=True)
class ParsedRules:
    """The checked programs of one game."""

    game_id: str
    state: tuple[tuple[str, int], ...]  # names and reset values; those of `core_state` first
    step: Program
    lives: tuple[ast.expr, ...]  # for each player; reads state names only
    setup: Program  # empty body: no mode setup


def parse_rules(
    game_id: str,
    state: Sequence[tuple[str, int]],
    step: str,
    lives: Sequence[str],
    mode_setup: str,
) -> ParsedRules:
    """Parse and check the programs of one game, which `GameRules` describes.

    Raises:
        RulesError: A text is outside the language; game, program, line and construct are named.
    """
    core = core_state(len(lives))
    values = dict.fromkeys(core, 0) | dict(state)
    _check_state_names(game_id, list(values))
    names = list(values)

    step_check = _Checker(f"{game_id}: step", names)
    step_body = step_check.parse(step)

    lives_checker = _Checker(f"{game_id}: lives", names)
    lives_exprs = [lives_checker.parse_expression(text) for text in lives]
    for player, expr in enumerate(lives_exprs):
        if any(isinstance(node, ast.Call) for node in ast.walk(expr)):
            kept = KEPT_LIVES if player == 0 else f"{KEPT_LIVES}, player {player}"
            step_body = (*step_body, ast.Assign([ast.Name(kept, ast.Store())], expr))
            lives_exprs[player] = ast.Name(kept, ast.Load())
            names.append(kept)
            values[kept] = 0

    where = f"{game_id}: mode_setup"
    setup_check = _Checker(where, names, kind="setup")
    setup = program_of(mode_setup, where) if has_steps(mode_setup) else mode_setup
    setup_body = setup_check.parse(setup)
    return ParsedRules(
        game_id=game_id,
        state=tuple((name, values[name]) for name in names),
        step=Program(step_body, tuple(step_check.local_names)),
        lives=tuple(lives_exprs),
        setup=Program(setup_body, tuple(setup_check.local_names)),
    )


def parse_objects(
    where: str, let: str, kinds: Sequence[Sequence[str]]
) -> tuple[Program, tuple[tuple[ast.expr, ...], ...]]:
    """Parse and check the expressions of objects.

    Args:
        where: What errors begin with.
        let: Assignments of names that the expressions use.
        kinds: Expressions of each kind of object.

    Raises:
        RulesError: A text is outside the language.
    """
    check = _Checker(f"{where}: let", (), kind="objects")
    body = check.parse(let)
    if not all(isinstance(statement, ast.Assign) for statement in body):
        raise RulesError(f"{where}: let holds something else than assignments of names")
    names = (*check.local_names, INDEX)
    expressions = _Checker(where, names, kind="objects")
    parsed = tuple(tuple(map(expressions.parse_expression, texts)) for texts in kinds)
    return Program(body, tuple(check.local_names)), parsed


def parse_modification(
    where: str, state: Sequence[str], parameters: Sequence[str], value: str, program: str
) -> Program:
    """Parse and check the program of a modification.

    Args:
        where: What errors begin with.
        state: Names that keep their values from frame to frame.
        parameters: Names that have a value and cannot be assigned.
        value: "action" or "reward", which the program can read and assign; empty: neither.
        program: The text.

    Raises:
        RulesError: The text is outside the language.
    """
    _check_state_names(where, [*state, *parameters], _MODIFICATION_NAMES)
    names = [*state, *parameters, *([value] if value else [])]
    check = _Checker(where, names, kind="modification", constants=parameters)
    return Program(check.parse(program), tuple(check.local_names))


def _check_state_names(game_id: str, names: list[str], reserved: frozenset[str] = RESERVED) -> None:
    if len(names) > MAX_PROGRAM_NAMES:
        raise RulesError(f"{game_id}: {len(names)} names in state; at most {MAX_PROGRAM_NAMES}")
    for name in names:
        if name in reserved:
            raise RulesError(f"{game_id}: state name {shown(name)} has a meaning of its own")
        try:
            tree = ast.parse(name, mode="eval").body
        except (SyntaxError, ValueError):
            tree = None
        if not (isinstance(tree, ast.Name) and tree.id == name):
            raise RulesError(f"{game_id}: state name {shown(name)} is not a plain name")


class _Checker:
    """Checks one text and collects the local names it assigns."""

    def __init__(
        self,
        where: str,
        state: Sequence[str],
        *,
        kind: Literal["rules", "setup", "objects", "modification"] = "rules",
        constants: Sequence[str] = (),
    ) -> None:
        self._where = where
        self._state = frozenset(state)
        self._is_setup = kind == "setup"
        self._is_objects = kind == "objects"
        self._is_modification = kind == "modification"
        self._effects = POKES if self._is_modification else EFFECTS
        names = {"objects": _OBJECT_NAMES, "modification": _MODIFICATION_NAMES}.get(kind, RESERVED)
        self._reserved = (names | frozenset(constants)) - (set(state) - set(constants))
        self._reads = OBJECT_READS if self._is_objects else READS
        self.local_names: list[str] = []

    def parse(self, text: str) -> tuple[ast.stmt, ...]:
        tree = self._tree(text, "exec")
        assert isinstance(tree, ast.Module)
        self._block(tree.body, self._state | ({"mode"} if self._is_setup else set()), 0)
        return tuple(tree.body)

    def parse_expression(self, text: str) -> ast.expr:
        tree = self._tree(text.strip(), "eval")
        assert isinstance(tree, ast.Expression)
        self._expression(tree.body, self._state, 0)
        return tree.body

    def _tree(self, text: str, mode: str) -> ast.AST:
        if len(text) > MAX_PROGRAM_CHARS:
            raise RulesError(f"{self._where}: longer than {MAX_PROGRAM_CHARS} characters")
        try:
            return ast.parse(text, mode=mode)
        except SyntaxError as error:
            line = f", line {error.lineno}" if error.lineno else ""
            raise RulesError(f"{self._where}{line}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise RulesError(f"{self._where}: cannot be parsed: {error}") from None

    def _error(self, node: ast.stmt | ast.expr, message: str) -> RulesError:
        return RulesError(f"{self._where}, line {node.lineno}: {message}")

    def _outside(self, node: ast.stmt | ast.expr) -> RulesError:
        kind = type(node).__name__
        return self._error(node, f"{kind} ({_first_line(node)}) is outside the rule language")

    # statements: each returns the names that are certainly set afterwards

    def _block(self, body: Sequence[ast.stmt], known: frozenset[str], depth: int) -> frozenset[str]:
        for statement in body:
            known = self._statement(statement, known, depth)
        return known

    def _statement(self, node: ast.stmt, known: frozenset[str], depth: int) -> frozenset[str]:
        if depth > MAX_PROGRAM_LEVELS:
            raise self._error(node, f"nested more than {MAX_PROGRAM_LEVELS} deep")
        inner = depth + 1
        match node:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                self._expression(value, known, inner)
                return known | {self._assigned(target)}
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                self._name(target, known)
                self._operator(node, op, value)
                self._expression(value, known, inner)
                return known | {self._assigned(target)}
            case ast.Assign() | ast.AugAssign():
                raise self._error(node, f"{_first_line(node)}: only one plain name can be assigned")
            case ast.If():
                self._expression(node.test, known, inner)
                then = self._block(node.body, known, inner)
                return then & self._block(node.orelse, known, inner)
            case ast.While():
                if not self._is_setup:
                    raise self._error(node, "while is only allowed in mode_setup")
                if node.orelse:
                    raise self._error(node, "while has no else here")
                self._expression(node.test, known, inner)
                self._block(node.body, known, inner)
                return known
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                if name not in self._effects:
                    raise self._error(
                        node, f"{_first_line(node)} is no statement of the rule language"
                    )
                if not (self._is_setup or self._is_modification):
                    raise self._error(node, f"{name} is only allowed in mode_setup")
                self._arguments(call, self._effects[name], known, inner)
                return known
            case ast.Pass():
                return known
        raise self._outside(node)

    def _assigned(self, target: ast.Name) -> str:
        if target.id in self._reserved:
            raise self._error(
                target, f"{shown(target.id)} has a meaning of its own and cannot be assigned"
            )
        if target.id not in self._state and target.id not in self.local_names:
            self.local_names.append(target.id)
            if len(self.local_names) > MAX_PROGRAM_NAMES:
                raise self._error(target, f"more than {MAX_PROGRAM_NAMES} names")
        return target.id

    # expressions

    def _expression(self, node: ast.expr, known: frozenset[str], depth: int) -> None:
        if depth > MAX_PROGRAM_LEVELS:
            raise self._error(node, f"nested more than {MAX_PROGRAM_LEVELS} deep")
        operands: Sequence[ast.expr] = ()
        match node:
            case ast.Constant(value=value):
                if not isinstance(value, int):
                    raise self._error(node, f"constant {shown(value)} is not an integer")
                if value > INT_MAX:
                    raise self._error(node, f"constant {shown(value)} does not fit 32 bits")
            case ast.Name():
                self._name(node, known)
            case ast.BinOp():
                self._operator(node, node.op, node.right)
                operands = (node.left, node.right)
            case ast.UnaryOp():
                operands = (node.operand,)
            case ast.BoolOp():
                operands = node.values
            case ast.Compare():
                self._comparison(node)
                operands = (node.left, *node.comparators)
            case ast.IfExp():
                operands = (node.test, node.body, node.orelse)
            case ast.Call(func=ast.Name(id=name)):
                self._call(node, name, known, depth + 1)
            case _:
                raise self._outside(node)
        for operand in operands:
            self._expression(operand, known, depth + 1)

    def _name(self, node: ast.Name, known: frozenset[str]) -> None:
        if node.id in known:
            return
        if node.id in self.local_names:
            raise self._error(node, f"name {shown(node.id)} is not set on every way to here")
        allowed = ", ".join(sorted(known - {KEPT_LIVES}))
        raise self._error(node, f"unknown name {shown(node.id)}; set before this line: {allowed}")

    def _operator(self, node: ast.stmt | ast.expr, op: ast.operator, right: ast.expr) -> None:
        self._check_operator(node, "operator", op, BINARY)
        if isinstance(op, ast.LShift | ast.RShift) and not self._is_objects:
            amount = right.value if isinstance(right, ast.Constant) else None
            if not isinstance(amount, int) or not 0 <= amount <= 31:
                raise self._error(node, f"{_first_line(node)}: a shift is by a constant 0..31")

    def _check_operator(
        self, node: ast.stmt | ast.expr, what: str, op: ast.AST, allowed: Container[type[ast.AST]]
    ) -> None:
        if type(op) not in allowed:
            text = f"{what} {type(op).__name__} ({_first_line(node)})"
            raise self._error(node, f"{text} is outside the language")

    def _comparison(self, node: ast.Compare) -> None:
        for op in node.ops:
            self._check_operator(node, "comparison", op, COMPARE)
        # A chain evaluates these operands twice.
        for middle in node.comparators[:-1]:
            names = (n.id for n in ast.walk(middle) if isinstance(n, ast.Name))
            if "rand" in names:
                raise self._error(node, "rand() in the middle of a chained comparison")

    def _call(self, node: ast.Call, name: str, known: frozenset[str], depth: int) -> None:
        if name in self._reads:
            self._arguments(node, self._reads[name], known, depth)
        elif name == "table" and self._is_objects:
            self._table(node, known, depth)
        elif name == "rand" and (self._is_setup or self._is_modification):
            self._arguments(node, int(self._is_modification), known, depth)
        elif name in self._effects and (self._is_setup or self._is_modification):
            raise self._error(node, f"{name} is a statement and has no value")
        elif name in self._effects or name == "rand":
            raise self._error(node, f"{name} is only allowed in mode_setup")
        else:
            more = ["table"] * self._is_objects + ["rand"] * self._is_modification
            calls = [*self._reads, *more]
            raise self._error(node, f"unknown call {shown(name)}; there are {', '.join(calls)}")

    def _table(self, node: ast.Call, known: frozenset[str], depth: int) -> None:
        match node.args, node.keywords:
            case [index, ast.List(elts=entries)], [] if 1 <= len(entries) <= MAX_TABLE:
                self._expression(index, known, depth)
                for entry in entries:
                    constant = entry.operand if isinstance(entry, ast.UnaryOp) else entry
                    if not isinstance(constant, ast.Constant):
                        raise self._error(node, f"{_first_line(entry)} is not a constant")
                    self._expression(entry, known, depth)
            case _:
                raise self._error(
                    node, f"{_first_line(node)}: needs an index and 1 to {MAX_TABLE} constants"
                )

    def _arguments(self, node: ast.Call, count: int, known: frozenset[str], depth: int) -> None:
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if len(node.args) != count or node.keywords or starred:
            wanted = f"{count} plain argument{'' if count == 1 else 's'}"
            raise self._error(node, f"{_first_line(node)}: needs {wanted}")
        for argument in node.args:
            self._expression(argument, known, depth)


def _first_line(node: ast.AST) -> str:
    """The node as text, truncated to one short line for an error message."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):  # unparse has limits of its own
        return "..."
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 else line[:57] + "..."
