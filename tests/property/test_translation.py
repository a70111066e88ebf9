"""Translated code is exact to the interpreter: state after every frame, games and random programs.

``kernel="interpreter"`` makes a game that is interpreted. The parity tests run translated, against
ale-py; here both forms run side by side, so that neither goes untested.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from cule import _core
from cule.envs.plan import make_game
from cule.games import load_games, resolve
from cule.games.opcodes import OPCODES
from tests.support.cases import long_except
from tests.support.programs import core_game, image_of, native_console
from tests.support.random_programs import (
    CARTRIDGES,
    random_bytes_image,
    random_image,
    random_start_image,
)
from tests.support.runs import draw_actions, make

HAS_TRANSLATION = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
T = TypeVar("T")
FRAMES = 120
STEPS = 60

needs_translation = pytest.mark.skipif(
    not HAS_TRANSLATION, reason="ROMs are translated on Linux only"
)


def both(make_one: Callable[[bool], T]) -> tuple[T, T]:
    """What `make_one` makes, translated and interpreted."""
    return make_one(True), make_one(False)


def game_of(fields: dict[str, Any], translates: bool) -> _core.Game:
    """The game that a kernel option gives."""
    return make_game(fields, "compiled" if translates else "interpreter")


def consoles_of(rom: bytes, **properties: object) -> tuple[_core.Console, _core.Console]:
    """Consoles with a program, translated and interpreted."""
    return both(
        lambda translates: native_console(core_game(rom, translates=translates, **properties))
    )


def check_pair(consoles: tuple[_core.Console, _core.Console], seed: str, frames: int) -> None:
    """Random actions and resets to both; RAM, reward and picture equal on every frame."""
    translated, interpreted = consoles
    rng = random.Random(seed)
    for frame in range(frames):
        if interpreted.game_over() or rng.random() < 0.02:
            translated.reset_game()
            interpreted.reset_game()
        action = rng.randrange(18)
        assert translated.act(action) == interpreted.act(action), f"{seed}, frame {frame}: reward"
        assert np.array_equal(translated.ram(), interpreted.ram()), f"{seed}, frame {frame}: RAM"
        if frame % 5 == 0:
            same = np.array_equal(translated.screen_index(), interpreted.screen_index())
            assert same, f"{seed}, frame {frame}: picture"
    assert translated.get_state(True) == interpreted.get_state(True), seed


@pytest.mark.ale
@needs_translation
@pytest.mark.parametrize("game", long_except(sorted(load_games()), every=4))
def test_games(game: str) -> None:
    kwargs = resolve(game).to_core_kwargs()
    games = both(lambda translates: game_of(kwargs, translates))
    check_pair((native_console(games[0]), native_console(games[1])), game, FRAMES)
    assert games[1].code_bytes == 0
    assert games[0].code_bytes > 0


@pytest.mark.slow
@pytest.mark.ale
@needs_translation
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games_for_long(game: str) -> None:
    spec = resolve(game)
    games = both(lambda translates: game_of(spec.to_core_kwargs(), translates))
    for seed in range(3):
        options = {"random_seed": seed, "repeat_action_probability": 0.25 * (seed > 0)}
        pair = (native_console(games[0], **options), native_console(games[1], **options))
        check_pair(pair, f"{game} {seed}", 6000)


@needs_translation
@pytest.mark.parametrize("kind", long_except(CARTRIDGES, every=3))
@pytest.mark.parametrize(
    "writer", long_except([random_image, random_bytes_image, random_start_image], random_image)
)
def test_random_programs(writer: Any, kind: str) -> None:
    for seed in range(5000, 5012):
        rom = writer(seed, kind)
        left = "paddles" if seed % 2 else "joystick"
        consoles = consoles_of(rom, controller_left=left)
        check_pair(consoles, f"{writer.__name__} {kind} {seed}", 30)


# Registers and flags that one piece of a program hands to the next show in RAM.
KEEP = "STA $E0,X\n PHP\n PLA\n EOR $A0\n STA $A0\n TYA\n EOR $A1\n STA $A1"
SUMS = ("ADC", "SBC", "AND", "ORA", "EOR", "CMP", "LDA")
FLAGS = ("CLC", "SEC", "CLC", "SEC", "CLV", "SED", "CLD", "CLD", "SEI", "CLI")
ONE_BYTE = ("INX", "DEX", "INY", "DEY", "TAX", "TXA", "TAY", "TYA", "ASL", "LSR", "ROL", "ROR")
OPCODE_OF = {f"{o.name} {o.mode}": o.code for o in reversed(OPCODES)}
SWITCHES = (0x0C, 0x0D, 0x3C, 0x10C, 0x280, 0x282, 0x380, 0x284, 0x08, 0x38, 0x02, 0x07)


class DenseProgram:
    """Arithmetic, flags, branches and loops in ROM, a frame at a time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0
        self.pages = [
            f"${0xF0 + page:02X}{low:02X}" for page in range(3) for low in (0, 0x81, 0xFE)
        ]

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def operand(self) -> str:
        rng = self.rng
        byte = rng.randrange(256)
        return rng.choice(
            (f"#{byte}", "#0", f"${0x80 | byte:02X}", f"${byte:02X},X", f"{rng.choice(self.pages)},X",
             f"{rng.choice(self.pages)},Y", f"($C{rng.randrange(4) * 2}),Y", f"($B{byte % 16:X},X)",
             f"${rng.choice(SWITCHES):04X}", f"$01{byte:02X},Y")
        )  # fmt: skip

    def piece(self, depth: int) -> None:
        rng, emit = self.rng, self.lines.append
        kind = rng.randrange(9)
        if kind == 0:
            emit(rng.choice(FLAGS))
        elif kind == 1:
            emit(rng.choice(ONE_BYTE))
        elif kind in (2, 3):
            emit(f"{rng.choice(SUMS)} {self.operand()}")
        elif kind == 4:
            low = rng.randrange(0x80, 0xB0)
            emit(f"{rng.choice(('INC', 'DEC', 'ASL', 'LSR', 'ROL', 'ROR'))} ${low:02X}")
            emit(
                f"{rng.choice(('INC', 'DEC', 'ROL', 'ROR'))} ${rng.choice((low, low - 0x60)):02X},X"
            )
        elif kind == 5:
            compare = rng.choice(("CMP", "CPX", "CPY", "BIT"))
            value = rng.choice(("#0", f"#{rng.randrange(256)}", "$80", "$91"))
            emit(f"{compare} {'$92' if compare == 'BIT' else value}")
        elif kind == 6 and depth < 3:
            over = self.label()
            emit(f"{rng.choice(('BEQ', 'BNE', 'BCC', 'BCS', 'BMI', 'BPL', 'BVC', 'BVS'))} {over}")
            for _ in range(rng.randrange(4)):
                self.piece(depth + 1)
            emit(f"{over}:")
        elif kind == 7 and depth < 2:
            loop, counter = self.label(), f"$D{depth + 8:X}"
            emit(f"LDA #{rng.randrange(1, 6)}\n STA {counter}\n{loop}:")
            for _ in range(rng.randrange(1, 5)):
                self.piece(depth + 1)
            emit(f"DEC {counter}\n {rng.choice(('BNE', 'BPL', 'BNE'))} {loop}")
        else:
            register = rng.randrange(0x03, 0x40)
            emit(f"{rng.choice(('STA', 'STX', 'STY', 'SAX'))} ${register:02X}")
            emit(f"STA ${rng.choice((0x06, 0x1B, 0x86, 0xF4)):02X},X")

    def source(self) -> str:
        emit = self.lines.append
        emit("start: LDX #$EF\n TXS\n CLD")
        for n, pointer in enumerate((0xF07C, 0xF1FF, 0x0080, 0x00C8)):
            emit(f"LDA #{pointer & 0xFF}\n STA ${0xC0 + 2 * n:02X}")
            emit(f"LDA #{pointer >> 8}\n STA ${0xC1 + 2 * n:02X}")
        emit("main: LDA #2\n STA VSYNC\n STA WSYNC\n STA WSYNC\n LDA #0\n STA VSYNC")
        emit("INC $F6\n LDA $F6\n LDX $F5\n LDY $F4")
        for _ in range(self.rng.randint(10, 40)):
            for _ in range(self.rng.randint(1, 6)):
                self.piece(0)
            if self.rng.random() < 0.5:
                emit(KEEP)
            if self.rng.random() < 0.4:
                emit("STA WSYNC")
        emit("CLD\n LDX #$EF\n TXS\n JMP main")
        return "\n ".join(self.lines)


