"""The processor, instruction by instruction, against a plain model and against stated values.

One frame is one test: the program loads the registers from RAM, jumps to code that the test has put
at $80, stores registers, flags, stack pointer and timer, and synchronises. The timer is set right
before, so that it measures the cycles.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from cule import _core
from cule.games.assembler import assemble, encode
from cule.games.opcodes import OPCODES, Opcode
from tests.support.model6507 import BY_CODE, Jammed, Model6507
from tests.support.programs import ale_console, core_console, image_of

HARNESS = """
a = $F0
x = $F1
y = $F2
p = $F3
out_a = $E0
out_x = $E1
out_y = $E2
out_p = $E3
out_sp = $E4
out_timer = $E5

start:  SEI
        LDX #$EF
        TXS
        LDA #$4C                ; until a test comes: JMP done
        STA $80
        LDA #<done
        STA $81
        LDA #>done
        STA $82
main:   LDA #2
        STA VSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC               ; a frame ends here
frame:  LDX #$EF
        TXS
        LDA #$FF
        STA TIM1T
        LDA p
        PHA
        LDX x
        LDY y
        LDA a
        PLP
        JMP $0080
        .org $F100
done:   STA out_a
        STX out_x
        STY out_y
        PHP
        PLA
        STA out_p
        TSX
        STX out_sp
        LDA INTIM
        STA out_timer
        CLD
        JMP main
handler:
        INC $E7
        JMP done
