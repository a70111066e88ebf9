"""Home-made ROM images, and how to run them under cule and under ale-py.

An image that no table knows runs with the console properties of an unknown cartridge. `HOST_GAME` is
the game whose rules are borrowed by giving the file its name: Donkey Kong, which is over only when
three cells ($8B, $8F, $A3) hold certain values at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cule import _core
from cule.games import compile_rules, load_games
from cule.games.assembler import REGISTERS, assemble
from cule.games.schema import ConsoleProperties

BANK_BYTES = 4096
CYCLES_PER_LINE = 76
HOST_GAME = "donkey_kong"


def with_vectors(data: bytearray, bank: int, reset: int, brk: int) -> None:
    """Set the vectors at the end of one bank."""
    end = (bank + 1) * BANK_BYTES
    data[end - 4 : end] = reset.to_bytes(2, "little") + brk.to_bytes(2, "little")


def repeat_over_banks(code: bytes, offset: int, banks: int) -> bytearray:
    """The same code at the same offset of every bank, zeros elsewhere."""
    bank = bytes(offset) + code
    return bytearray((bank + bytes(BANK_BYTES - len(bank))) * banks)


def image_of(source: str, origin: int = 0xF000) -> bytes:
    """A 4 KiB image of a program; it starts at `start`, or at its first byte, and so does BRK."""
    code, names = assemble(source, origin)
    data = repeat_over_banks(code, origin & 0xFFF, 1)
    start = names.get("start", origin)
    with_vectors(data, 0, start, names.get("handler", start))
    return bytes(data)


def core_game(rom: bytes, **properties: Any) -> _core.Game:
    """A game of the native core: `rom` under the rules of `HOST_GAME`.

    Args:
        rom: The image.
        properties: Fields of ``cule._core.GameSpec`` that differ from those of an unknown ROM.
    """
    rules = load_games()[HOST_GAME]
    code = compile_rules(rules)
    console = ConsoleProperties()
    arguments: dict[str, Any] = {
        "game_id": HOST_GAME,
        "rom": rom,
        "format": console.format,
        "ystart": console.ystart,
        "height": console.height,
        "controller_left": console.controller_left,
        "controller_right": console.controller_right,
        "swap_ports": console.swap_ports,
        "swap_paddles": console.swap_paddles,
        "left_difficulty_a": False,
        "right_difficulty_a": False,
        "hmove_blanks": console.hmove_blanks,
        "legal_actions": list(rules.legal_actions),
        "minimal_actions": list(rules.minimal_actions),
        "starting_actions": [],
        "modes": [0],
        "default_mode": 0,
        "difficulties": [0, 1, 2, 3],
        "paddle_max": rules.paddle_max,
        "state": list(code.state),
        "step_code": list(code.step_code),
        "lives_code": list(code.lives_code),
        "setup_code": [],
    }
    spec = _core.GameSpec()
    for name, value in {**arguments, **properties}.items():
        setattr(spec, name, value)
    return _core.Game(spec)


def core_console(rom: bytes, **properties: Any) -> _core.Console:
    """A console that runs `rom` without sticky actions."""
    return native_console(
        core_game(rom, **properties), random_seed=1, repeat_action_probability=0.0
    )


def native_console(game: _core.Game, **settings: object) -> _core.Console:
    """A console with some settings."""
    options = _core.ConsoleOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    return _core.Console(game, options)


def ale_console(rom: bytes, folder: Path) -> Any:
    """The same console in ale-py."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    path = folder / f"{HOST_GAME}.bin"
    path.write_bytes(rom)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(path)
    return ale


class Frame:
    """A program that draws the same frame again and again: stores at stated cycles of stated lines.

    A store's effect falls on its cycle: colour clock 3 * cycle of the line. Cycles below 5 are
    reached from the line before. A store takes 3 cycles, and 2 more to load its value.
    """

    def __init__(self, lines: int = 262) -> None:
        """An empty frame of so many lines; with the usual properties line 34 is the first shown."""
        self.lines = lines
        self.begin = ""  # code before the first frame
        self.end = ""  # code at the end of every frame
        self.stores: list[tuple[int, str, int | None]] = []  # cycle in the frame, register, value

    def at(self, line: int, cycle: int, register: str, value: int | None = None) -> Frame:
        """Store in a register at a cycle of a line; without a value, whatever the accumulator holds."""
        self.stores.append((CYCLES_PER_LINE * line + cycle, register, value))
        return self

    def before(self, line: int, **values: int) -> Frame:
        """Store values in registers in the lines before `line`, in this order, somewhere in the line."""
        for i, (register, value) in enumerate(reversed(values.items())):
            self.at(line - 1 - i // 12, 65 - 5 * (i % 12), register, value)
        return self

    def source(self) -> str:
        """The text of the program."""
        text = ["start: SEI", "CLD", "LDX #$EF", "TXS", self.begin, "main: LDA #2", "STA VSYNC"]
        text += ["STA WSYNC", "STA WSYNC", "LDA #0", "STA VSYNC"]
        now = 5  # cycles from the start of line 0
        for target, register, value in sorted(self.stores, key=lambda store: store[0]):
            cost = 3 if value is None else 5
            while target - now >= CYCLES_PER_LINE + cost + 4:
                text.append("STA WSYNC")
                now = -(-(now + 3) // CYCLES_PER_LINE) * CYCLES_PER_LINE
            if value is not None:
                text.append(f"LDA #{value}")
            free = target - now - cost
            if free == 1:
                text.append(f"STA ${0x100 | REGISTERS[register]:04X}")  # 4 cycles
            else:
                text += [f".wait {free}", f"STA {register}"]
            now = target
        text += ["STA WSYNC"] * (self.lines - 2 - now // CYCLES_PER_LINE)  # two more with VSYNC on
        return "\n".join([*text, self.end, "JMP main"])

    def image(self) -> bytes:
        """The 4 KiB image."""
        return image_of(self.source())