@needs_translation
@pytest.mark.parametrize("seed", range(40))
def test_dense_programs(seed: int) -> None:
    """Flags across branches and decimal mode, loops, page crossings, joystick and switches."""
    rom = image_of(DenseProgram(seed).source())
    left = "paddles" if seed % 4 == 3 else "joystick"
    consoles = consoles_of(rom, controller_left=left)
    check_pair(consoles, f"dense {seed}", 60)


class RamProgram:
    """A stretch of code in RAM that is changed while it runs and calls ROM, entered in every frame."""

    END = 0xC8  # of the code; above are cells and the stack

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.code: list[str] = []

    def put(self, name: str, *operands: int | str) -> None:
        """An instruction by its opcode's bytes."""
        self.code += [str(OPCODE_OF[name]), *map(str, operands)]

    def here(self) -> int:
        return 0x80 + len(self.code)

    def piece(self) -> None:
        rng, put = self.rng, self.put
        kind = rng.randrange(13)
        cell = rng.randrange(self.END, 0xE0)
        if kind == 0:
            put("INC zp", self.here() + 3)  # the operand of the next instruction
            put("ADC imm", rng.randrange(256))
        elif kind == 1:
            put("DEC zp", cell)
            put("BNE rel", 1)
            put("INX imp")
        elif kind == 2:
            put("JSR abs", "<subroutine", ">subroutine")
        elif kind == 3:
            put("JMP abs", self.here() + 3, rng.choice((0x00, 0x01, 0x0C, 0x24)))  # mirrors of RAM
        elif kind == 4:
            put("PHP imp")
            put("PLA imp")
            put("STA zp", cell)
        elif kind in (5, 6):
            put(rng.choice(("STA zp", "STX zp", "STY zp", "SAX zp")), rng.randrange(0x02, 0x30))
        elif kind == 7:
            put(rng.choice(("LDA zp", "LAX zp", "BIT zp")), rng.randrange(0x10))
            put("STA zp", cell)
        elif kind == 8:
            put("LDA abs", rng.choice((0x80, 0x82, 0x84, 0x94)), 0x02)
        elif kind == 9:
            put("LDA absx", rng.randrange(256), rng.choice((0xF0, 0xF1, 0xFF)))
            put("STA zp", cell)
        elif kind == 10:
            put("STA abs", rng.randrange(0x90, 0x98), 0x02)
        elif kind == 11:
            put(rng.choice(("CLC imp", "SEC imp", "SED imp", "CLD imp", "TAX imp", "TXA imp")))
        else:
            put("INC absx", self.END - 8, 0x00)

    def source(self) -> str:
        """The text of the program; some end the frame in RAM, and few jam."""
        rng = self.rng
        for _ in range(rng.randrange(2, 12)):
            self.piece()
        if rng.random() < 0.3:
            self.put("STA zp", 0x00)
            self.put("LDA imm", 0)
            self.put("STA zp", 0x02)
            self.put("STA zp", 0x00)
        if rng.random() < 0.05:
            self.put("JAM imp")
        self.put("JMP abs", "<back", ">back")
        assert self.here() <= self.END
        lines = ["start: LDX #$EF\n TXS\n CLD"]
        lines += [f"LDA #{byte}\n STA ${0x80 + n:02X}" for n, byte in enumerate(self.code)]
        lines.append("frame: LDA #2\n STA VSYNC\n STA WSYNC\n STA WSYNC\n LDA #0\n STA VSYNC")
        lines.append("INC $F6\n LDA $F6\n LDX #$07\n LDY #34\n STY $F5\nagain: STA WSYNC")
        lines.append("JMP $0080\nback: DEC $F5\n BNE again\n CLD\n JMP frame")
        lines.append("subroutine: EOR $F6\n STA GRP0\n STA ENAM0\n RTS")
        return "\n ".join(lines)


