"""Compiler of the game rules: rule texts to the int32 bytecode that the native core runs.

In: `GameRules`. Out: `CompiledRules`: three flat programs and the reset values of the state slots.
The machine has 32 slots, a stack of 16 values and room for 8192 words a program; values are 32-bit
signed with wrap-around.

Slots: 0 score, 1 reward, 2 terminal, then the other state names in table order, then the local
names of `step`, then those of `mode_setup`; where there is a `mode_setup`, slot 31 is the requested
mode. The local slots of the two programs are apart because `step` runs while `mode_setup` waits for
a frame.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from cule.errors import RulesError
from cule.games.language import parse_rules
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
    RAND = 43  # push a raw draw
    FAIL = 44  # [code]


#: Operations followed by one word.
WITH_OPERAND = frozenset(
    {
        Op.CONST,
        Op.LOAD,
        Op.STORE,
        Op.RAM_AT,
        Op.BCD1_AT,
        Op.JUMP,
        Op.JUMP_IF_ZERO,
        Op.JUMP_IF_ZERO_OR_POP,
        Op.JUMP_IF_NONZERO_OR_POP,
        Op.FAIL,
    }
)
#: The one code of FAIL: the mode cannot be reached.
FAIL_MODE = 1

_BINARY: dict[type[ast.AST], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUB,
    ast.Mult: Op.MUL,
    ast.FloorDiv: Op.FLOORDIV,
    ast.Mod: Op.MOD,
    ast.BitAnd: Op.AND,
    ast.BitOr: Op.OR,
    ast.BitXor: Op.XOR,
    ast.LShift: Op.SHL,
    ast.RShift: Op.SHR,
    ast.Eq: Op.EQ,
    ast.NotEq: Op.NE,
    ast.Lt: Op.LT,
    ast.LtE: Op.LE,
    ast.Gt: Op.GT,
    ast.GtE: Op.GE,
}
_UNARY: dict[type[ast.AST], Op] = {ast.USub: Op.NEG, ast.Invert: Op.INVERT, ast.Not: Op.NOT}


@dataclass(frozen=True)
class CompiledRules:
    """The programs of one game as the native core takes them."""

    state: tuple[int, ...]  # reset values of slots 0, 1, 2, ...
    step_code: tuple[int, ...]  # run after each frame
    lives_code: tuple[int, ...]  # leaves the number of lives on the stack; reads state slots only
    setup_code: tuple[int, ...]  # brings a console to the mode in slot 31; empty: nothing to do


@lru_cache(maxsize=256)
def compile_rules(rules: GameRules) -> CompiledRules:
    """Compile the rules of one game.

    Args:
        rules: Rules of one game.

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

    step = _Assembler(f"{rules.game_id}: step", step_slots)
    step.block(parsed.step.body)
    lives = _Assembler(f"{rules.game_id}: lives", step_slots)
    lives.expression(parsed.lives)
    setup = _Assembler(f"{rules.game_id}: mode_setup", setup_slots)
    setup.block(parsed.setup.body)
    return CompiledRules(
        state=tuple(value for _, value in parsed.state),
        step_code=step.finish(),
        lives_code=lives.finish(),
        setup_code=setup.finish() if parsed.setup.body else (),
    )


