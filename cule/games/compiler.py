"""Compiler of the game rules: rule texts to the int32 bytecode that the native core runs.

In: `GameRules`. Out: `CompiledRules`: three flat programs and the reset values of the state slots.
The machine has 32 slots, a stack of 16 values and room for 8192 words a program; values are 32-bit
signed with wrap-around.

Slots: 0 score, 1 reward, 2 terminal, then the rewards of further players, then the other state
names in table order, then the local names of `step`, then those of `mode_setup`; with a
`mode_setup`, slot 31 is the requested mode. The two programs have separate local slots because
`step` runs while `mode_setup` waits for a frame.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from cule.errors import RulesError
from cule.games.language import BINARY, COMPARE, parse_rules
from cule.games.schema import GameRules

NUM_SLOTS = 32
MODE_SLOT = 31
MAX_STACK = 16
MAX_WORDS = 8192
_RAM_MASK = 127


class Op(IntEnum):
    """Operations; binary ones pop right, then left. [Words] that follow are in brackets."""

    END = 0
    CONST = 1  # [value] push
    LOAD = 2  # [slot] push
    STORE = 3  # [slot] pop
    RAM = 4  # pop index, push the byte
    CARTRAM = 5  # pop index, push the byte
    RAM_AT = 6  # [index] push the byte
    BCD1_AT = 7  # [index] push the two decimal digits
    BCD1 = 8  # pop index, push the two decimal digits
    ADD = 10
    SUB = 11
    MUL = 12
    FLOORDIV = 13
    MOD = 14
    AND = 15
    OR = 16
    XOR = 17
    SHL = 18
    SHR = 19
    NEG = 20
    INVERT = 21
    NOT = 22
    EQ = 23
    NE = 24
    LT = 25
    LE = 26
    GT = 27
    GE = 28
    JUMP = 30  # [target]
    JUMP_IF_ZERO = 31  # [target] pop
    JUMP_IF_ZERO_OR_POP = 32  # [target] zero: jump and keep, else pop
    JUMP_IF_NONZERO_OR_POP = 33  # [target] not zero: jump and keep, else pop
    SELECT = 40  # pop frames
    SOFT_RESET = 41
    ACT = 42  # pop action
    RAND = 43  # push a raw 32-bit random number
    FAIL = 44  # [code]
    EMIT = 45  # [column] pop
    TABLE = 46  # [n, n values] pop index, push the value there, clipped to the ends
    POKE = 47  # pop value, pop index, write the lowest byte to RAM
    RAND_BELOW = 48  # pop n, push a random number from 0 to n - 1
    ROW = 49  # [number, three words of two columns, the first in the low half] write a row


#: Added to a binary operation: [right operand]
WITH_CONSTANT = 64
#: Added to a binary operation: [index of the byte that is its left operand, right operand] push
WITH_CELL = 128

#: The one code of FAIL: the mode cannot be reached.
FAIL_MODE = 1

_COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE})
_UNARY: dict[type[ast.AST], Op] = {ast.USub: Op.NEG, ast.Invert: Op.INVERT, ast.Not: Op.NOT}


@dataclass(frozen=True)
class CompiledRules:
    """The programs of one game as the native core takes them."""

    state: tuple[int, ...]  # reset values of slots 0, 1, 2, ...
    step_code: tuple[int, ...]  # run after each frame
    lives_code: tuple[int, ...]  # leaves the number of lives on the stack; reads state slots only;
    # for several players one program after the other
    lives_at: tuple[int, ...]  # where in lives_code the program of each player begins
    setup_code: tuple[int, ...]  # brings a console to the mode in slot 31; empty: nothing to do
    kept_slots: tuple[int, ...]  # of state that a reset leaves as it is


@lru_cache(maxsize=256)
def compile_rules(rules: GameRules) -> CompiledRules:
    """Compile the rules of one game.

    Raises:
        RulesError: A program is outside the rule language, or needs more names, words or a
            deeper stack than the machine has.
    """
    parsed = parse_rules(rules.game_id, rules.state, rules.step, rules.lives, rules.mode_setup)
    state_names = [name for name, _ in parsed.state]
    step_names = [*state_names, *parsed.step.local_names]
    step_slots = {name: slot for slot, name in enumerate(step_names)}
    setup_slots = {name: slot for slot, name in enumerate(state_names)}
    for slot, name in enumerate(parsed.setup.local_names, start=len(step_names)):
        setup_slots[name] = slot
    used = len(step_names) + len(parsed.setup.local_names)
    free = MODE_SLOT if parsed.setup.body else NUM_SLOTS
    if used > free:
        raise RulesError(
            f"{rules.game_id}: {used} names in state, step and mode_setup; there is room for {free}"
        )
    setup_slots["mode"] = MODE_SLOT

    step = CodeWriter(f"{rules.game_id}: step", step_slots)
    step.block(parsed.step.body)
    lives_code: list[int] = []
    lives_at = []
    for expression in parsed.lives:
        lives = CodeWriter(f"{rules.game_id}: lives", step_slots)
        lives.expression(expression)
        lives_at.append(len(lives_code))
        lives_code += lives.finish()
    setup = CodeWriter(f"{rules.game_id}: mode_setup", setup_slots)
    setup.block(parsed.setup.body)
    return CompiledRules(
        state=tuple(value for _, value in parsed.state),
        step_code=step.finish(),
        lives_code=tuple(lives_code),
        lives_at=tuple(lives_at),
        setup_code=setup.finish() if parsed.setup.body else (),
        kept_slots=tuple(step_slots[name] for name in rules.kept),
    )


class CodeWriter:
    """Emits one program and watches the depth of its stack."""

    def __init__(self, where: str, slots: Mapping[str, int], *, combines: bool = False) -> None:
        """Begin a program.

        Args:
            where: What errors begin with.
            slots: The slot of each name.
            combines: Whether to use `WITH_CONSTANT`, `WITH_CELL` and jumps out of the middle of a
                condition. Programs of rules do not: a snapshot fits the game whose programs have
                the same words (csrc/host/game.hpp, make_key).
        """
        self._where = where
        self._slots = slots
        self._combines = combines
        self._code: list[int] = []
        self._depth = 0

    def finish(self) -> tuple[int, ...]:
        """End the program, and return its words."""
        self.emit(Op.END)
        return tuple(int(word) for word in self._code)

    def emit(self, op: int, *operands: int, pops: int = 0, pushes: int = 0) -> None:
        """Emit an operation."""
        self._code += (op, *operands)
        if len(self._code) > MAX_WORDS:  # at once: chained comparisons can double at each level
            raise RulesError(
                f"{self._where}: more than {MAX_WORDS} words when compiled, for which there is "
                "no room"
            )
        self._depth += pushes - pops
        if self._depth > MAX_STACK:
            raise RulesError(
                f"{self._where}: an expression needs more than {MAX_STACK} values at once; split it"
            )

    def jump(self, op: Op, *, pops: int = 0) -> int:
        """Emit a jump with an open target, which `land` closes; return what that takes."""
        self.emit(op, 0, pops=pops)
        return len(self._code) - 1

    def land(self, *jumps: int) -> None:
        """Let open jumps lead to here."""
        for jump in jumps:
            self._code[jump] = len(self._code)

    def assign(self, name: str, value: ast.expr) -> None:
        """Emit an assignment."""
        self.expression(value)
        self.emit(Op.STORE, self._slots[name], pops=1)

    def unless(self, test: ast.expr) -> list[int]:
        """Emit jumps that are taken if an expression is 0; return what `land` takes."""
        match test:
            case ast.BoolOp(op=ast.And(), values=operands) if self._combines:
                return [jump for operand in operands for jump in self.unless(operand)]
            case ast.Constant(value=value) if self._combines and value:
                return []
        self.expression(test)
        return [self.jump(Op.JUMP_IF_ZERO, pops=1)]

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Emit statements."""
        for statement in body:
            self._statement(statement)
            assert self._depth == 0

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                self.assign(name, node.value)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.assign(name, ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value))
            case ast.If():
                to_else = self.unless(node.test)
                self.block(node.body)
                to_end = [self.jump(Op.JUMP)] if node.orelse else []
                self.land(*to_else)
                self.block(node.orelse)
                self.land(*to_end)
            case ast.While():
                start = len(self._code)
                leave = self.unless(node.test)
                self.block(node.body)
                self.emit(Op.JUMP, start)
                self.land(*leave)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)):
                for argument in arguments:
                    self.expression(argument)
                operands = [FAIL_MODE] if name == "fail" else []
                self.emit(Op[name.upper()], *operands, pops=len(arguments))
            case _:
                assert isinstance(node, ast.Pass)

    def expression(self, node: ast.expr) -> None:
        """Emit code that leaves one more value on the stack."""
        match node:
            case ast.Constant(value=value):
                assert isinstance(value, int)
                self.emit(Op.CONST, int(value), pushes=1)
            case ast.Name(id=name):
                self.emit(Op.LOAD, self._slots[name], pushes=1)
            case ast.BinOp():
                self._binary(node.left, node.right, Op[BINARY[type(node.op)]])
            case ast.Compare(ops=[op], comparators=[right]):
                self._binary(node.left, right, Op[COMPARE[type(op)]])
            case ast.Compare():  # a < b < c is a < b and b < c
                lefts = [node.left, *node.comparators]
                parts = zip(lefts, node.ops, node.comparators, strict=False)
                pairs: list[ast.expr] = [ast.Compare(a, [op], [b]) for a, op, b in parts]
                self.expression(ast.BoolOp(ast.And(), pairs))
            case ast.UnaryOp():
                self.expression(node.operand)
                if not isinstance(node.op, ast.UAdd):
                    self.emit(_UNARY[type(node.op)], pops=1, pushes=1)
            case ast.BoolOp():
                is_or = isinstance(node.op, ast.Or)
                op_code = Op.JUMP_IF_NONZERO_OR_POP if is_or else Op.JUMP_IF_ZERO_OR_POP
                exits = []
                for operand in node.values[:-1]:
                    self.expression(operand)
                    exits.append(self.jump(op_code, pops=1))
                self.expression(node.values[-1])
                self.land(*exits)
            case ast.IfExp():
                to_else = self.unless(node.test)
                self.expression(node.body)
                to_end = self.jump(Op.JUMP)
                self._depth -= 1  # on the path to else, the value of body was not pushed
                self.land(*to_else)
                self.expression(node.orelse)
                self.land(to_end)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                self._call(name, arguments)
            case _:
                raise AssertionError(node)

    def _binary(self, left: ast.expr, right: ast.expr, op: Op) -> None:
        if self._combines and isinstance(left, ast.Constant) and op in _COMMUTATIVE:
            left, right = right, left
        match left, right:
            case (
                ast.Call(func=ast.Name(id="ram"), args=[ast.Constant(value=int(cell))]),
                ast.Constant(value=int(value)),
            ) if self._combines:
                self.emit(op + WITH_CELL, cell & _RAM_MASK, value, pushes=1)
            case _, ast.Constant(value=int(value)) if self._combines:
                self.expression(left)
                self.emit(op + WITH_CONSTANT, value, pops=1, pushes=1)
            case _:
                self.expression(left)
                self.expression(right)
                self.emit(op, pops=2, pushes=1)

    def _call(self, name: str, arguments: Sequence[ast.expr]) -> None:
        if name == "rand" and arguments:
            self.expression(arguments[0])
            self.emit(Op.RAND_BELOW, pops=1, pushes=1)
        elif name == "rand":
            self.emit(Op.RAND, pushes=1)
        elif name == "table":
            self.expression(arguments[0])
            values = [ast.literal_eval(entry) for entry in vars(arguments[1])["elts"]]
            self.emit(Op.TABLE, len(values), *values)
        elif name == "ram":
            self._read(Op.RAM, Op.RAM_AT, arguments[0])
        elif name == "cartram":
            self._read(Op.CARTRAM, None, arguments[0])
        else:
            for power, argument in enumerate(arguments):
                self._read(Op.BCD1, Op.BCD1_AT, argument)
                if power:
                    self.emit(Op.CONST, 100**power, pushes=1)
                    self.emit(Op.MUL, pops=2, pushes=1)
                    self.emit(Op.ADD, pops=2, pushes=1)

    def _read(self, op: Op, op_at: Op | None, index: ast.expr) -> None:
        if op_at is not None and isinstance(index, ast.Constant):
            assert isinstance(index.value, int)
            self.emit(op_at, index.value & _RAM_MASK, pushes=1)
        else:
            self.expression(index)
            self.emit(op, pops=1, pushes=1)