@needs_translation
@pytest.mark.parametrize("seed", range(16))
def test_code_in_ram(seed: int) -> None:
    for n in range(4):
        rom = image_of(RamProgram(4 * seed + n).source())
        for image in (rom, 2 * rom):
            check_pair(consoles_of(image), f"RAM {seed} {n}", 20)


PULLS = """
start: CLD
main: LDA #2
 STA VSYNC
 STA WSYNC
 STA WSYNC
 LDA #0
 STA VSYNC
 INC $92
 LDX $92
 STX GRP0
 LDX #0
loop: TXS
 PLA
 STA $80,X
 ADC $90
 STA $90
 TSX
 BPL loop
 STA WSYNC
 JMP main
"""


@needs_translation
def test_pulls_from_the_tia() -> None:
    """PLA with every stack pointer in the TIA; the last reads half in RAM."""
    check_pair(consoles_of(image_of(PULLS)), "pulls", 40)


def straight_pieces(step: int) -> list[str]:
    """One way through, with branches over nothing and jumps to what comes soon."""
    pieces = []
    for n in range(200):
        pieces.append(f"STX $1B\n INX\n STX ${0x06 + n % 4:02X}\n INC $91")
        if n % step == 0:
            branch = ("BMI", "BPL", "BNE", "BEQ")[n % 4]
            pieces.append(f"{branch} P{n}\n JMP Q{min(n + 1 + n % 7, 200)}\nP{n}: STA WSYNC")
        pieces.append(f"Q{n + 1}:")
    return pieces


