"""Plain evaluator of the game rules: the reference for the compiled programs.

In: `GameRules` and 128 RAM bytes after every frame. Out: reward, terminal and lives. The order of
events is that of the environment: `reset` puts the state to its reset values, `step` runs after
each frame, `run_setup` drives a console to a mode and expects that console to call `step` for the
frames it runs.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol

from cule.errors import RulesError
from cule.games.language import parse_rules, wrap32
from cule.games.schema import GameRules

MAX_LOOPS = 1_000_000  # turns of `while` in one mode_setup; more are taken for an endless loop
_RAM_MASK = 127


class SetupConsole(Protocol):
    """What `mode_setup` does to a console. RAM is read when a rule reads it, never earlier."""

    @property
    def ram(self) -> Sequence[int]:
        """The 128 RIOT RAM bytes at this moment."""

    @property
    def cart_ram(self) -> Sequence[int]:
        """The 128 cartridge RAM bytes at this moment; empty where there are none."""

    def select(self, frames: int) -> None:
        """Press the SELECT switch for this many frames."""

    def soft_reset(self) -> None:
        """Press the RESET switch."""

    def act(self, action: int) -> None:
        """Do one environment action."""

    def rand(self) -> int:
        """Draw the next raw 32-bit number of the environment's generator."""


class RuleEvaluator:
    """Runs the rules of one game on RAM images.

    Example:
        >>> from cule.games import load_games
        >>> rules = RuleEvaluator(load_games()["pong"])
        >>> rules.step(bytes(128))
        >>> rules.reward, rules.terminal, rules.lives
        (0, False, 0)
    """

    def __init__(self, rules: GameRules) -> None:
        """Parse the rules and put the state to its reset values.

        Args:
            rules: Rules of one game.

        Raises:
            RulesError: A program is outside the rule language.
        """
        self._rules = parse_rules(
            rules.game_id, rules.state, rules.step, rules.lives, rules.mode_setup
        )
        self._game_id = rules.game_id
        self.state: dict[str, int] = {}
        self.reset()

    @property
    def reward(self) -> int:
        """Reward of the last frame."""
        return self.state["reward"]

    @property
    def terminal(self) -> bool:
        """Whether the game is over."""
        return bool(self.state["terminal"])

    @property
    def lives(self) -> int:
        """Number of lives, as the rules report it."""
        return _Run(self.state, (), ()).value(self._rules.lives)

    def reset(self) -> None:
        """Put every state name to its reset value."""
        self.state = dict(self._rules.state)

    def step(self, ram: Sequence[int], cart_ram: Sequence[int] = ()) -> None:
        """Run the step on the RAM after a frame.

        Args:
            ram: The 128 RIOT RAM bytes.
            cart_ram: The 128 cartridge RAM bytes, for games that read them.
        """
        _Run(self.state, ram, cart_ram).block(self._rules.step.body)

    def run_setup(self, console: SetupConsole, mode: int) -> None:
        """Bring a console to a mode.

        Args:
            console: The console; it calls `step` after the frames that count.
            mode: The requested mode number.

        Raises:
            RulesError: The program gave up, or loops without end.
        """
        run = _SetupRun(self.state, console, mode, self._game_id)
        run.block(self._rules.setup.body)


class _Run:
    """One run of a program: local names, and the memory it reads."""

    def __init__(
        self, state: MutableMapping[str, int], ram: Sequence[int], cart_ram: Sequence[int]
    ) -> None:
        self._state = state
        self._locals: dict[str, int] = {}
        self._ram = ram
        self._cart_ram = cart_ram

    # statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            assert isinstance(target, ast.Name)
            self._assign(target.id, self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            assert isinstance(node.target, ast.Name)
            name = node.target.id
            right = self.value(node.value)
            self._assign(name, _binary(node.op, self._read(name), right))
        elif isinstance(node, ast.If):
            self.block(node.body if self.value(node.test) else node.orelse)
        elif isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Call)
            self._effect(node.value)
        elif isinstance(node, ast.While):
            self._loop(node)
        else:
            assert isinstance(node, ast.Pass)

    def _assign(self, name: str, value: int) -> None:
        scope = self._state if name in self._state else self._locals
        scope[name] = value

    def _read(self, name: str) -> int:
        return self._state[name] if name in self._state else self._locals[name]

    def _effect(self, call: ast.Call) -> None:
        raise AssertionError("effects are for mode_setup")

    def _loop(self, node: ast.While) -> None:
        raise AssertionError("loops are for mode_setup")

    # expressions

    def value(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            return int(node.value)
        if isinstance(node, ast.Name):
            return self._read(node.id)
        if isinstance(node, ast.BinOp):
            return _binary(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self.value(node.operand))
        if isinstance(node, ast.BoolOp):
            return self._bool_op(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self.value(node.body if self.value(node.test) else node.orelse)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return self._call(node.func.id, [self.value(argument) for argument in node.args])

    def _bool_op(self, node: ast.BoolOp) -> int:
        stops_at = isinstance(node.op, ast.Or)
        value = 0
        for operand in node.values:
            value = self.value(operand)
            if bool(value) == stops_at:
                break
        return value

    def _compare(self, node: ast.Compare) -> int:
        left = self.value(node.left)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            if not _COMPARE[type(op)](left, right):
                return 0
            left = right
        return 1

    def _call(self, name: str, arguments: list[int]) -> int:
        if name == "ram":
            return self._memory(arguments[0])
        if name == "cartram":
            return self._cart_memory(arguments[0])
        weights = (1, 100, 10000)
        total = sum(w * self._bcd(i) for w, i in zip(weights, arguments, strict=False))
        return wrap32(total)

    def _bcd(self, index: int) -> int:
        byte = self._memory(index)
        return 10 * (byte >> 4) + (byte & 15)

    def _memory(self, index: int) -> int:
        return int(self._ram[index & _RAM_MASK])

    def _cart_memory(self, index: int) -> int:
        return int(self._cart_ram[index & _RAM_MASK])


class _SetupRun(_Run):
    """One run of mode_setup: as a step, with a live console."""

    def __init__(
        self, state: MutableMapping[str, int], console: SetupConsole, mode: int, game_id: str
    ) -> None:
        super().__init__(state, (), ())
        self._console = console
        self._game_id = game_id
        self._mode = mode
        self._loops = 0
        self._locals["mode"] = mode

    def _effect(self, call: ast.Call) -> None:
        assert isinstance(call.func, ast.Name)
        arguments = [self.value(argument) for argument in call.args]
        if call.func.id == "fail":
            raise RulesError(f"{self._game_id}: mode {self._mode} cannot be reached")
        effect: Callable[..., None] = getattr(self._console, call.func.id)
        effect(*arguments)

    def _loop(self, node: ast.While) -> None:
        while self.value(node.test):
            self._loops += 1
            if self._loops > MAX_LOOPS:
                raise RulesError(f"{self._game_id}: mode_setup for mode {self._mode} does not end")
            self.block(node.body)

    def _call(self, name: str, arguments: list[int]) -> int:
        if name == "rand":
            return wrap32(self._console.rand())
        return super()._call(name, arguments)

    def _memory(self, index: int) -> int:
        return int(self._console.ram[index & _RAM_MASK])

    def _cart_memory(self, index: int) -> int:
        return int(self._console.cart_ram[index & _RAM_MASK])


def _binary(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.FloorDiv | ast.Mod) and right == 0:
        return 0
    return wrap32(_BINARY[type(op)](left, right))


_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.USub: lambda value: wrap32(-value),
    ast.UAdd: lambda value: value,
    ast.Invert: lambda value: ~value,
    ast.Not: lambda value: int(not value),
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
