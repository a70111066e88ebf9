"""The rule language of `games.toml`: parsing and checking, for evaluator and compiler alike.

In: the `step`, `lives` and `mode_setup` texts of one game. Out: `ParsedRules`, syntax trees that
hold nothing but what is listed here. Texts have Python's syntax; everything not listed is an error
that names the game, the program, the line and the construct.

* Values are 32-bit signed integers with wrap-around. True and False are 1 and 0.
* Expressions: integer constants, names, ``+ - * // % & | ^ << >>``, unary ``- + ~ not``, ``and or``
  (with Python's values), comparisons (0 or 1), ``x if c else y``. ``//`` and ``%`` round down; with
  divisor 0 they give 0. A shift is by a constant 0..31. ``a < b < c`` is ``a < b and b < c``.
* Calls: ``ram(i) cartram(i) bcd1(i) bcd2(lo, hi) bcd3(lo, mid, hi)``; indices wrap at 128.
* Statements: ``name = expression``, ``name += expression`` and its kin, ``if elif else``, ``pass``.
* Names of `state` persist between runs. All other names are local to one run and must have been
  assigned on every way that leads to where they are read.
* `lives` is one expression over the state. If it calls ``ram`` and the like, it is evaluated at the
  end of each step instead and kept, with the value 0 after a reset.
* `mode_setup` also has the name ``mode``, ``while condition:``, the statements ``select(n)``,
  ``soft_reset()``, ``act(a)`` and ``fail()``, and the expression ``rand()``. Or it is numbered
  steps, which `cule.games.steps` makes such a program of.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from cule.errors import RulesError
from cule.games.steps import has_steps, program_of

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
#: The state names every game has, in the order of their slots.
CORE_STATE = ("score", "reward", "terminal")
#: Number of arguments of each call that reads memory.
READS = {"ram": 1, "cartram": 1, "bcd1": 1, "bcd2": 2, "bcd3": 3}
#: Number of arguments of each statement that drives the console during mode_setup.
EFFECTS = {"select": 1, "soft_reset": 0, "act": 1, "fail": 0}
#: Names with a meaning of their own, which no rule may assign.
RESERVED = frozenset({*READS, *EFFECTS, "rand", "mode"})
#: State name that holds the value of a `lives` expression that reads memory; no rule can spell it.
KEPT_LIVES = "lives at the end of the step"

MAX_TEXT_CHARS = 100_000
MAX_NESTING = 150  # statements and expressions inside one another

_BINARY = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.BitAnd,
    ast.BitOr,
    ast.BitXor,
    ast.LShift,
    ast.RShift,
)
_UNARY = (ast.Not, ast.USub, ast.UAdd, ast.Invert)
_COMPARE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(frozen=True)
class Program:
    """Checked statements and the local names they assign, in order of appearance."""

    body: tuple[ast.stmt, ...]
    local_names: tuple[str, ...]


@dataclass(frozen=True)
class ParsedRules:
    """The checked programs of one game."""

    game_id: str
    state: tuple[tuple[str, int], ...]  # names and reset values; score, reward, terminal first
    step: Program
    lives: ast.expr  # reads state names only
    setup: Program  # empty body: no mode setup


def parse_rules(
    game_id: str, state: Sequence[tuple[str, int]], step: str, lives: str, mode_setup: str
) -> ParsedRules:
    """Parse and check the programs of one game.

    Args:
        game_id: Named in errors.
        state: Persistent names and reset values; score, reward and terminal must be there.
        step: Program run after every frame.
        lives: Expression for the number of lives.
        mode_setup: Program that brings a freshly reset console to a mode; may be empty.

    Raises:
        RulesError: A text is outside the language; game, program, line and construct are named.
    """
    values = dict(state)
    _check_state_names(game_id, [name for name, _ in state])
    names = [*CORE_STATE, *(name for name in values if name not in CORE_STATE)]

    step_check = _Checker(f"{game_id}: step", names, has_effects=False)
    step_body = step_check.parse(step)

    lives_check = _Checker(f"{game_id}: lives", names, has_effects=False)
    lives_expr = lives_check.parse_expression(lives)
    if any(isinstance(node, ast.Call) for node in ast.walk(lives_expr)):
        target = ast.Name(KEPT_LIVES, ast.Store())
        step_body = (*step_body, ast.Assign([target], lives_expr))
        lives_expr = ast.Name(KEPT_LIVES, ast.Load())
        names.append(KEPT_LIVES)
        values[KEPT_LIVES] = 0

    where = f"{game_id}: mode_setup"
    setup_check = _Checker(where, names, has_effects=True)
    is_program = not has_steps(mode_setup)
    setup_body = setup_check.parse(mode_setup if is_program else program_of(mode_setup, where))
    return ParsedRules(
        game_id=game_id,
        state=tuple((name, values[name]) for name in names),
        step=Program(step_body, tuple(step_check.local_names)),
        lives=lives_expr,
        setup=Program(setup_body, tuple(setup_check.local_names)),
    )


def wrap32(value: int) -> int:
    """Reduce an integer to 32-bit signed with wrap-around."""
    return ((value - INT_MIN) & 0xFFFFFFFF) + INT_MIN


def _check_state_names(game_id: str, names: list[str]) -> None:
    for name in CORE_STATE:
        if name not in names:
            raise RulesError(f"{game_id}: state lacks {name!r}; it needs {', '.join(CORE_STATE)}")
    for name in names:
        if name in RESERVED:
            raise RulesError(f"{game_id}: state name {name!r} has a meaning of its own")
        try:
            tree = ast.parse(name, mode="eval").body
        except (SyntaxError, ValueError):
            tree = None
        if not (isinstance(tree, ast.Name) and tree.id == name):
            raise RulesError(f"{game_id}: state name {name!r} is not a plain name")


class _Checker:
    """Checks one text and collects the local names it assigns."""

    def __init__(self, where: str, state: Sequence[str], *, has_effects: bool) -> None:
        self._where = where
        self._state = frozenset(state)
        self._has_effects = has_effects
        self.local_names: list[str] = []

    def parse(self, text: str) -> tuple[ast.stmt, ...]:
        body = tuple(self._tree(text, "exec").body)  # type: ignore[attr-defined]
        known = self._state | ({"mode"} if self._has_effects else set())
        self._block(body, known, 0)
        return body

    def parse_expression(self, text: str) -> ast.expr:
        expr: ast.expr = self._tree(text.strip(), "eval").body  # type: ignore[attr-defined]
        self._expression(expr, self._state, 0)
        return expr

    def _tree(self, text: str, mode: str) -> ast.AST:
        if len(text) > MAX_TEXT_CHARS:
            raise RulesError(f"{self._where}: longer than {MAX_TEXT_CHARS} characters")
        try:
            return ast.parse(text, mode=mode)
        except SyntaxError as error:
            line = f", line {error.lineno}" if error.lineno else ""
            raise RulesError(f"{self._where}{line}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise RulesError(f"{self._where}: cannot be parsed: {error}") from None

    def _fail(self, node: ast.stmt | ast.expr, message: str) -> RulesError:
        return RulesError(f"{self._where}, line {node.lineno}: {message}")

    def _outside(self, node: ast.stmt | ast.expr) -> RulesError:
        kind = type(node).__name__
        return self._fail(node, f"{kind} ({_first_line(node)}) is outside the rule language")

    # statements: each returns the names that are certainly set afterwards

    def _block(self, body: Sequence[ast.stmt], known: frozenset[str], depth: int) -> frozenset[str]:
        for statement in body:
            known = self._statement(statement, known, depth)
        return known

    def _statement(self, node: ast.stmt, known: frozenset[str], depth: int) -> frozenset[str]:
        if depth > MAX_NESTING:
            raise self._fail(node, f"nested more than {MAX_NESTING} deep")
        inner = depth + 1
        if isinstance(node, ast.Assign):
            if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
                raise self._fail(node, f"{_first_line(node)}: only one plain name can be assigned")
            self._expression(node.value, known, inner)
            return known | {self._assigned(node.targets[0])}
        if isinstance(node, ast.AugAssign):
            if not isinstance(node.target, ast.Name):
                raise self._fail(node, f"{_first_line(node)}: only one plain name can be assigned")
            self._name(node.target, known)
            self._operator(node, node.op, node.value)
            self._expression(node.value, known, inner)
            return known | {self._assigned(node.target)}
        if isinstance(node, ast.If):
            self._expression(node.test, known, inner)
            then = self._block(node.body, known, inner)
            return then & self._block(node.orelse, known, inner)
        if isinstance(node, ast.While):
            if not self._has_effects:
                raise self._fail(node, "while is only allowed in mode_setup")
            if node.orelse:
                raise self._fail(node, "while has no else here")
            self._expression(node.test, known, inner)
            self._block(node.body, known, inner)
            return known
        if isinstance(node, ast.Expr):
            self._effect(node, known, inner)
            return known
        if isinstance(node, ast.Pass):
            return known
        raise self._outside(node)

    def _assigned(self, target: ast.Name) -> str:
        if target.id in RESERVED:
            raise self._fail(
                target, f"{target.id!r} has a meaning of its own and cannot be assigned"
            )
        if target.id not in self._state and target.id not in self.local_names:
            self.local_names.append(target.id)
        return target.id

    def _effect(self, node: ast.Expr, known: frozenset[str], depth: int) -> None:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise self._outside(node)
        if call.func.id not in EFFECTS:
            raise self._fail(node, f"{_first_line(node)} is no statement of the rule language")
        if not self._has_effects:
            raise self._fail(node, f"{call.func.id} is only allowed in mode_setup")
        self._arguments(call, EFFECTS[call.func.id], known, depth)

    # expressions

    def _expression(self, node: ast.expr, known: frozenset[str], depth: int) -> None:
        if depth > MAX_NESTING:
            raise self._fail(node, f"nested more than {MAX_NESTING} deep")
        inner = depth + 1
        operands: Sequence[ast.expr]
        if isinstance(node, ast.Constant):
            self._constant(node)
            operands = ()
        elif isinstance(node, ast.Name):
            self._name(node, known)
            operands = ()
        elif isinstance(node, ast.BinOp):
            self._operator(node, node.op, node.right)
            operands = (node.left, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, _UNARY):
            operands = (node.operand,)
        elif isinstance(node, ast.BoolOp):
            operands = node.values
        elif isinstance(node, ast.Compare):
            operands = self._comparison(node)
        elif isinstance(node, ast.IfExp):
            operands = (node.test, node.body, node.orelse)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self._call(node, node.func.id, known, inner)
            operands = ()
        else:
            raise self._outside(node)
        for operand in operands:
            self._expression(operand, known, inner)

    def _constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, int):
            raise self._fail(node, f"constant {node.value!r} is not an integer")
        if node.value > INT_MAX:
            raise self._fail(node, f"constant {node.value} does not fit 32 bits")

    def _name(self, node: ast.Name, known: frozenset[str]) -> None:
        if node.id in known:
            return
        if node.id in self.local_names:
            raise self._fail(node, f"name {node.id!r} is not set on every way to here")
        allowed = ", ".join(sorted(known - {KEPT_LIVES}))
        raise self._fail(node, f"unknown name {node.id!r}; set before this line: {allowed}")

    def _operator(self, node: ast.stmt | ast.expr, op: ast.operator, right: ast.expr) -> None:
        if not isinstance(op, _BINARY):
            kind = type(op).__name__
            raise self._fail(node, f"operator {kind} ({_first_line(node)}) is outside the language")
        if isinstance(op, ast.LShift | ast.RShift):
            amount = right.value if isinstance(right, ast.Constant) else None
            if not isinstance(amount, int) or not 0 <= amount <= 31:
                raise self._fail(node, f"{_first_line(node)}: a shift is by a constant 0..31")

    def _comparison(self, node: ast.Compare) -> list[ast.expr]:
        for op in node.ops:
            if not isinstance(op, _COMPARE):
                kind = type(op).__name__
                raise self._fail(
                    node, f"comparison {kind} ({_first_line(node)}) is outside the language"
                )
        for middle in node.comparators[:-1]:
            calls = (n.func for n in ast.walk(middle) if isinstance(n, ast.Call))
            if any(isinstance(func, ast.Name) and func.id == "rand" for func in calls):
                raise self._fail(node, "rand() in the middle of a chained comparison")
        return [node.left, *node.comparators]

    def _call(self, node: ast.Call, name: str, known: frozenset[str], depth: int) -> None:
        if name == "rand" and self._has_effects:
            self._arguments(node, 0, known, depth)
        elif name in READS:
            self._arguments(node, READS[name], known, depth)
        elif name in EFFECTS and self._has_effects:
            raise self._fail(node, f"{name} is a statement and has no value")
        elif name in EFFECTS or name == "rand":
            raise self._fail(node, f"{name} is only allowed in mode_setup")
        else:
            raise self._fail(node, f"unknown call {name!r}; there are {', '.join(READS)}")

    def _arguments(self, node: ast.Call, count: int, known: frozenset[str], depth: int) -> None:
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if len(node.args) != count or node.keywords or starred:
            wanted = f"{count} plain argument{'' if count == 1 else 's'}"
            raise self._fail(node, f"{_first_line(node)}: needs {wanted}")
        for argument in node.args:
            self._expression(argument, known, depth)


def _first_line(node: ast.AST) -> str:
    """The node as text, cut to one short line for an error message."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):  # unparse has limits of its own
        return "..."
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 else line[:57] + "..."