def braided_pieces(step: int) -> list[str]:
    """Two ways forward in parallel; the one that branches lead to is taken."""
    pieces = []
    for n in range(80):
        stores = "\n ".join(
            ["STX $1B", "STX $06", "INC $91"] + ["STX $1C"] * (step % 5) + ["LDA #$80"]
        )
        pieces += [f"A{n}: {stores}\n BMI B{n + 1}\n JMP A{n + 1}"]
        pieces += [f"B{n}: {stores}\n BPL A{n + 1}\n JMP B{n + 1}"]
    return [*pieces, "A80: INX\nB80: INX"]


@needs_translation
@pytest.mark.parametrize("step", [1, 3, 4, 40, 1000])
@pytest.mark.parametrize("pieces", [straight_pieces, braided_pieces])
def test_code_without_loops(step: int, pieces: Any) -> None:
    """Long ways forward, by falling through, branches and jumps, while the log runs full."""
    lines = "\n ".join(["start: LDY #0\nQ0: INY", *pieces(step)])
    end = """
 CPY #23
 BCS sync
 JMP Q0
sync: LDA #2
 STA VSYNC
 STX $90
 STA WSYNC
 LDA #0
 STA VSYNC
 JMP start
"""
    rom = image_of(lines + end)
    consoles = consoles_of(rom)
    check_pair(consoles, f"no loops {step}", 40)


@pytest.mark.ale
def test_batches_in_threads() -> None:
    """Consoles that find new code at the same time, in four threads."""

    def play(num_threads: int, kernel: str = "auto") -> list[np.ndarray]:
        env = make("ms_pacman", 16, num_threads=num_threads, kernel=kernel)
        env.reset(seed=3)
        frames = [np.array(env.step(row)[0]) for row in draw_actions(5, STEPS, 16)]
        env.close()
        return frames

    expected = play(1, kernel="interpreter")
    for num_threads in (1, 4):
        for step, (left, right) in enumerate(zip(play(num_threads), expected, strict=True)):
            assert np.array_equal(left, right), f"{num_threads} threads, step {step}"


