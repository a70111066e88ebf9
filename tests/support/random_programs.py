"""Random cartridges: programs that do, from a seed, what no sane program does.

`random_image(seed)` is a ROM image. Most are written as assembler text: frames of random shape, around
blocks that write TIA registers anywhere in a line, read everything that can be read and keep it in
RAM, change bits of TIA registers in place, push into TIA space, run code in RAM and in TIA space,
move objects late and early. Some are plain random bytes, and some start outside the cartridge. Images of more than one bank get random
accesses to their hotspots and their RAM on top.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cule.games.assembler import assemble
from cule.games.opcodes import OPCODES
from tests.support.programs import BANK_BYTES, repeat_over_banks, with_vectors

# Cells that the rules of the game whose name is borrowed do not end the game by, and that the
# programs use for their own ends.
SCRATCH = 0xF0

STORES = ("STA", "STX", "STY", "SAX")
CHANGES = ("ASL", "LSR", "ROL", "ROR", "INC", "DEC", "SLO", "RLA", "SRE", "RRA", "DCP", "ISC")
SIMPLE = [o for o in OPCODES if o.mode in ("imp", "acc", "imm") and o.name not in
          ("BRK", "RTI", "RTS", "JAM", "TXS", "PHA", "PHP")]  # fmt: skip
MEMORY = [o for o in OPCODES if o.mode in ("zp", "zpx", "zpy", "abs", "absx", "absy", "izx", "izy")
          and o.name not in ("JMP", "JSR", "TAS", "LAS")]  # fmt: skip
JAMS = [o.code for o in OPCODES if o.name == "JAM"]
BRANCHES = [o for o in OPCODES if o.mode == "rel"]
# Where the special cases of RESMx and RESBL after an HMOVE, and the star field, lie: cycles between.
HMOVE_GAPS = (3, 6, 7, 18, 20, 21)


@dataclass(frozen=True)
class Cartridge:
    """What a random image of some size and kind is made of."""

    banks: int  # 4 KiB copies of the program
    first: int = 0x000  # offset in the bank where the program begins
    last: int = 0xF00  # and where it must have ended
    hotspots: tuple[int, ...] = ()
    reads: tuple[int, int] = (0x000, 0x1000)  # offsets worth reading
    writes: tuple[int, int] = (0x000, 0x1000)
    base: int = 0xF000  # address of the program
    tail: int = 0  # bytes after the banks


CARTRIDGES = {
    "4K": Cartridge(1),
    "F8": Cartridge(2, hotspots=(0xFF8, 0xFF9)),
    "F6": Cartridge(4, hotspots=(0xFF6, 0xFF7, 0xFF8, 0xFF9)),
    "F8SC": Cartridge(2, first=0x100, hotspots=(0xFF8, 0xFF9), reads=(0, 0x110), writes=(0, 0x110)),
    "F6SC": Cartridge(
        4, first=0x100, hotspots=(0xFF6, 0xFF7, 0xFF8, 0xFF9), reads=(0, 0x110), writes=(0, 0x110)
    ),
    "E0": Cartridge(2, first=0xC00, last=0xFD8, hotspots=tuple(range(0xFE0, 0xFF8)), reads=(0, 0xC00)),
    "FE": Cartridge(2, first=0x020, base=0xD000),
    "DPC": Cartridge(
        2, first=0x080, last=0xF80, hotspots=(0xFF8, 0xFF9), reads=(0, 0x80), writes=(0x40, 0x80),
        tail=2048,
    ),
}  # fmt: skip


class ProgramWriter:
    """Writes the source text of one random program."""

    def __init__(self, rng: random.Random, cart: Cartridge) -> None:
        self.rng = rng
        self.cart = cart
        self.lines: list[str] = []
        self.labels = 0
        # Each program has its own habits, so that some do a thing a lot and others never.
        blocks = [
            (self.write_tia, 8), (self.place_objects, 4), (self.move_objects, 4),
            (self.keep_reads, 5), (self.change_register, 3), (self.push_into_tia, 1.5),
            (self.do_anything, 6), (self.wait, 6), (self.wait_for_line, 5), (self.set_timer, 1),
            (self.poll_timer, 0.6), (self.count_down, 1), (self.run_in_ram, 0.4),
            (self.run_in_tia, 0.15), (self.star_field, 1.0), (self.call, 0.7), (self.sync, 0.3),
            (self.decimal, 1), (self.stack_work, 1), (self.clear_collisions, 1), (self.branch, 1),
            (self.blank, 0.7), (self.indirect, 1), (self.special, 0.4),
            (self.use_cartridge, 6 if cart.banks > 1 else 0.3),
        ]  # fmt: skip
        self.blocks = [block for block, _ in blocks]
        self.weights = [weight * rng.choice((0, 0.3, 1, 1, 3)) for _, weight in blocks]
        self.weights[7] += 1
        self.weights[0] += 2

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def byte(self) -> int:
        return self.rng.choice((self.rng.randrange(256), self.rng.randrange(256), 0, 0xFF, 2))

    def cell(self) -> int:
        return self.rng.randrange(0x90, 0xF0)

    def tia(self) -> int:
        """A register to write; VSYNC and WSYNC are rare."""
        reg = self.rng.choice((self.rng.randrange(0x2D), self.rng.randrange(0x40)))
        if reg in (0, 2) and self.rng.random() < 0.9:
            reg = self.rng.randrange(4, 0x2D)
        return reg

    def block(self) -> None:
        self.rng.choices(self.blocks, self.weights)[0]()

    def blocks_of(self, low: int, high: int) -> None:
        for _ in range(self.rng.randint(low, high)):
            self.block()

    # --- blocks ---
    def write_tia(self) -> None:
        reg = self.rng.choice(("A", "X", "Y"))
        if self.rng.random() < 0.8:
            self.emit(f"LD{reg} #{self.byte()}")
        if self.rng.random() < 0.1 and reg == "A":
            self.emit(f"STA ${self.tia() | self.rng.choice((0x000, 0x100, 0x40, 0x540)):04X}")
        else:
            self.emit(f"ST{reg} {self.tia() | self.rng.choice((0, 0, 0x40))}")

    def place_objects(self) -> None:
        for _ in range(self.rng.randint(1, 5)):
            self.emit(f"{self.rng.choice(STORES)} {self.rng.randrange(0x10, 0x15)}")
            self.wait(0.5)

    def move_objects(self) -> None:
        if self.rng.random() < 0.7:
            for reg in range(0x20, 0x25):
                if self.rng.random() < 0.6:
                    self.emit(f"LDA #{self.byte()}")
                    self.emit(f"STA {reg}")
        if self.rng.random() < 0.6:
            self.emit("STA WSYNC")
        if self.rng.random() < 0.6:
            self.emit(
                f".wait {self.rng.choice((0, 2, 3, 8, 17, 18, 20, 54, 60, 67, 68, 69, 70, 71, 72))}"
            )
        self.emit("STA HMOVE")
        if self.rng.random() < 0.3:
            self.emit(
                f".wait {self.rng.choice(HMOVE_GAPS) - 3 if self.rng.random() < 0.9 else 5}".replace(
                    "-", ""
                )
            )
            self.emit(f"STA {self.rng.randrange(0x10, 0x15)}")
        if self.rng.random() < 0.1:
            self.emit("STA HMCLR")

    def special(self) -> None:
        """The resets that land elsewhere after an HMOVE: gap and place in the line must both fit."""
        reg, gap, h = self.rng.choice(
            ((0x12, 60, 69), (0x13, 9, 18), (0x14, 54, 60), (0x14, 54, 69), (0x14, 9, 18),
             (0x14, 21, 30), (0x14, 18, 27))
        )  # fmt: skip
        self.emit(f"LDA #{self.byte()}")
        self.emit("STA WSYNC")
        before = (h - gap) // 3 - 3
        self.emit(f".wait {before}" if before >= 0 and before != 1 else "STA WSYNC")
        self.emit("STA HMOVE")
        self.emit(f".wait {gap // 3 - 3}")
        self.emit(f"STA {reg}")

    def keep_reads(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            source = self.rng.choice(
                (self.rng.randrange(8), self.rng.randrange(0x80), 0x280 + self.rng.randrange(8),
                 self.rng.randrange(0x800) & ~0x80, 0x284, 0x285)
            )  # fmt: skip
            name = self.rng.choice(("LDA", "LDX", "LDY", "LAX", "LDA"))
            width = "$%04X" if self.rng.random() < 0.3 or source > 0xFF else "$%02X"
            self.emit(f"{name} {width % source}")
            self.emit(f"ST{name[2] if name != 'LAX' else 'X'} {self.cell()}")

    def change_register(self) -> None:
        self.emit(f"{self.rng.choice(CHANGES)} {self.tia() | self.rng.choice((0, 0, 0x40))}")

    def push_into_tia(self) -> None:
        self.emit(f"LDX #{self.rng.choice((self.tia() + self.rng.choice((0, 1, 2)), 0x1E, 2, 3))}")
        self.emit("TXS")
        for _ in range(self.rng.randint(1, 3)):
            self.emit(self.rng.choice(("PHA", "PHP", "PLA", "PLP", "PHA")))
        if self.rng.random() < 0.3:
            target = self.label()
            self.emit(f"JSR {target}")
            self.emit(f"{target}:")
        self.emit("LDX #$EF")
        self.emit("TXS")

    def do_anything(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            if self.rng.random() < 0.5:
                o = self.rng.choice(SIMPLE)
                operand = [self.byte()] if o.mode == "imm" else []
            else:
                o = self.rng.choice(MEMORY)
                operand = self.operand_of(o.mode, o.name)
            self.emit(".byte " + ", ".join(map(str, [o.code, *operand])))

    def operand_of(self, mode: str, name: str) -> list[int]:
        writes = name not in ("LDA", "LDX", "LDY", "LAX", "CMP", "BIT", "NOP", "ORA", "AND", "EOR")
        low = self.rng.choice((self.cell(), self.rng.randrange(256), self.tia()))
        if writes and self.rng.random() < 0.7:
            low = self.cell()
        if mode in ("zp", "zpx", "zpy", "izx", "izy"):
            return [low]
        high = self.rng.choice((0, 0, 1, self.rng.randrange(256), 0xF0 | self.rng.randrange(16)))
        if high & 0x12 == 2 and low & 0x80:
            low = self.rng.choice((0x80, 0x84, 0x85, 0x94, 0x95, 0x96, 0x97, low))
        return [low, high]

    def wait(self, chance: float = 1.0) -> None:
        if self.rng.random() < chance:
            cycles = self.rng.choice((2, 3, 4, 5, 6, 7, 9, self.rng.randrange(2, 76)))
            self.emit(f".wait {cycles}")

    def wait_for_line(self) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            self.emit(
                f"{self.rng.choice((*STORES, *CHANGES)) if self.rng.random() < 0.1 else 'STA'} WSYNC"
            )

    def set_timer(self) -> None:
        self.emit(f"LDA #{self.byte()}")
        self.emit(
            f"STA {self.rng.choice(('TIM1T', 'TIM8T', 'TIM64T', 'T1024T', '$029C', '$0284'))}"
        )

    def poll_timer(self) -> None:
        """The usual loops on INTIM and INSTAT, which the core advances in one step."""
        loop = self.label()
        self.emit(f"LDA #{self.rng.randrange(256)}")
        self.emit(f"STA {self.rng.choice(('TIM1T', 'TIM8T', 'TIM64T', 'TIM64T'))}")
        self.wait(0.5)
        if self.rng.random() < 0.3:
            self.emit(f"{loop}: {self.rng.choice(('BIT', 'LDA', 'LDX'))} INSTAT")
            self.emit(f"BPL {loop}")
        else:
            self.emit(f"{loop}: {self.rng.choice(('LDA', 'LDA', 'LDX', 'LDY'))} INTIM")
            self.emit(f"{self.rng.choice(('BNE', 'BPL', 'BNE', 'BMI'))} {loop}")
        self.emit(f"STA {self.cell()}")

    def count_down(self) -> None:
        loop = self.label()
        reg = self.rng.choice("XY")
        self.emit(f"LD{reg} #{self.byte()}")
        self.emit(f"{loop}: DE{reg}")
        if self.rng.random() < 0.2:
            self.emit("STA WSYNC")
        self.emit(f"{self.rng.choice(('BNE', 'BNE', 'BPL'))} {loop}")
        self.emit("PHP")
        self.emit("PLA")
        self.emit(f"STA {self.cell()}")

    def run_in_ram(self) -> None:
        self.copy_to_ram()
        self.emit(f"JMP ${self.rng.choice((0x0080, 0x0180, 0x0480, 0x2080, 0xE180)):04X}")
        self.emit(f"{self.back}:")

    def run_in_tia(self) -> None:
        """A jump to TIA space: the bytes found there are what was last on the bus."""
        self.copy_to_ram()
        start = self.rng.choice((self.rng.randrange(0x40, 0x80), 0x7E, 0x7F, 0x0E, 0x3F))
        self.emit(f"JMP ${self.rng.randrange(16) << 8 & ~0x1200 | start:04X}")
        self.emit(f"{self.back}:")

    def copy_to_ram(self) -> None:
        """Four random bytes of code at $80, then a jump to the label `back`."""
        self.back = self.label()
        code = [self.rng.choice(SIMPLE).code, 0xEA, 0x85, self.tia()]
        if self.rng.random() < 0.5:
            code = [0xA5, self.rng.randrange(16), 0x85, self.cell()]
        for i, value in enumerate([*map(str, code), str(0x4C), f"<{self.back}", f">{self.back}"]):
            self.emit(f"LDA #{value}")
            self.emit(f"STA {0x80 + i}")

    def star_field(self) -> None:
        """HMOVE, then HMM0 from 7 to 6 exactly 21 cycles later, or nearly so."""
        self.emit("LDA #$70")
        self.emit("STA HMM0")
        self.emit("LDX #$60")
        if self.rng.random() < 0.5:
            self.emit("STA WSYNC")
        if self.rng.random() < 0.3:
            self.wait()
        self.emit("STA HMOVE")
        self.emit(f".wait {18 + self.rng.choice((0, 0, 0, 0, 0, -1, 1))}")
        self.emit("STX HMM0")
        if self.rng.random() < 0.7:
            self.emit("LDA #2")
            self.emit("STA ENAM0")

    def call(self) -> None:
        over, target = self.label(), self.label()
        self.emit(f"JSR {target}")
        self.emit(f"JMP {over}")
        self.emit(f"{target}:")
        self.write_tia()
        self.emit("RTS")
        self.emit(f"{over}:")

    def sync(self) -> None:
        self.emit(f"LDA #{self.rng.choice((0, 2, 2, 0xFF))}")
        self.emit("STA VSYNC")
        if self.rng.random() < 0.5:
            self.emit(f".wait {self.rng.choice((10, 67, 68, 69, 70, 71, 72, 73, 74, 75))}")
            self.emit("LDA #0")
            self.emit("STA VSYNC")

    def decimal(self) -> None:
        self.emit("SED")
        for _ in range(self.rng.randint(1, 4)):
            self.emit(
                f"{self.rng.choice(('ADC', 'SBC', 'ADC', 'SBC', 'ARR'))} #{self.rng.randrange(256)}"
            )
            self.emit(f"{self.rng.choice(('RRA', 'ISC', 'NOP'))} {self.cell()}")
        self.emit("PHP")
        self.emit("PLA")
        self.emit(f"STA {self.cell()}")
        if self.rng.random() < 0.8:
            self.emit("CLD")

    def stack_work(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.emit(self.rng.choice(("PHA", "PLA", "PHP", "PLP", "TSX")))

    def clear_collisions(self) -> None:
        self.emit("STA CXCLR")

    def branch(self) -> None:
        target = self.label()
        self.emit(f"{self.rng.choice(BRANCHES).name} {target}")
        for _ in range(self.rng.randint(0, 3)):
            self.write_tia()
        self.emit(f"{target}:")

    def blank(self) -> None:
        self.emit(f"LDA #{self.rng.choice((0, 0, 0, 2, 0x80, 0x82, 0xC0))}")
        self.emit("STA VBLANK")

    def indirect(self) -> None:
        pointer = self.rng.choice((self.rng.randrange(0x90, 0xF0), 0xFF))
        self.emit(f"LDA #{self.byte()}")
        self.emit(f"STA {pointer}")
        if pointer != 0xFF:
            self.emit(f"LDA #{self.rng.choice((0, 1, 2, 0xF0, 0xF1, self.byte()))}")
            self.emit(f"STA {pointer + 1}")
        self.emit(f"LDY #{self.byte()}")
        self.emit(f"{self.rng.choice(('LDA', 'STA', 'ADC', 'CMP', 'LAX', 'LDA'))} ({pointer}),Y")
        self.emit(f"STA {self.cell()}")

    def use_cartridge(self) -> None:
        cart = self.cart
        for _ in range(self.rng.randint(1, 3)):
            page = self.rng.choice((0x1000, 0x3000, 0xD000, 0xF000))
            kind = self.rng.random()
            if kind < 0.3 and cart.hotspots:
                self.emit(f"{self.rng.choice(('LDA', 'BIT', 'STA', 'INC', 'NOP'))} "
                          f"${page | self.rng.choice(cart.hotspots):04X}")  # fmt: skip
            elif kind < 0.6:
                self.emit(
                    f"{self.rng.choice(('STA', 'STX', 'INC', 'SLO'))} ${page | self.rng.randrange(*cart.writes):04X}"
                )
            else:
                self.emit(f"LDA ${page | self.rng.randrange(*cart.reads):04X}")
                self.emit(f"STA {self.cell()}")

    # --- frames ---
    def frame(self) -> None:
        """One frame's worth of code: synchronise or not, then lines in loops and blocks."""
        kind = self.rng.random()
        if kind < 0.8:
            self.emit("LDA #2")
            self.emit("STA VSYNC")
            for _ in range(self.rng.choice((1, 3, 3, 3))):
                self.emit("STA WSYNC")
            self.blocks_of(0, 3)
            self.emit("LDA #0")
            self.emit("STA VSYNC")
        if self.rng.random() < 0.5:
            self.emit("LDA #0")
            self.emit("STA VBLANK")
        total = self.rng.choice((250, 262, 262, 290, 300, 312, 120, 60, 20))
        while total > 0:
            lines = min(total, self.rng.choice((3, 10, 40, 100, 192)))
            total -= lines
            loop, counter = self.label(), SCRATCH + self.rng.randrange(8)
            self.emit(f"LDX #{lines}")
            self.emit(f"STX {counter}")
            self.emit(f"{loop}: STA WSYNC")
            self.blocks_of(0, 6)
            out = self.label()
            self.emit(f"DEC {counter}")
            self.emit(f"BEQ {out}")
            self.emit(f"JMP {loop}")
            self.emit(f"{out}:")
            self.blocks_of(0, 4)

    def initialize(self) -> None:
        self.emit("LDX #$EF")
        self.emit("TXS")
        if self.rng.random() < 0.8:
            self.emit("CLD")
        for reg in (4, 5, 6, 7, 8, 9, 0x0A, 0x0D, 0x0E, 0x0F, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F):
            if self.rng.random() < 0.7:
                self.emit(f"LDA #{self.byte()}")
                self.emit(f"STA {reg}")

    def program(self) -> str:
        """The whole text: initialize, one to three kinds of frame in a circle, a BRK handler."""
        self.emit("start:")
        if self.rng.random() < 0.8:
            self.initialize()
        self.emit("main:")
        for _ in range(self.rng.randint(1, 3)):
            self.frame()
        if self.rng.random() < 0.1:
            loop = self.label()  # without TIA writes: the step ends by its instruction count
            self.emit(f"{loop}: INC {self.cell()}")
            self.emit(f"BIT {self.rng.randrange(0x30)}")
            self.emit(f"JMP {loop}")
        self.emit("JMP main")
        self.emit("handler:")
        if self.rng.random() < 0.5:
            self.emit("LDX #$EF")
            self.emit("TXS")
        self.emit(self.rng.choice(("JMP main", "JMP main", "RTI", "JMP start")))
        return "\n".join(self.lines)


