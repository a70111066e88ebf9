"""Game rules: the compiled programs against the plain evaluator, and errors of the language."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from cule import _core
from cule.errors import CuleError, RulesError
from cule.games.compiler import (
    MAX_STACK,
    MODE_SLOT,
    NUM_SLOTS,
    CompiledRules,
    Op,
    compile_rules,
)
from cule.games.schema import GameRules, load_games
from cule.games.tables import parse_toml
from tests.support.cases import long_except
from tests.support.made_up_rules import rules_of
from tests.support.programs import core_game, image_of, native_console
from tests.support.rule_evaluator import RuleEvaluator, wrap32

GAMES = sorted(load_games())
IMAGES_PER_GAME = 200
JUMPS = {Op.JUMP, Op.JUMP_IF_ZERO, Op.JUMP_IF_ZERO_OR_POP, Op.JUMP_IF_NONZERO_OR_POP}
#: Operations of rules that are followed by one word.
WITH_OPERAND = {Op.CONST, Op.LOAD, Op.STORE, Op.RAM_AT, Op.BCD1_AT, Op.FAIL, *JUMPS}


class Failed(Exception):
    """The program gave up."""


@dataclass
class ScriptedConsole:
    """A console that records its inputs, and whose RAM is a function of them."""

    seed: int
    likely: Sequence[int]  # byte values that half of the cells take
    on_frame: object = None
    ram: bytes = bytes(128)
    cart_ram: bytes = bytes(128)
    log: list[tuple[object, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._change()

    def _change(self) -> None:
        draw = self._random
        cells = [
            draw.choice(self.likely) if draw.random() < 0.5 else draw.randrange(256)
            for _ in range(256)
        ]
        self.ram, self.cart_ram = bytes(cells[:128]), bytes(cells[128:])

    def _effect(self, *what: object) -> None:
        assert len(self.log) < 20_000, "the mode is never reached"
        self.log.append(what)
        self._change()
        self.on_frame(self.ram, self.cart_ram)

    def select(self, frames: int) -> None:
        self._effect("select", frames)

    def soft_reset(self) -> None:
        self._effect("soft_reset")

    def act(self, action: int) -> None:
        self._effect("act", action)

    def rand(self) -> int:
        value = self._random.getrandbits(32)
        self.log.append(("rand", value))
        return value


def run(
    code: Sequence[int],
    slots: list[int],
    ram: bytes,
    cart_ram: bytes,
    console: ScriptedConsole | None = None,
) -> int | None:
    """Run a program on `slots`, in place; return what it leaves on the stack."""
    stack: list[int] = []
    at = 0

    def bcd1(index: int) -> int:
        byte = (console.ram if console else ram)[index & 127]
        return 10 * (byte >> 4) + (byte & 15)

    binary = {
        Op.ADD: lambda a, b: a + b,
        Op.SUB: lambda a, b: a - b,
        Op.MUL: lambda a, b: a * b,
        Op.FLOORDIV: lambda a, b: a // b if b else 0,
        Op.MOD: lambda a, b: a % b if b else 0,
        Op.AND: lambda a, b: a & b,
        Op.OR: lambda a, b: a | b,
        Op.XOR: lambda a, b: a ^ b,
        Op.SHL: lambda a, b: a << b,
        Op.SHR: lambda a, b: a >> b,
        Op.EQ: lambda a, b: a == b,
        Op.NE: lambda a, b: a != b,
        Op.LT: lambda a, b: a < b,
        Op.LE: lambda a, b: a <= b,
        Op.GT: lambda a, b: a > b,
        Op.GE: lambda a, b: a >= b,
    }
    unary = {Op.NEG: lambda a: -a, Op.INVERT: lambda a: ~a, Op.NOT: lambda a: not a}
    while True:
        op = Op(code[at])
        operand = code[at + 1] if op in WITH_OPERAND else None
        at += 1 if operand is None else 2
        if op is Op.END:
            assert len(stack) <= 1
            return stack.pop() if stack else None
        if op is Op.CONST:
            stack.append(operand)
        elif op is Op.LOAD:
            stack.append(slots[operand])
        elif op is Op.STORE:
            slots[operand] = stack.pop()
        elif op is Op.RAM_AT:
            stack.append((console.ram if console else ram)[operand])
        elif op is Op.RAM:
            stack.append((console.ram if console else ram)[stack.pop() & 127])
        elif op is Op.CARTRAM:
            stack.append((console.cart_ram if console else cart_ram)[stack.pop() & 127])
        elif op in (Op.BCD1, Op.BCD1_AT):
            stack.append(bcd1(stack.pop() if operand is None else operand))
        elif op in binary:
            right, left = stack.pop(), stack.pop()
            stack.append(wrap32(int(binary[op](left, right))))
        elif op in unary:
            stack.append(wrap32(int(unary[op](stack.pop()))))
        elif op is Op.JUMP:
            at = operand
        elif op is Op.JUMP_IF_ZERO:
            at = at if stack.pop() else operand
        elif op in (Op.JUMP_IF_ZERO_OR_POP, Op.JUMP_IF_NONZERO_OR_POP):
            if bool(stack[-1]) == (op is Op.JUMP_IF_NONZERO_OR_POP):
                at = operand
            else:
                stack.pop()
        elif op is Op.SELECT:
            console.select(stack.pop())
        elif op is Op.ACT:
            console.act(stack.pop())
        elif op is Op.SOFT_RESET:
            console.soft_reset()
        elif op is Op.RAND:
            stack.append(wrap32(console.rand()))
        else:
            assert op is Op.FAIL
            raise Failed
        assert len(stack) <= MAX_STACK


def initial_slots(compiled: CompiledRules) -> list[int]:
    """The state, and garbage in the slots of local names, which are set before they are read."""
    garbage = [-987654321] * (NUM_SLOTS - len(compiled.state))
    return [*compiled.state, *garbage]


def ram_images(rules: GameRules, count: int) -> list[tuple[bytes, bytes]]:
    """RAM and cartridge RAM with the values that a program compares with."""
    draw = random.Random(rules.game_id)
    numbers = [int(n, 0) for n in re.findall(r"\b0x[0-9A-Fa-f]+|\b[1-9]\d*\b|\b0\b", rules.step)]
    cells = sorted({n & 127 for n in numbers})
    values = sorted({(n + d) & 255 for n in numbers for d in (-1, 0, 1)} | {0, 1, 0x99, 0xFF})
    images = []
    memory = [draw.randrange(256) for _ in range(256)]
    for _ in range(count):
        if draw.random() < 0.1:
            memory = [draw.randrange(256) for _ in range(256)]
        if draw.random() < 0.1:
            memory = [draw.choice(values)] * 256
        for _ in range(draw.randrange(12)):
            at = draw.choice(cells) + draw.choice((0, 0, 0, 128))
            memory[at] = draw.choice(
                (draw.choice(values), draw.randrange(256), memory[at] + 1 & 255)
            )
        images.append((bytes(memory[:128]), bytes(memory[128:])))
    return images


def instructions(code: Sequence[int]) -> dict[int, tuple[Op, int | None]]:
    """The operations of a program, by address."""
    found = {}
    at = 0
    while at < len(code):
        op = Op(code[at])
        found[at] = (op, code[at + 1] if op in WITH_OPERAND else None)
        at += 2 if op in WITH_OPERAND else 1
    return found


@pytest.mark.parametrize("game", GAMES)
def test_programs_are_well_formed(game: str) -> None:
    compiled = compile_rules(load_games()[game])
    effects = {Op.SELECT, Op.SOFT_RESET, Op.ACT, Op.RAND, Op.FAIL}
    for name in ("step_code", "lives_code", "setup_code"):
        code = getattr(compiled, name)
        found = instructions(code)
        assert all(-(2**31) <= word < 2**31 for word in code)
        for op, operand in found.values():
            assert op not in JUMPS or operand in found
            assert op not in (Op.LOAD, Op.STORE) or operand in range(NUM_SLOTS)
            assert op not in (Op.RAM_AT, Op.BCD1_AT) or operand in range(128)
            assert op not in effects or name == "setup_code"
            assert (op, operand) != (Op.STORE, MODE_SLOT) or name != "setup_code"
        if code:
            assert list(found.values())[-1] == (Op.END, None)
    reads = {op for op, _ in instructions(compiled.lives_code).values()}
    assert not reads & {Op.RAM, Op.CARTRAM, Op.RAM_AT, Op.BCD1, Op.BCD1_AT, Op.STORE}


@pytest.mark.parametrize("game", long_except(GAMES, every=6))
def test_compiled_step_and_lives_equal_the_evaluator(game: str) -> None:
    rules = load_games()[game]
    compiled = compile_rules(rules)
    evaluator = RuleEvaluator(rules)
    slots = initial_slots(compiled)
    for ram, cart_ram in ram_images(rules, IMAGES_PER_GAME):
        evaluator.step(ram, cart_ram)
        run(compiled.step_code, slots, ram, cart_ram)
        state = list(evaluator.state.values())
        assert slots[: len(state)] == state
        assert run(compiled.lives_code, slots, ram, cart_ram) == evaluator.lives
        assert (slots[1], bool(slots[2])) == (evaluator.reward, evaluator.terminal)
        slots[len(state) :] = [-987654321] * (NUM_SLOTS - len(state))


@pytest.mark.parametrize("game", GAMES)
def test_native_machine_equals_the_evaluator(game: str) -> None:
    from cule import _core

    rules = load_games()[game]
    compiled = compile_rules(rules)
    evaluator = RuleEvaluator(rules)
    slots = initial_slots(compiled)
    for ram, cart_ram in ram_images(rules, IMAGES_PER_GAME):
        evaluator.step(ram, cart_ram)
        _, slots = _core.run_program(compiled.step_code, slots, ram, cart_ram)
        state = list(evaluator.state.values())
        assert slots[: len(state)] == state
        lives, _ = _core.run_program(compiled.lives_code, slots, ram, cart_ram)
        assert lives == evaluator.lives


@pytest.mark.parametrize(
    "game", long_except([g for g in GAMES if load_games()[g].mode_setup], every=4)
)
def test_compiled_mode_setup_equals_the_evaluator(game: str) -> None:
    rules = load_games()[game]
    compiled = compile_rules(rules)
    for mode in rules.modes[:: max(1, len(rules.modes) // 8)]:
        likely = [v & 255 for v in (mode, mode + 1, 2 * mode, 2 * mode + 1, 3 * mode + 1)]
        likely += [0, 1, 2, 3, 8, mode + 6 & 255, mode // 10 * 16 + mode % 10 & 255]

        expected = ScriptedConsole(mode, likely)
        evaluator = RuleEvaluator(rules)
        expected.on_frame = evaluator.step
        failed = False
        try:
            evaluator.run_setup(expected, mode)
        except RulesError as error:
            assert "cannot be reached" in str(error)  # noqa: PT017
            failed = True

        console = ScriptedConsole(mode, likely)
        slots = initial_slots(compiled)
        slots[MODE_SLOT] = mode

        def frame(ram: bytes, cart_ram: bytes, slots: list[int] = slots) -> None:
            run(compiled.step_code, slots, ram, cart_ram)

        console.on_frame = frame
        try:
            run(compiled.setup_code, slots, b"", b"", console)
            assert not failed
        except Failed:
            assert failed
        assert console.log == expected.log
        assert slots[: len(compiled.state)] == list(evaluator.state.values())
        assert console.log, "every mode setup does something"


def random_expression(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.1:
        names = ("score", "reward", "x", "ram(3)", "ram(-x)", "bcd2(1, x)", "bcd3(1, 2, 3)")
        numbers = ("0", "1", "7", "65536", "2147483647", "-2147483647", "True")
        return draw.choice((*names, *numbers, "cartram(score)"))
    a, b, c = (random_expression(draw, depth - 1) for _ in range(3))
    operator = draw.choice(("+", "-", "*", "//", "%", "&", "|", "^", "==", "!=", "<", "<=", ">="))
    return draw.choice(
        (
            f"({a} {operator} {b})",
            f"({a} {operator} {b})",
            f"({a} >> {draw.randrange(32)})",
            f"({a} << {draw.randrange(32)})",
            f"({a} and {b} and {c})",
            f"({a} or {b} or {c})",
            f"({a} if {b} else {c})",
            f"({a} < {b} <= {c})",
            f"(not {a})",
            f"(-{a})",
            f"(~{a})",
            f"(+{a})",
        )
    )


@pytest.mark.parametrize("seed", long_except(range(20), every=2))
def test_random_programs_equal_the_evaluator(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(25):
        first, second, third = (random_expression(draw, 4) for _ in range(3))
        step = (
            f"x = ram(5)\nif {first}:\n    x {draw.choice('+-*&|^')}= {second}\nelse:\n    pass\n"
        )
        step += f"reward = {second}\nscore = score + {third}\nterminal = x"
        rules = rules_of(step, f"reward if terminal else {draw.choice((1, -3))} - ram(9)")
        compiled = compile_rules(rules)
        evaluator = RuleEvaluator(rules)
        slots = initial_slots(compiled)
        for _ in range(4):
            ram, cart_ram = draw.randbytes(128), draw.randbytes(128)
            evaluator.step(ram, cart_ram)
            run(compiled.step_code, slots, ram, cart_ram)
            state = list(evaluator.state.values())
            assert slots[: len(state)] == state, step
            assert run(compiled.lives_code, slots, ram, cart_ram) == evaluator.lives


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2147483647 + 1", -(2**31)),
        ("-2147483647 - 2", 2**31 - 1),
        ("65536 * 65536", 0),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("5 // 0", 0),
        ("5 % 0", 0),
        ("(-2147483647 - 1) // -1", -(2**31)),
        ("1 << 31", -(2**31)),
        ("-8 >> 1", -4),
        ("0 or 5", 5),
        ("3 and 5", 5),
        ("3 and 0 and 5", 0),
        ("not 7", 0),
        ("1 < 3 < 2", 0),
        ("True + True", 2),
        ("ram(0x83)", 0x12),
        ("bcd1(3)", 12),
        ("bcd2(3, 4)", 3512),
        ("bcd3(3, 4, 5)", 10 * 15 * 10000 + 15 * 10000 + 3512),
    ],
)
def test_values(expression: str, value: int) -> None:
    rules = rules_of(f"reward = {expression}")
    ram = bytes([0, 0, 0, 0x12, 0x35, 0xFF]) + bytes(122)
    evaluator = RuleEvaluator(rules)
    evaluator.step(ram)
    compiled = compile_rules(rules)
    slots = initial_slots(compiled)
    run(compiled.step_code, slots, ram, b"")
    assert (evaluator.reward, slots[1]) == (value, value)


def test_what_a_step_does_not_assign_stays() -> None:
    evaluator = RuleEvaluator(rules_of("if ram(0):\n    reward = 5\n    kept += 1", kept=3))
    evaluator.step(bytes([1]) * 128)
    evaluator.step(bytes(128))
    assert evaluator.state == {"score": 0, "reward": 5, "terminal": 0, "kept": 4}
    evaluator.reset()
    assert evaluator.state == {"score": 0, "reward": 0, "terminal": 0, "kept": 3}


def test_lives_that_read_memory_are_those_of_the_last_step() -> None:
    evaluator = RuleEvaluator(rules_of(lives="ram(2) & 7"))
    assert evaluator.lives == 0
    evaluator.step(bytes([0, 0, 0xFB]) + bytes(125))
    assert evaluator.lives == 3


@pytest.mark.parametrize(
    ("program", "text", "message"),
    [
        ("step", "x = 1\nfor i in x:\n    pass", "step, line 2: For (for i in x:) is outside"),
        ("step", "import os", "step, line 1: Import (import os) is outside"),
        ("step", "reward = (", "step, line 1:"),
        ("step", "reward = 1.5", "step, line 1: constant 1.5 is not an integer"),
        ("step", "reward = 'a'", "constant 'a' is not an integer"),
        ("step", "reward = 2147483648", "constant 2147483648 does not fit 32 bits"),
        ("step", "reward = 1 / 2", "operator Div (1 / 2) is outside"),
        ("step", "reward = 2 ** 3", "operator Pow (2 ** 3) is outside"),
        ("step", "reward = 1 << score", "a shift is by a constant 0..31"),
        ("step", "reward = 1 << 32", "a shift is by a constant 0..31"),
        ("step", "score <<= reward", "a shift is by a constant 0..31"),
        ("step", "reward = 1 is 1", "comparison Is (1 is 1) is outside"),
        ("step", "reward = [1][0]", "Subscript ([1][0]) is outside"),
        ("step", "reward = (lambda: 1)()", "is outside"),
        ("step", "reward = ram.x", "Attribute (ram.x) is outside"),
        ("step", "reward = rom(1)", "unknown call 'rom'"),
        ("step", "reward = ram(1, 2)", "ram(1, 2): needs 1 plain argument"),
        ("step", "reward = ram(i=1)", "ram(i=1): needs 1 plain argument"),
        ("step", "reward = ram(*score)", "ram(*score): needs 1 plain argument"),
        ("step", "reward = x", "step, line 1: unknown name 'x'"),
        ("step", "if score:\n    x = 1\nreward = x", "line 3: name 'x' is not set on every way"),
        ("step", "x += 1", "unknown name 'x'"),
        ("step", "ram = 1", "'ram' has a meaning of its own"),
        ("step", "a = b = 1", "only one plain name can be assigned"),
        ("step", "a, b = 1, 2", "only one plain name can be assigned"),
        ("step", "reward: int = 1", "AnnAssign (reward: int = 1) is outside"),
        ("step", "while score:\n    score = 0", "while is only allowed in mode_setup"),
        ("step", "select(1)", "select is only allowed in mode_setup"),
        ("step", "reward = rand()", "rand is only allowed in mode_setup"),
        ("step", "reward = mode", "unknown name 'mode'"),
        ("step", "print(1)", "print(1) is no statement of the rule language"),
        ("step", "score", "Expr (score) is outside"),
        ("step", "reward = " + "-" * 200 + "1", "nested more than 150 deep"),
        ("step", "reward = " + "(" * 5000 + "1" + ")" * 5000, "made_up: step"),
        ("step", "reward = 1\0", "made_up: step"),
        ("step", "pass\n" * 30_000, "longer than 100000 characters"),
        ("lives", "x", "lives, line 1: unknown name 'x'"),
        ("lives", "lives = 1", "lives, line 1:"),
        ("lives", "", "made_up: lives"),
        ("setup", "mode = 1", "'mode' has a meaning of its own"),
        ("setup", "while mode:\n    pass\nelse:\n    pass", "while has no else here"),
        ("setup", "while mode:\n    x = 1\nscore = x", "name 'x' is not set on every way"),
        ("setup", "score = act(1)", "act is a statement and has no value"),
        ("setup", "rand()", "rand() is no statement"),
        ("setup", "select()", "select(): needs 1 plain argument"),
        ("setup", "soft_reset(1)", "soft_reset(1): needs 0 plain arguments"),
        ("setup", "score = 1 < rand() < 3", "rand() in the middle of a chained comparison"),
        ("setup", "break", "Break (break) is outside"),
    ],
)
def test_outside_the_language(program: str, text: str, message: str) -> None:
    rules = rules_of(**{program: text})
    for reader in (compile_rules, RuleEvaluator):
        with pytest.raises(RulesError) as caught:
            reader(rules)
        assert isinstance(caught.value, CuleError)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith("made_up: ")
        assert message in str(caught.value)


@pytest.mark.parametrize("name", ["ram", "mode", "not a name", "1x", "", "if", "a.b"])
def test_state_names(name: str) -> None:
    with pytest.raises(RulesError, match="made_up: state name"):
        compile_rules(rules_of(**{name: 0}))


def test_the_machine_has_limits() -> None:
    many = "\n".join(f"x{i} = 1" for i in range(29))
    compile_rules(rules_of(many))
    with pytest.raises(RulesError, match=r"32 names in state, step and mode_setup.* room for 31"):
        compile_rules(rules_of(many, setup="soft_reset()"))
    with pytest.raises(RulesError, match="33 names"):
        compile_rules(rules_of(many + "\nx = 1"))
    with pytest.raises(RulesError, match="step: more than 8192 words when compiled"):
        compile_rules(rules_of("score = 0\n" * 2048))
    compile_rules(rules_of("score = 0\n" * 2047))
    deep = "1 + (" * 15 + "1" + ")" * 15
    compile_rules(rules_of(f"reward = {deep}"))
    with pytest.raises(RulesError, match="step: an expression needs more than 16 values"):
        compile_rules(rules_of(f"reward = 1 + ({deep})"))


def test_endless_and_failing_mode_setup() -> None:
    console = ScriptedConsole(0, [0], on_frame=lambda ram, cart_ram: None)
    with pytest.raises(RulesError, match="made_up: mode_setup for mode 7 does not end"):
        RuleEvaluator(rules_of(setup="while 1:\n    pass")).run_setup(console, 7)
    with pytest.raises(RulesError, match="made_up: mode 7 cannot be reached"):
        RuleEvaluator(rules_of(setup="fail()")).run_setup(console, 7)


#: Frames of SELECT whose sum has 32 bits or more, and a negative number of them.
SELECTS = ["select(2147483647)\nselect(2147483647)", "while 1:\n    select(-2147483647)"]


@pytest.mark.parametrize("setup", [*SELECTS, "while 1:\n    select(2)", "fail()"])
def test_a_console_ends_such_a_mode_setup(setup: str) -> None:
    code = compile_rules(rules_of(setup=setup)).setup_code
    frames = "start: LDA #2\nSTA VSYNC\nSTA WSYNC\nSTA WSYNC\nLDA #0\nSTA VSYNC\nJMP start"
    game = core_game(image_of(frames), setup_code=list(code))
    with pytest.raises(_core.ModeUnreachableError, match="did not reach mode 0"):
        native_console(game)


def test_chained_comparisons_in_each_other_are_refused() -> None:
    text = "1"
    for _ in range(13):
        text = f"(0 < {text} < 2)"
    with pytest.raises(RulesError, match="more than 8192 words"):
        compile_rules(rules_of(f"x = {text}"))


def test_keys_with_many_dots_are_refused() -> None:
    with pytest.raises(RulesError, match="dots"):
        parse_toml("made_up", b"a" + b".a" * 50_000 + b" = 1")


#: Texts and comments before something else; each has a quote or mark that could hide it.
TEXTS_BEFORE_A_KEY = [
    *(f"{q * 3}{text}{q * n}, " for q in "\"'" for n in (3, 4, 5) for text in ("", "a", "\n#")),
    *(f"{q}{q}, " for q in "\"'"),
    *(f'"{text}", ' for text in (r"\"", r"\\", r"\\\"", "#", "'", "'''")),
    *(f'"""{text}""", ' for text in (r"\"", r"\\", r"""\"\\""", "\\\n", "'''", '" "" ')),
    *(f"'{text}', " for text in ("\\", "#", '"', '"""')),
    *(f"'''{text}''', " for text in ("\\", '"""', "' '' ")),
    *(f"# {text}\n" for text in ('"', "'", '"""', "'''", "\\")),
]


@pytest.mark.parametrize("text", TEXTS_BEFORE_A_KEY)
def test_texts_hide_no_dots(text: str) -> None:
    document = "[a]\nb = [" + text + "{ %s = 1 }]"
    assert "b" in parse_toml("made_up", (document % "c.c").encode())["a"]
    with pytest.raises(RulesError, match="more than 16 dots outside texts"):
        parse_toml("made_up", (document % ".".join(["c"] * 20)).encode())


@pytest.mark.parametrize("text", [text for text in TEXTS_BEFORE_A_KEY if "a" in text])
def test_dots_of_texts_are_not_counted(text: str) -> None:
    document = "[a]\nb = [" + text.replace("a", 20 * ".a") + "]"
    assert parse_toml("made_up", document.encode())