FORKED = """
import os, sys
import numpy as np
import cule

def play(steps):
    return [env.step(np.full(2, step % 6))[0].sum() for step in range(steps)]

env = cule.AtariVectorEnv("pong", 2, num_threads=1)
env.reset(seed=1)
play(20)
state = env.get_state()
child = os.fork()
sums = play(60)  # both find code that the other does not know of
env.set_state(state)
sys.exit(sums != play(60) or (child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


@pytest.mark.ale
@needs_translation
def test_processes_after_a_fork_have_code_of_their_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


TRANSLATED = """
import threading
from tests.support.runs import draw_actions, make

def mappings(letters):
    with open("/proc/self/maps") as file:
        return [line for line in file if letters <= set(line.split()[1])]

found, has_ended = [], threading.Event()

def watch():
    while not has_ended.is_set():
        found.extend(mappings({"w", "x"}))

def play(game):
    for seed in range(2):  # a game is translated anew where no environment has it
        env = make(game, 4, num_threads=2)
        env.reset(seed=seed)
        for actions in draw_actions(seed, 20, 4):
            env.step(actions)
        env.close()

before = len(mappings({"x"}))
watcher = threading.Thread(target=watch)
players = [threading.Thread(target=play, args=(game,)) for game in ("pong", "seaquest", "pitfall")]
env = make("ms_pacman", 2)
for thread in (watcher, *players): thread.start()
for thread in players: thread.join()
has_ended.set()
watcher.join()
assert len(mappings({"x"})) > before  # there is machine code to be watched
assert not found + mappings({"w", "x"}), found
"""

BOTH = """
import mmap
page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
"""

#: Ends the process at a call that asks for memory to be writable and executable.
WATCHING_CALLS = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int checked(int access) {
  if ((access & PROT_WRITE) && (access & PROT_EXEC)) abort();
  return access;
}
int mprotect(void *at, size_t bytes, int access) {
  return (int)syscall(SYS_mprotect, at, bytes, checked(access));
}
void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  return (void *)syscall(SYS_mmap, at, bytes, checked(access), flags, file, offset);
}
void *mmap64(void *at, size_t bytes, int access, int flags, int file, off64_t offset) {
  return (void *)syscall(SYS_mmap, at, bytes, checked(access), flags, file, offset);
}
"""


def run_python(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-c", script], {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.ale
@needs_translation
def test_no_memory_is_writable_and_executable_at_once() -> None:
    done = run_python(TRANSLATED + BOTH + "assert len(mappings({'w', 'x'})) == 1")
    is_refused = "PermissionError" in done.stderr  # by the system, to everyone
    assert done.returncode == 0 or is_refused, done.stderr


@pytest.mark.ale
@needs_translation
def test_no_call_makes_memory_writable_and_executable(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "watching_calls.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=WATCHING_CALLS, text=True, check=True)
    loaded = f"{os.environ.get('LD_PRELOAD', '')} {library}"  # `make asan` loads others
    done = run_python(TRANSLATED, LD_PRELOAD=loaded)
    assert done.returncode == 0, done.stderr
    assert run_python(BOTH, LD_PRELOAD=loaded).returncode == -signal.SIGABRT


def test_a_game_is_translated_where_it_can_be() -> None:
    rom = random_image(1, "4K")
    games = both(lambda translates: core_game(rom, translates=translates))
    assert _core.HAS_JIT == HAS_TRANSLATION
    assert games[0].is_translated == HAS_TRANSLATION
    assert not games[1].is_translated
    assert (games[0].code_bytes > 0) == HAS_TRANSLATION
    assert games[1].code_bytes == 0