"""
# Cycles between the timer write and the timer read, without those of the code at $80, JMP done included.
HARNESS_CYCLES = 22 + 28 + 3
FRAME_PHASE = 5  # cycles into a line at which the frame starts
NOP = 0xEA


class Rig:
    """A console that runs the harness, one test a frame."""

    def __init__(self, extra: str = "") -> None:
        self.rom = image_of(HARNESS + extra)
        self.names = assemble(HARNESS + extra)[1]
        self.console = core_console(self.rom)
        self.done = self.names["done"]

    def poke(self, code: bytes, a: int, x: int, y: int, p: int, cells: dict[int, int]) -> bytes:
        """Put a test into RAM; returns the whole RAM."""
        code += bytes([0x4C, self.done & 0xFF, self.done >> 8])
        values = {0x80 + i: value for i, value in enumerate(code)}
        values |= {0xF0: a, 0xF1: x, 0xF2: y, 0xF3: p, **cells}
        for address, value in values.items():
            self.console.set_ram(address - 0x80, value)
        return self.console.ram().tobytes()

    def run(
        self, code: bytes | str, a: int = 0, x: int = 0, y: int = 0, p: int = 0,
        cells: dict[int, int] | None = None,
    ) -> Result:  # fmt: skip
        """Run code once."""
        if isinstance(code, str):
            code = assemble(code, 0x80)[0]
        self.poke(code, a, x, y, p, cells or {})
        self.console.act(0)
        return Result(self.console)


class Result:
    """What the harness stored."""

    def __init__(self, console: _core.Console) -> None:
        self.ram = console.ram()
        self.a, self.x, self.y, self.p, self.sp, timer = (int(v) for v in self.ram[0x60:0x66])
        self.cycles = 0xFF - timer - HARNESS_CYCLES

    def cell(self, address: int) -> int:
        return int(self.ram[address - 0x80])

    def flags(self) -> str:
        """The set flags, in the order of the status byte."""
        return "".join(
            name for i, name in enumerate("NV..DIZC") if self.p >> 7 - i & 1 and name != "."
        )


@pytest.fixture(scope="module")
def rig() -> Rig:
    return Rig()


# --- every opcode, at random, against the model ----------------------------------------------------

CONTROL = {"JMP", "JSR", "RTS", "RTI", "BRK", "JAM", "TXS", "TAS", "LAS"}
SINGLE = [o for o in OPCODES if o.name not in CONTROL and o.mode != "rel"]
TRIALS = 40  # an opcode
WRITERS = {"STA", "STX", "STY", "SAX", "SHA", "SHX", "SHY"}
CHANGERS = {"ASL", "LSR", "ROL", "ROR", "INC", "DEC", "SLO", "RLA", "SRE", "RRA", "DCP", "ISC"}


def random_address(rng: random.Random, is_written: bool) -> int:
    """Where an operand may lie: anywhere for reads, outside the TIA and the harness for writes."""
    if is_written:
        return rng.choice((rng.randrange(0x90, 0xE0), 0x180 | rng.randrange(0x10, 0x60),
                           0xF000 | rng.randrange(0x1000), 0x294 + rng.randrange(4), 0x281))  # fmt: skip
    return rng.choice((rng.randrange(0x80, 0x100), rng.randrange(0x80), rng.randrange(0x10000),
                       0x280 + rng.randrange(8), 0x180 | rng.randrange(0x80)))  # fmt: skip


def random_case(rng: random.Random, opcode: Opcode) -> tuple[bytes, int, int, dict[int, int]]:
    """Code, X, Y and cells of one test of an opcode."""
    is_written = opcode.name in WRITERS | CHANGERS
    x, y = rng.choice(((rng.randrange(256), rng.randrange(256)), (0, 0), (0xFF, 1)))
    cells = {rng.randrange(0x90, 0xE0): rng.randrange(256) for _ in range(8)}
    target = random_address(rng, is_written)
    mode = opcode.mode
    if mode in ("zp", "zpx", "zpy"):
        if is_written or rng.random() < 0.7:
            target = rng.randrange(0x90, 0xE0)
        operand = target - {"zp": 0, "zpx": x, "zpy": y}[mode] & 0xFF
    elif mode in ("izx", "izy"):
        pointer = rng.randrange(0x90, 0xDF)
        base = target - (y if mode == "izy" else 0) & 0xFFFF
        cells |= {pointer: base & 0xFF, pointer + 1: base >> 8}
        operand = pointer - (x if mode == "izx" else 0) & 0xFF
    elif mode in ("abs", "absx", "absy"):
        operand = target - {"abs": 0, "absx": x, "absy": y}[mode] & 0xFFFF
    else:
        operand = rng.randrange(256) if mode == "imm" else 0
    return encode(opcode, operand), x, y, cells


@pytest.mark.parametrize("name", sorted({o.name for o in SINGLE}))
def test_opcodes_against_the_model(name: str, rig: Rig) -> None:
    rng = random.Random(name)
    model = Model6507(rig.rom, bytes(128), rig.names["frame"])
    model.cycles = FRAME_PHASE
    rig.run(bytes([0xA9, 0, 0x8D, 0x81, 0x02]))  # SWACNT = 0, as in the model
    for opcode in (o for o in SINGLE if o.name == name):
        for _ in range(TRIALS):
            code, x, y, cells = random_case(rng, opcode)
            a, p = rng.randrange(256), rng.randrange(256)
            before = rig.poke(code, a, x, y, p, cells)
            rig.console.act(0)
            model.ram = bytearray(before)
            model.frame_over = False
            while not model.frame_over:
                model.step()
            what = (
                f"{code.hex(' ')} ({name} {opcode.mode}), A={a:02X} X={x:02X} Y={y:02X} P={p:02X}"
            )
            ram = rig.console.ram()
            wrong = [
                f"${0x80 + i:02X} is ${ram[i]:02X}, not ${model.ram[i]:02X}"
                for i in range(128) if ram[i] != model.ram[i]
            ]  # fmt: skip
            assert not wrong, f"{what}: {', '.join(wrong)}"


def test_every_opcode_is_tested_somewhere() -> None:
    directed = {o for o in OPCODES if o.name in CONTROL or o.mode == "rel"}
    assert {*SINGLE, *directed} == set(OPCODES)
    assert len(BY_CODE) == 256


# --- bytes and cycles, stated ----------------------------------------------------------------------

# Modes as cells and operands that cross no page: base cycles, and bytes through what comes after.
PLAIN_OPERAND = {"zp": 0x90, "zpx": 0x90, "zpy": 0x90, "abs": 0x0090, "absx": 0x0090,
                 "absy": 0x0090, "izx": 0x92, "izy": 0x92, "imm": 0, "imp": 0, "acc": 0}  # fmt: skip


@pytest.mark.parametrize("opcode", SINGLE, ids=lambda o: f"{o.code:02X}-{o.name}-{o.mode}")
def test_base_cycles_and_size(opcode: Opcode, rig: Rig) -> None:
    code = encode(opcode, PLAIN_OPERAND[opcode.mode])
    result = rig.run(code, cells={0x92: 0x90, 0x93: 0x00})
    assert result.cycles == opcode.cycles
    assert len(code) == opcode.size_bytes  # the JMP behind it was found


@pytest.mark.parametrize(
    "opcode", [o for o in SINGLE if o.mode in ("absx", "absy", "izy")],
    ids=lambda o: f"{o.code:02X}-{o.name}-{o.mode}",
)  # fmt: skip
def test_page_crossing(opcode: Opcode, rig: Rig) -> None:
    # $00FF + 1 is $0100, a TIA read; $F8FF + 1 stays in ROM, where a write does nothing.
    code = encode(opcode, 0x92 if opcode.mode == "izy" else 0xF8FF)
    result = rig.run(code, x=1, y=1, cells={0x92: 0xFF, 0x93: 0xF8})
    assert result.cycles == opcode.cycles + opcode.pays_crossing


def test_lax_zero_page_takes_four_cycles(rig: Rig) -> None:
    assert rig.run("LAX $90").cycles == 4
    assert rig.run("LDA $90").cycles == 3


CONDITIONS = {"BPL": 0x00, "BMI": 0x80, "BVC": 0x00, "BVS": 0x40, "BCC": 0x00, "BCS": 0x01,
              "BNE": 0x00, "BEQ": 0x02}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_branches(name: str) -> None:
    branch = next(o for o in OPCODES if o.name == name)
    flag = CONDITIONS[name]
    mask = {"BPL": 0x80, "BVC": 0x40, "BCC": 0x01, "BNE": 0x02}.get(name, flag)
    sites = f"""
        .org $F200