def random_source(seed: int, kind: str = "4K") -> str:
    """The text of the program of `random_image`; programs that do not fit are written anew."""
    rng = random.Random(f"program {kind} {seed}")
    cart = CARTRIDGES[kind]
    while True:
        text = ProgramWriter(rng, cart).program()
        if len(assemble(text, cart.base)[0]) <= cart.last - cart.first:
            return text


def random_bytes_image(seed: int, kind: str = "4K") -> bytes:
    """Random bytes, with the jam opcodes replaced; half of the images draw from few values."""
    rng = random.Random(f"bytes {kind} {seed}")
    cart = CARTRIDGES[kind]
    allowed = [v for v in range(256) if v not in JAMS]
    if rng.random() < 0.5:
        allowed = [rng.choice(allowed) for _ in range(24)] + [0x85, 0x00, 0x02, 0xA5, 0x2A, 0x10]
    data = bytearray(rng.choices(allowed, k=cart.banks * BANK_BYTES + cart.tail))
    for bank in range(cart.banks):
        start = rng.choice((0xF000, 0xD000, 0x1000)) | rng.randrange(cart.first, cart.last)
        with_vectors(data, bank, start, start)
    return finish(data, kind)


def random_image(seed: int, kind: str = "4K") -> bytes:
    """ROM image of a random program, recognised by ale-py as of type `kind`."""
    cart = CARTRIDGES[kind]
    text = random_source(seed, kind)
    code, names = assemble(text, cart.base + cart.first)
    rng = random.Random(f"image {kind} {seed}")
    filler = bytes(rng.choices([v for v in range(256) if v not in JAMS], k=BANK_BYTES))
    data = repeat_over_banks(code, cart.first, cart.banks)
    used = set(range(cart.first, cart.first + len(code)))
    for i in range(len(data)):
        if i % BANK_BYTES not in used:
            data[i] = filler[(i * 7 + i // BANK_BYTES) % BANK_BYTES]
    data += rng.randbytes(cart.tail)
    for bank in range(cart.banks):
        with_vectors(data, bank, names["start"], names["handler"])
    return finish(data, kind)


def random_start_image(seed: int, kind: str = "4K") -> bytes:
    """The image of `random_image` that starts in RIOT, TIA or RAM space; BRK leads to its program."""
    data = bytearray(random_image(seed, kind))
    rng = random.Random(f"start {kind} {seed}")
    start = rng.randrange(0x10000) & ~0x1280 | rng.choice((0x280, 0x280, 0x080, 0x000))
    if start & 0x200 and rng.random() < 0.5:
        start = start & ~5 | 4  # INTIM
    for bank in range(CARTRIDGES[kind].banks):
        end = (bank + 1) * BANK_BYTES
        with_vectors(data, bank, start, int.from_bytes(data[end - 4 : end - 2], "little"))
    return bytes(data)


def finish(data: bytearray, kind: str) -> bytes:
    """Add what the detection of cartridge types looks for."""
    if kind in ("F8SC", "F6SC"):
        for bank in range(len(data) // BANK_BYTES):
            data[bank * BANK_BYTES : bank * BANK_BYTES + 0x100] = bytes([0xEA + bank]) * 0x100
    elif kind == "E0":
        data[0:3] = b"\x8d\xe0\x1f"
    elif kind == "FE":
        data[0:5] = b"\x20\x00\xd0\xc6\xc5"
    image = bytes(data)
    for wrong in (b"\x85\x3e\xa9\x00", b"\x85\x3f", b"\x8d\x40\x02"):  # types 3E, 3F, UA
        image = image.replace(wrong, wrong[:1] + b"\x2d" + wrong[2:])
    return image