class _Assembler:
    """Emits one program and watches the depth of its stack."""

    def __init__(self, where: str, slots: Mapping[str, int]) -> None:
        self._where = where
        self._slots = slots
        self._code: list[int] = []
        self._depth = 0

    def finish(self) -> tuple[int, ...]:
        self._code.append(Op.END)
        if len(self._code) > MAX_WORDS:
            raise RulesError(
                f"{self._where}: {len(self._code)} words when compiled; there is room for "
                f"{MAX_WORDS}"
            )
        return tuple(int(word) for word in self._code)

    def _emit(self, op: Op, operand: int | None = None, *, pops: int = 0, pushes: int = 0) -> None:
        assert (op in WITH_OPERAND) == (operand is not None)
        self._code.append(op)
        if operand is not None:
            self._code.append(operand)
        self._depth += pushes - pops
        if self._depth > MAX_STACK:
            raise RulesError(
                f"{self._where}: an expression needs more than {MAX_STACK} values at once; split it"
            )

    def _jump(self, op: Op, *, pops: int = 0) -> int:
        """Emit a jump with an open target; `_land` closes it."""
        self._emit(op, 0, pops=pops)
        return len(self._code) - 1

    def _land(self, *jumps: int) -> None:
        for jump in jumps:
            self._code[jump] = len(self._code)

    # statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)
            assert self._depth == 0

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self.expression(node.value)
            self._store(node.targets[0])
        elif isinstance(node, ast.AugAssign):
            assert isinstance(node.target, ast.Name)
            self.expression(ast.Name(node.target.id, ast.Load()))
            self.expression(node.value)
            self._emit(_BINARY[type(node.op)], pops=2, pushes=1)
            self._store(node.target)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.While):
            start = len(self._code)
            self.expression(node.test)
            leave = self._jump(Op.JUMP_IF_ZERO, pops=1)
            self.block(node.body)
            self._emit(Op.JUMP, start)
            self._land(leave)
        elif isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Call)
            self._effect(node.value)
        else:
            assert isinstance(node, ast.Pass)

    def _store(self, target: ast.expr) -> None:
        assert isinstance(target, ast.Name)
        self._emit(Op.STORE, self._slots[target.id], pops=1)

    def _if(self, node: ast.If) -> None:
        self.expression(node.test)
        to_else = self._jump(Op.JUMP_IF_ZERO, pops=1)
        self.block(node.body)
        if node.orelse:
            to_end = self._jump(Op.JUMP)
            self._land(to_else)
            self.block(node.orelse)
            self._land(to_end)
        else:
            self._land(to_else)

    def _effect(self, call: ast.Call) -> None:
        assert isinstance(call.func, ast.Name)
        for argument in call.args:
            self.expression(argument)
        if call.func.id == "fail":
            self._emit(Op.FAIL, FAIL_MODE)
        else:
            op = {"select": Op.SELECT, "soft_reset": Op.SOFT_RESET, "act": Op.ACT}[call.func.id]
            self._emit(op, pops=len(call.args))

    # expressions: each leaves one more value on the stack

    def expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            self._emit(Op.CONST, int(node.value), pushes=1)
        elif isinstance(node, ast.Name):
            self._emit(Op.LOAD, self._slots[node.id], pushes=1)
        elif isinstance(node, ast.BinOp):
            self.expression(node.left)
            self.expression(node.right)
            self._emit(_BINARY[type(node.op)], pops=2, pushes=1)
        elif isinstance(node, ast.UnaryOp):
            self.expression(node.operand)
            if not isinstance(node.op, ast.UAdd):
                self._emit(_UNARY[type(node.op)], pops=1, pushes=1)
        elif isinstance(node, ast.BoolOp):
            self._chain(isinstance(node.op, ast.Or), [self._later(v) for v in node.values])
        elif isinstance(node, ast.Compare):
            lefts = [node.left, *node.comparators]
            pairs = zip(lefts, node.ops, node.comparators, strict=False)
            self._chain(False, [self._comparison(*pair) for pair in pairs])
        elif isinstance(node, ast.IfExp):
            self._if_expression(node)
        else:
            assert isinstance(node, ast.Call)
            self._call(node)

    def _later(self, node: ast.expr) -> Callable[[], None]:
        return lambda: self.expression(node)

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Callable[[], None]:
        def emit() -> None:
            self.expression(left)
            self.expression(right)
            self._emit(_BINARY[type(op)], pops=2, pushes=1)

        return emit

    def _chain(self, stops_at: bool, operands: list[Callable[[], None]]) -> None:
        """Emit operands joined by `or` (stops at the first true one) or by `and`."""
        op = Op.JUMP_IF_NONZERO_OR_POP if stops_at else Op.JUMP_IF_ZERO_OR_POP
        exits = []
        for emit_operand in operands[:-1]:
            emit_operand()
            exits.append(self._jump(op, pops=1))
        operands[-1]()
        self._land(*exits)

    def _if_expression(self, node: ast.IfExp) -> None:
        self.expression(node.test)
        to_else = self._jump(Op.JUMP_IF_ZERO, pops=1)
        self.expression(node.body)
        to_end = self._jump(Op.JUMP)
        self._depth -= 1  # on the way to else, the value of body was not pushed
        self._land(to_else)
        self.expression(node.orelse)
        self._land(to_end)

    def _call(self, node: ast.Call) -> None:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "rand":
            self._emit(Op.RAND, pushes=1)
        elif name == "ram":
            self._read(Op.RAM, Op.RAM_AT, node.args[0])
        elif name == "cartram":
            self.expression(node.args[0])
            self._emit(Op.CARTRAM, pops=1, pushes=1)
        else:
            for power, argument in enumerate(node.args):
                self._read(Op.BCD1, Op.BCD1_AT, argument)
                if power:
                    self._emit(Op.CONST, 100**power, pushes=1)
                    self._emit(Op.MUL, pops=2, pushes=1)
                    self._emit(Op.ADD, pops=2, pushes=1)

    def _read(self, op: Op, op_at: Op, index: ast.expr) -> None:
        if isinstance(index, ast.Constant):
            assert isinstance(index.value, int)
            self._emit(op_at, index.value & _RAM_MASK, pushes=1)
        else:
            self.expression(index)
            self._emit(op, pops=1, pushes=1)