near:   .byte {branch.code}, 3
        JMP done
        JMP done                ; taken, same page
        .org $F2FB
far:    .byte {branch.code}, 3  ; next is $F2FD, target $F300
        JMP done
        JMP done                ; taken, other page
        .org $F380
        JMP done                ; taken backwards, same page
back:   .byte {branch.code}, $FB
        JMP done
        .org $F3FD
        JMP done                ; taken backwards, other page
far_back: .byte {branch.code}, $FB
        JMP done
"""
    rig = Rig(sites)
    for site, cost in (("near", 3), ("far", 4), ("back", 3), ("far_back", 4)):
        jump = bytes([0x4C, rig.names[site] & 0xFF, rig.names[site] >> 8])
        for p in (flag, flag ^ mask):
            result = rig.run(jump, p=p)
            # In addition to the branch: two jumps of 3 cycles, one of which the harness counts itself.
            expected = 3 + (cost if p == flag else 2)
            assert result.cycles == expected, f"{site}, P={p:02X}"
            assert result.p == p | 0x30


# --- decimal mode ---------------------------------------------------------------------------------

D = 0x08


@pytest.mark.parametrize(
    ("code", "a", "carry", "result", "flags"),
    [
        ("ADC #$01", 0x09, 0, 0x10, "D"),
        ("ADC #$01", 0x99, 0, 0x00, "DZC"),
        ("ADC #$99", 0x99, 1, 0x99, "NDC"),
        ("ADC #$46", 0x12, 1, 0x59, "D"),
        ("ADC #$15", 0x75, 0, 0x90, "NVD"),
        ("ADC #$0F", 0x0F, 0, 0x30, "D"),  # 15 + 15, digits above 9
        ("ADC #$FF", 0xFF, 1, 0x75, "VDC"),  # 165 + 165 + 1 = 331; 331 mod 256 = 75
        ("SBC #$01", 0x10, 1, 0x09, "DC"),
        ("SBC #$01", 0x00, 1, 0x99, "NVD"),
        ("SBC #$00", 0x00, 0, 0x99, "NVD"),
        ("SBC #$21", 0x46, 1, 0x25, "DC"),
        ("SBC #$99", 0x99, 1, 0x00, "VDZC"),
        ("SBC #$FF", 0x00, 1, 0x7D, "D"),  # still negative after + 100: the table artefact
        ("SBC #$FF", 0x00, 0, 0x7C, "D"),
    ],
)
def test_decimal_mode(code: str, a: int, carry: int, result: int, flags: str, rig: Rig) -> None:
    got = rig.run(code, a=a, p=D | carry)
    assert (got.a, got.flags(), got.cycles) == (result, flags, 2)


def test_decimal_mode_of_all_operands(rig: Rig) -> None:
    """Three operands a frame through every pair of bytes in steps; EB is SBC as well."""
    for opcode in (0x69, 0xE9, 0xEB):
        for a in range(0, 256, 5):
            for m in range(0, 256, 17):
                model = Model6507(b"", bytes(128), 0)
                model.a, model.p = a, D | (a ^ m) & 1
                (model.use_adc if opcode == 0x69 else model.use_sbc)(m)
                got = rig.run(bytes([opcode, m]), a=a, p=D | (a ^ m) & 1)
                assert (got.a, got.p) == (model.a, model.p), f"{opcode:02X} {a:02X} {m:02X}"


@pytest.mark.parametrize(
    ("a", "carry", "result", "flags"),
    [(0xFF, 0, 0x75 | 0, ""), (0x00, 1, 0x80, "ND"), (0x55, 1, 0xA0, "")],
)
def test_arr_in_decimal_mode(a: int, carry: int, result: int, flags: str, rig: Rig) -> None:
    model = Model6507(b"", bytes(128), 0)
    model.a, model.p = a, D | carry
    model.use_arr(0xFF)
    got = rig.run("ARR #$FF", a=a, p=D | carry)
    assert (got.a, got.p) == (model.a, model.p)
    if flags:
        assert (got.a, got.flags()) == (result, flags)


# --- undocumented opcodes with constants ----------------------------------------------------------


def test_unstable_opcodes(rig: Rig) -> None:
    assert rig.run("ANE #$FF", a=0x11, x=0xF3).a == 0xF3
    assert rig.run("ANE #$FF", a=0x00, x=0xFF).a == 0xEE
    got = rig.run("LXA #$5F", a=0x10)
    assert (got.a, got.x) == (0x5E, 0x5E)
    got = rig.run("SBX #$02", a=0x0F, x=0x07)
    assert (got.x, got.flags()) == (0x05, "C")
    # The value stored is masked with the high address byte plus one.
    assert rig.run("SHX $0090,Y", x=0xFF).cell(0x90) == 0x01
    assert rig.run("SHY $0590,X", y=0xFF).cell(0x90) == 0x06
    assert rig.run("SHA $0590,Y", a=0xFE, x=0x77).cell(0x90) == 0x06
    assert rig.run("SHY $08F0,X", x=0xA0, y=0xFF).cell(0x90) == 0x08 + 2  # final address $0990
    assert rig.run("SHX $FF90,Y", x=0xFF, cells={0x90: 0x55}).cell(0x90) == 0x55  # ROM


def test_opcodes_that_set_the_stack_pointer(rig: Rig) -> None:
    got = rig.run("TAS $0590,Y", a=0xF7, x=0xBF)
    assert (got.sp, got.cell(0x90), got.cycles) == (0xB7, 0xB7 & 0x06, 5)
    got = rig.run("LAS $0090,Y", cells={0x90: 0xCD})
    assert (got.a, got.x, got.sp, got.flags()) == (0xCD, 0xCD, 0xCD, "N")  # SP was $EF
    got = rig.run("TXS", x=0xD0)
    assert (got.sp, got.flags(), got.cycles) == (0xD0, "", 2)


# --- stack and control ----------------------------------------------------------------------------


def test_jsr_and_rts(rig: Rig) -> None:
    # The pushed address, $0082, is that of the JSR's last byte.
    got = rig.run(f"JSR sub\n JMP ${rig.done:04X}\nsub: LDA $EF\n STA $9F\n INX\n RTS")
    assert (got.x, got.sp, got.cell(0x9F), got.cell(0xEE)) == (1, 0xEF, 0x00, 0x82)
    assert got.cycles == 6 + 3 + 3 + 2 + 6


def test_jsr_pushes_all_sixteen_bits() -> None:
    rig = Rig("site: JSR sub\n JMP done\nsub: LDA $EF\n STA $9F\n RTS\n")
    for base in (0x1000, 0xD000, 0xF000):
        target = rig.names["site"] & 0xFFF | base
        assert rig.run(f"JMP ${target:04X}").cell(0x9F) == target >> 8


def test_brk_pushes_and_jumps(rig: Rig) -> None:
    got = rig.run(bytes([0x00, 0xFF]), p=0xC3, cells={0xE7: 5})
    assert (got.cell(0xEF), got.cell(0xEE), got.cell(0xED)) == (0x00, 0x82, 0xF3)
    assert got.cell(0xE7) == 6  # the handler ran
    assert got.p & 0x04  # I
    assert got.sp == 0xEC


def test_rti_restores_flags_and_address(rig: Rig) -> None:
    # Push done, then a status with bits 4 and 5 clear, which RTI ignores.
    code = f"LDA #{rig.done >> 8}\n PHA\n LDA #{rig.done & 0xFF}\n PHA\n LDA #$C9\n PHA\n RTI"
    got = rig.run(code)
    assert (got.p, got.sp, got.flags()) == (0xF9, 0xEF, "NVDC")


def test_php_pushes_bits_four_and_five(rig: Rig) -> None:
    assert rig.run("PHP\n PLA").a == 0x30
    assert rig.run("PHP\n PLA", p=0xCF).a == 0xFF


def test_jump_indirect_wraps_in_its_page(rig: Rig) -> None:
    # The pointer lies at $F2FF; its high byte comes from $F200, not from $F300.
    rom = bytearray(rig.rom)
    rom[0x2FF], rom[0x200], rom[0x300] = rig.done & 0xFF, rig.done >> 8, 0xF0
    own = Rig()
    own.console = core_console(bytes(rom))
    got = own.run("JMP ($F2FF)", x=7)
    assert (got.x, got.cycles) == (7, 5 - 3)  # the JMP of 3 cycles behind it is not reached


def test_jam_stops_until_a_machine_reset() -> None:
    own = Rig()
    own.poke(bytes([0x02]), 1, 2, 3, 4, {0xE0: 0x5A})
    own.console.act(0)
    frozen = own.console.ram()
    for _ in range(3):
        assert own.console.act(0) == 0
    assert np.array_equal(own.console.ram(), frozen)
    assert frozen[0x60] == 0x5A  # nothing was stored
    own.console.reset_game()
    assert own.run("INX", x=9).x == 10


@pytest.mark.parametrize("code", [o.code for o in OPCODES if o.name == "JAM"])
def test_all_jams(code: int) -> None:
    console = core_console(image_of(f"start: INC $90\n .byte {code}\n INC $91\n JMP start"))
    ram = console.ram()
    console.act(0)
    assert np.array_equal(console.ram(), ram)


def test_model_knows_jams() -> None:
    with pytest.raises(Jammed):
        Model6507(bytes([0x02] * 4096), bytes(128), 0xF000).step()


# --- addressing and the data bus -------------------------------------------------------------------


def test_pointer_at_ff_takes_its_high_byte_from_0100(rig: Rig) -> None:
    # $FF holds $90. The high byte is TIA register 0 over the bus, which holds the low byte: $90 & $3F.
    # So the address is $1090: cartridge.
    got = rig.run(bytes([0xB1, 0xFF]), cells={0xFF: 0x90})
    assert got.a == rig.rom[0x090]
    got = rig.run(bytes([0xA1, 0xFE]), x=1, cells={0xFF: 0x80 | 0x00})
    assert got.a == got.cell(0x80)  # $0080: high byte $80 & $3F = 0


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("LDA $02", 0x02),  # the operand byte
        ("LDA $32", 0x32),
        ("LDA $7F", 0x3F),
        ("LDA $0102", 0x01),  # the high operand byte
        ("LDA $2D0E", 0x2D),
        ("LDA $0C", 0x8C),  # INPT4 released
        ("LDX $3E", 0x3E),
        ("LDA $1E,X", 0x1E),
    ],
)
def test_undriven_bits_show_the_bus(code: str, value: int, rig: Rig) -> None:
    got = rig.run(code)
    assert (got.x if code.startswith("LDX") else got.a) == value


def test_undriven_bits_after_a_pointer(rig: Rig) -> None:
    # ($90),Y with pointer $250E: the last byte before the read is the pointer's high byte.
    assert rig.run("LDA ($90),Y", cells={0x90: 0x0E, 0x91: 0x25}).a == 0x25


def test_pull_from_tia_space(rig: Rig) -> None:
    # PLA reads the stack twice; the second read shows what the first left: opcode $68 & $3F.
    code = "LDX #$0D\n TXS\n PLA\n LDX #$EF\n TXS"
    assert rig.run(code).a == 0x68 & 0x3F


def test_program_in_tia_space(rig: Rig) -> None:
    # The bus holds $2C, so $2C7F reads as BIT; its operand is in RAM, which begins at $2C80. At $82
    # is BIT $0090, then INX.
    got = rig.run(bytes([0x4C, 0x7F, 0x2C, 0x90, 0x00, 0xE8]), x=3)
    assert (got.x, got.cycles) == (4, 3 + 4 + 4 + 2)


def test_read_modify_write_shows_the_bus(rig: Rig) -> None:
    got = rig.run("INC $30\n STA $9F", a=7)  # a TIA address: reads its operand byte
    assert (got.cell(0x9F), got.flags()) == (7, "")
    assert rig.run("SLO $30\n STA $9F").cell(0x9F) == 0x60


# --- WSYNC ----------------------------------------------------------------------------------------

TIMER_SET_AT = 6  # cycle in the line at which TIM1T is written


def cycles_from_line_start(rig: Rig, code: str) -> int:
    """Cycle, counted from a line start, at which code that begins 6 cycles after it has ended."""
    source = f"STA WSYNC\n LDA #$FF\n STA TIM1T\n {code}\n LDA INTIM\n STA $9F"
    return TIMER_SET_AT + 0xFF - rig.run(source).cell(0x9F) - 4


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("NOP", 8),
        ("STA WSYNC", 76),
        (".byte $04, $80\n" + "NOP\n" * 32 + "STA WSYNC", 76),  # ends on the line start: no wait
        ("NOP\n" * 34 + "STA WSYNC", 2 * 76),  # one cycle too late
        ("STA $0142", 76),  # a mirror
        ("INC WSYNC", 76),  # a read comes before the write
        ("LDX #2\n TXS\n PHA", 76),
        ("LDX #2\n TXS\n JSR next\nnext:", 76),  # first push: RSYNC comes second
        ("LDX #3\n TXS\n JSR next\nnext:", 6 + 4 + 6),  # the second push follows a write
    ],
)
def test_wsync(code: str, end: int, rig: Rig) -> None:
    assert cycles_from_line_start(rig, code + "\n LDX #$EF\n TXS") == end + 4


# --- frames ---------------------------------------------------------------------------------------


def test_a_step_ends_after_25000_instructions() -> None:
    console = core_console(image_of("start: INC $90\n JMP start"))
    before = int(console.ram()[0x10])
    for step in range(1, 5):
        console.act(0)
        assert int(console.ram()[0x10]) == (before + 12500 * step) & 0xFF


def test_reset_registers() -> None:
    # PHP first: status $30; then A, X, Y, SP as the reset left them.
    source = """
start:  PHP
        STA $90
        STX $91
        STY $92
        TSX
        STX $93
        PLA
        STA $94
loop:   JMP loop
"""
    console = core_console(image_of(source))
    assert console.ram()[0x10:0x15].tolist() == [0, 0, 0, 0xFE, 0x30]


# --- and live -------------------------------------------------------------------------------------


@pytest.mark.ale
def test_random_instructions_in_ale_py(tmp_path: Path) -> None:
    rig = Rig()
    ale = ale_console(rig.rom, tmp_path)
    rng = random.Random(6507)
    for _ in range(1500):
        opcode = rng.choice(SINGLE)
        code, x, y, cells = random_case(rng, opcode)
        ram = rig.poke(code, rng.randrange(256), x, y, rng.randrange(256), cells)
        for i, value in enumerate(ram):
            ale.setRAM(i, value)
        ale.act(0)
        rig.console.act(0)
        assert rig.console.ram().tobytes() == ale.getRAM().tobytes(), code.hex(" ")
