"""Plain evaluator of the game rules: the reference for the compiled programs.

In: `GameRules` and 128 RAM bytes after every frame. Out: reward, terminal and lives. The order of
events is that of the environment: `reset` restores the reset values of the state, `step` runs after
each frame, `run_setup` drives a console to a mode and expects that console to call `step` for the
frames it runs.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from cule.errors import RulesError
from cule.games import GameRules
from cule.games.language import BINARY, COMPARE, INT_MIN, parse_rules

MAX_LOOPS = 1_000_000  # iterations of `while` in one mode_setup; more count as an endless loop

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "ADD": operator.add,
    "SUB": operator.sub,
    "MUL": operator.mul,
    "FLOORDIV": lambda left, right: left // right if right else 0,
    "MOD": lambda left, right: left % right if right else 0,
    "AND": operator.and_,
    "OR": operator.or_,
    "XOR": operator.xor,
    "SHL": operator.lshift,
    "SHR": operator.rshift,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_UNARY: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


def wrap32(value: int) -> int:
    """Reduce an integer to 32-bit signed with wrap-around."""
    return ((value - INT_MIN) & 0xFFFFFFFF) + INT_MIN


class SetupConsole(Protocol):
    """What `mode_setup` does to a console. RAM is read when a rule reads it, never earlier."""

    ram: bytes
    cart_ram: bytes

    def select(self, frames: int) -> None:
        """Press the SELECT switch for this many frames."""

    def soft_reset(self) -> None:
        """Press the RESET switch."""

    def act(self, action: int) -> None:
        """Do one environment action."""

    def rand(self) -> int:
        """The next raw 32-bit number of the environment's generator."""


class RuleEvaluator:
    """Runs the rules of one game on RAM images."""

    def __init__(self, rules: GameRules) -> None:
        self._rules = parse_rules(
            rules.game_id, rules.state, rules.step, rules.lives, rules.mode_setup
        )
        self._kept = rules.kept
        self.state: dict[str, int] = {}
        self.reset()

    @property
    def reward(self) -> int:
        return self.state["reward"]

    @property
    def terminal(self) -> bool:
        return bool(self.state["terminal"])

    @property
    def lives(self) -> int:
        return self.lives_of(0)

    def lives_of(self, player: int) -> int:
        return ProgramRunner(self.state, _Memory()).value(self._rules.lives[player])

    def reset(self) -> None:
        kept = {name: self.state[name] for name in self._kept if name in self.state}
        self.state = dict(self._rules.state) | kept

    def step(self, ram: Sequence[int], cart_ram: Sequence[int] = ()) -> None:
        ProgramRunner(self.state, _Memory(ram, cart_ram)).block(self._rules.step.body)

    def run_setup(self, console: SetupConsole, mode: int) -> None:
        """Bring a console to a mode; a RulesError if the program gives up or does not end."""
        run = ProgramRunner(self.state, console)
        run.local_values["mode"] = mode
        try:
            run.block(self._rules.setup.body)
        except _SetupError as error:
            raise RulesError(f"{self._rules.game_id}: {error.args[0].format(mode)}") from None


class _SetupError(Exception):
    """mode_setup failed; the text has a place for the mode."""


class _Memory:
    """The RAM after a frame."""

    def __init__(self, ram: Sequence[int] = (), cart_ram: Sequence[int] = ()) -> None:
        self.ram, self.cart_ram = ram, cart_ram


class PokedConsole(Protocol):
    """What the program of a modification does to a console."""

    ram: list[int]
    cart_ram: bytes

    def poke(self, cell: int, value: int) -> None:
        """Write a byte to RAM."""

    def rand(self, n: int) -> int:
        """A random number from 0 to n - 1."""


class ProgramRunner:
    """One run of a program: local names, and the memory or the console that it reads."""

    def __init__(
        self,
        state: dict[str, int],
        console: _Memory | SetupConsole | PokedConsole,
        local_values: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self.local_values = dict(local_values)
        self._console = console
        self._loops = 0

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._assign(name, self.value(node.value))
            case ast.AugAssign(target=ast.Name(id=name)):
                right = self.value(node.value)
                self._assign(name, _binary(BINARY[type(node.op)], self._read(name), right))
            case ast.If():
                self.block(node.body if self.value(node.test) else node.orelse)
            case ast.While():
                while self.value(node.test):
                    self._loops += 1
                    if self._loops > MAX_LOOPS:
                        raise _SetupError("mode_setup for mode {} does not end")
                    self.block(node.body)
            case ast.Expr(value=ast.Call(func=ast.Name(id="fail"))):
                raise _SetupError("mode {} cannot be reached")
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)):
                getattr(self._console, name)(*map(self.value, arguments))
            case _:
                assert isinstance(node, ast.Pass)

    def _assign(self, name: str, value: int) -> None:
        (self._state if name in self._state else self.local_values)[name] = value

    def _read(self, name: str) -> int:
        return self._state[name] if name in self._state else self.local_values[name]

    def value(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=value):
                return int(value)  # type: ignore[arg-type]
            case ast.Name(id=name):
                return self._read(name)
            case ast.BinOp():
                return _binary(BINARY[type(node.op)], self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return wrap32(int(_UNARY[type(node.op)](self.value(node.operand))))
            case ast.BoolOp():
                stops_at = isinstance(node.op, ast.Or)
                result = 0
                for operand in node.values:
                    result = self.value(operand)
                    if bool(result) == stops_at:
                        break
                return result
            case ast.Compare():
                left = self.value(node.left)
                for op, comparator in zip(node.ops, node.comparators, strict=True):
                    right = self.value(comparator)
                    if not _binary(COMPARE[type(op)], left, right):
                        return 0
                    left = right
                return 1
            case ast.IfExp():
                return self.value(node.body if self.value(node.test) else node.orelse)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, [self.value(argument) for argument in arguments])
        raise AssertionError(node)

    def _call(self, name: str, arguments: list[int]) -> int:
        if name == "rand":
            assert not isinstance(self._console, _Memory)
            return wrap32(self._console.rand(*arguments))
        if name == "cartram":
            return int(self._console.cart_ram[arguments[0] & 127])
        cells = [int(self._console.ram[index & 127]) for index in arguments]
        if name == "ram":
            return cells[0]
        return sum(100**n * (10 * (cell >> 4) + (cell & 15)) for n, cell in enumerate(cells))


def _binary(name: str, left: int, right: int) -> int:
    return wrap32(int(_OPERATIONS[name](left, right)))
