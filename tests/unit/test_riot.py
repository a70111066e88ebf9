"""RIOT: RAM mirrors, timer edges, ports and switches, power-on values."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cule import _core
from tests.support.cases import long_except
from tests.support.programs import core_console, core_game, image_of, native_console

INTERVALS = {"TIM1T": 1, "TIM8T": 8, "TIM64T": 64, "T1024T": 1024}
MACHINE_SEED = 4753849


def ram_after(source: str, frames: int = 0, **properties: object) -> NDArray[np.uint8]:
    """RAM of a program that is loaded and, maybe, played for some frames."""
    console = core_console(image_of(source), **properties)
    for _ in range(frames):
        console.act(0)
    return console.ram()


def cells(source: str, *addresses: int) -> list[int]:
    """Cells of a program that ends in a loop of its own making."""
    ram = ram_after(source + "\nforever: JMP forever")
    return [int(ram[address - 0x80]) for address in addresses]


# --- timer ----------------------------------------------------------------------------------------


def read_timer(register: str, start: int, gaps: list[int], read: str = "INTIM") -> list[int]:
    """Set the timer, then read it several times.

    Args:
        register: The timer register written.
        start: The value written.
        gaps: Cycles from the write to the first read, and then from read to read; 4 at least, 8 at
            least between reads, and not 5 or 9.
        read: What is read.
    """
    lines = [f"start: LDA #{start}", f"STA {register}"]
    for i, gap in enumerate(gaps):
        lines += [f".wait {gap - (4 if i == 0 else 7)}", f"LDA {read}", f"STA {0x90 + i}"]
    return cells("\n".join(lines), *range(0x90, 0x90 + len(gaps)))


def timer_model(start: int, interval: int, gaps: list[int]) -> list[int]:
    """INTIM by the rules: counts down at once, then every interval; late reads see the first one."""
    values, now, late = [], 0, None
    for gap in gaps:
        now += gap
        steps = (now - 1) // interval
        over = now - 1 - start * interval  # cycles since expiry
        if over < 0:
            values.append(start - 1 - steps)
            continue
        if late is None and over >= 1:
            late = over
        values.append(0xFF if late is None else (-(over // interval) - late - 1) % 256)
    return values


@pytest.mark.parametrize("register", INTERVALS)
def test_timer_counts_down_at_once_then_every_interval(register: str) -> None:
    interval = INTERVALS[register]
    for gap in (4, interval, interval + 1, interval + 2, 2 * interval, 2 * interval + 1):
        if gap < 4 or gap == 5:
            continue
        expected = 100 - 1 - (gap - 1) // interval
        assert read_timer(register, 100, [gap]) == [expected], gap


@pytest.mark.parametrize("register", INTERVALS)
@pytest.mark.parametrize("start", long_except([0, 1, 3], 1))
def test_timer_around_expiry(register: str, start: int) -> None:
    interval = INTERVALS[register]
    expiry = start * interval + 1  # cycles after the write
    for gap in range(max(expiry - 2, 4), max(expiry - 2, 4) + 6):
        if gap == 5:
            continue
        gaps = [gap, 10, interval + 8, 1000]
        assert read_timer(register, start, gaps) == timer_model(start, interval, gaps), gap


def test_stated_values_after_expiry() -> None:
    # TIM64T = 1 expires 65 cycles after the write: a read right then is not late yet.
    assert read_timer("TIM64T", 1, [64]) == [0]
    assert read_timer("TIM64T", 1, [65]) == [0xFF]
    assert read_timer("TIM64T", 1, [66]) == [0xFE]  # k = 1: -(0) - 1 - 1
    assert read_timer("TIM64T", 1, [75, 10, 64]) == [0xF5, 0xF5, 0xF4]
    assert read_timer("TIM1T", 1, [12]) == [
        (-(2 * 10 + 1)) & 0xFF
    ]  # step 1 and interval count: twice


@pytest.mark.parametrize("register", INTERVALS)
def test_instat(register: str) -> None:
    interval = INTERVALS[register]
    expiry = 4 * interval + 1
    assert read_timer(register, 4, [max(expiry - 1, 4)], "INSTAT") == [0 if expiry > 4 else 0x80]
    assert read_timer(register, 4, [expiry + 1, 10, 10], "INSTAT") == [0x80, 0x80, 0x80]


@pytest.mark.parametrize(
    ("register", "start", "registers"),
    # The value is shifted left by the interval: $E8 is INX, $C8 INY, $88 DEY.
    [(0x94, 0xE8, (0x91, 0)), (0x95, 0x1D, (0x91, 0)), (0x95, 0x19, (0x90, 1)), (0x95, 0x11, (0x90, 0xFF))],
)  # fmt: skip
def test_an_opcode_read_in_the_cycle_of_a_write(
    register: int, start: int, registers: tuple[int, int]
) -> None:
    source = f"""
start:  LDA #{register}
        STA $90
        LDA #2
        STA $91                 ; ($90) is a timer register
        LDX #$90
        LDA #$82
        STA T1024T
        LDA #{start}
        JMP $0284               ; INTIM is $81, INSTAT 0: STA (0,X); then INTIM is the opcode
handler: STX $92
        STY $93
"""
    assert tuple(cells(source, 0x92, 0x93)) == registers


def test_a_reset_vector_at_the_timer() -> None:
    """The first opcode is the start value, shifted left: $80, a NOP with an operand."""
    image = bytearray(image_of("start: STA $90\nforever: JMP forever"))
    image[-4:-2] = (0x0284).to_bytes(2, "little")
    ram = core_console(bytes(image)).ram()
    assert [int(ram[cell]) for cell in (0x10, 0x7D, 0x7E, 0x7F)] == [254, 176, 141, 2]


def test_instat_is_cleared_by_a_late_read_only() -> None:
    source = """
start:  LDA #1
        STA TIM8T
        LDA INSTAT              ; 4 cycles after the write
        STA $90
        .wait 10
        LDA INSTAT
        STA $91
        LDA INTIM               ; late
        LDA INSTAT
        STA $92
        LDA #1
        STA TIM8T
        .wait 5
        LDA INTIM               ; 9 cycles after the write: exactly at expiry, not late
        STA $93
        LDA INSTAT
        STA $94
"""
    assert cells(source, 0x90, 0x91, 0x92, 0x93, 0x94) == [0, 0x80, 0, 0xFF, 0x80]


def test_timer_runs_on_over_frames() -> None:
    # A frame of 3 lines; T1024T counts on. INTIM is kept 40 frames after it was set.
    source = """
start:  LDX #40
        LDA #200
        STA T1024T
frame:  LDA #2
        STA VSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC
        STA WSYNC
        DEX
        BNE frame
        LDA INTIM
        STA $90
"""
    lines = 40 * 3  # and less than one more: no decrement lies there
    assert cells(source, 0x90) == [200 - 1 - lines * 76 // 1024]


def test_a_late_read_counts_in_later_frames() -> None:
    frame = """
        LDA #2                  ; 2 cycles
        STA VSYNC               ; 3
        .wait 228
        LDA #0                  ; 2
        STA VSYNC               ; 3, and a frame begins
        .wait 228
"""
    source = f"""
start:  LDA #1
        STA TIM8T
        .wait 20
        LDA INTIM               ; late: 24 cycles after the write
        STA $90                 ; 3 cycles
        {frame * 2}
        LDA INTIM               ; 4
        STA $91
"""
    gap = 3 + 2 * (2 + 3 + 228 + 2 + 3 + 228) + 4
    assert cells(source, 0x90, 0x91) == timer_model(1, 8, [24, gap])


def test_each_setting_has_a_late_read_of_its_own() -> None:
    source = """
start:  LDA #1
        STA TIM8T
        .wait 20
        LDA INTIM               ; late: 24 cycles after the write
        STA $90
        LDA #1
        STA TIM8T
        .wait 30
        LDA INTIM               ; late: 34 cycles after the write
        STA $91                 ; 3 cycles
        .wait 20
        LDA INTIM               ; 4
        STA $92
"""
    expected = timer_model(1, 8, [24]) + timer_model(1, 8, [34, 3 + 20 + 4])
    assert cells(source, 0x90, 0x91, 0x92) == expected


@pytest.mark.parametrize(
    ("address", "interval"),
    [(0x294, 1), (0x29C, 1), (0x295, 8), (0x29E, 64), (0x2BF, 1024), (0x0694, 1), (0x2E95, 8)],
)
def test_timer_mirrors(address: int, interval: int) -> None:
    assert read_timer(f"${address:04X}", 50, [20]) == [50 - 1 - 19 // interval]


@pytest.mark.parametrize("address", [0x284, 0x28C, 0x285, 0x280, 0x282, 0x283, 0x2A7 & ~0x10])
def test_addresses_that_set_no_timer(address: int) -> None:
    source = f"start: LDA #9\n STA TIM1T\n LDA #99\n STA ${address:04X}\n LDA INTIM\n STA $90"
    assert cells(source, 0x90) == timer_model(9, 1, [2 + 4 + 4])


@pytest.mark.parametrize("address", [0x284, 0x286, 0x28C, 0x2BC, 0x6A4, 0x0E86])
def test_intim_mirrors(address: int) -> None:
    assert read_timer("TIM1T", 50, [20], f"${address:04X}") == [30]


# --- RAM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", [0x0080, 0x0180, 0x0480, 0x0580, 0x0880, 0x0D80, 0x2080, 0xE580]
)
def test_ram_mirrors(address: int) -> None:
    source = f"start: LDA #$5A\n STA ${address + 0x15:04X}\n LDA ${address + 0x15:04X}\n STA $90"
    assert cells(source, 0x95, 0x90) == [0x5A, 0x5A]


def power_on_draws(count: int) -> list[int]:
    generator = np.random.MT19937()
    generator._legacy_seeding(MACHINE_SEED)
    return [int(value) for value in generator.random_raw(count)]


def test_power_on_ram() -> None:
    draws = power_on_draws(128)
    assert ram_after("start: JMP start").tolist() == [draw & 0xFF for draw in draws]
    assert draws[0] == 3205607096
    other = core_console(image_of("start: JMP start"))
    seeded = native_console(
        core_game(image_of("start: JMP start")), system_random_seed=7, repeat_action_probability=0.0
    )
    assert not np.array_equal(other.ram(), seeded.ram())


def test_timer_start_values_of_resets() -> None:
    # Draw 129 is construction's, 130 the format detection's, 131 the switch-on reset's.
    draws = power_on_draws(140)
    console = core_console(image_of("start: LDA INTIM\n STA $90\nloop: JMP loop"))
    for reset in range(5):
        assert int(console.ram()[0x10]) == 25 + draws[131 + reset] % 75 - 1
        console.reset_game()


def test_timer_start_values_without_detection() -> None:
    draws = power_on_draws(140)
    source = "start: LDA INTIM\n STA $90\nloop: JMP loop"
    console = core_console(image_of(source), format="PAL")
    for reset in range(3):
        assert int(console.ram()[0x10]) == 25 + draws[130 + reset] % 75 - 1
        console.reset_game()


def test_ram_is_kept_over_resets() -> None:
    console = core_console(image_of("start: INC $90\nloop: JMP loop"))
    before = console.ram()
    console.reset_game()
    after = console.ram()
    assert after[0x10] == (before[0x10] + 1) & 0xFF
    assert np.array_equal(np.delete(before, 0x10), np.delete(after, 0x10))


# --- ports and switches ---------------------------------------------------------------------------

PORTS = """
start:  LDA #$FF
        STA SWACNT
        STA SWBCNT
        STA SWCHA
        STA SWCHB
loop:   LDA SWCHA
        STA $90
        LDA SWACNT
        STA $91
        LDA SWCHB
        STA $92
        LDA SWBCNT
        STA $93
        LDA $38                 ; INPT0 and up, with bits 3-5 of the operand as noise
        STA $94
        LDA $39
        STA $95
        LDA $3A
        STA $96
        LDA $3B
        STA $97
        LDA INPT4
        STA $98
        LDA INPT5
        STA $99
        JMP loop
"""
UP, DOWN, LEFT, RIGHT = 0x10, 0x20, 0x40, 0x80
STICK = {0: 0, 1: 0, 2: UP, 3: RIGHT, 4: LEFT, 5: DOWN, 6: UP | RIGHT, 7: UP | LEFT,
         8: DOWN | RIGHT, 9: DOWN | LEFT, 10: UP, 11: RIGHT, 12: LEFT, 13: DOWN, 14: UP | RIGHT,
         15: UP | LEFT, 16: DOWN | RIGHT, 17: DOWN | LEFT}  # fmt: skip
FIRING = {1, *range(10, 18)}


def ports_after(console: _core.Console, action: int) -> dict[str, int]:
    console.act(action)
    names = (
        "SWCHA",
        "SWACNT",
        "SWCHB",
        "SWBCNT",
        "INPT0",
        "INPT1",
        "INPT2",
        "INPT3",
        "INPT4",
        "INPT5",
    )
    return {name: int(console.ram()[0x10 + i]) for i, name in enumerate(names)}


@pytest.mark.parametrize("action", long_except(range(18), every=3))
def test_joystick(action: int) -> None:
    got = ports_after(core_console(image_of(PORTS)), action)
    assert got["SWCHA"] == 0xFF ^ STICK[action]
    assert got["INPT4"] >> 7 == (action not in FIRING)
    assert got["INPT5"] >> 7 == 1
    assert [got[f"INPT{n}"] >> 7 for n in range(4)] == [0, 0, 0, 0]  # no paddles: never charged


@pytest.mark.parametrize("action", [1, 5, 14])
def test_swapped_ports(action: int) -> None:
    got = ports_after(core_console(image_of(PORTS), swap_ports=True), action)
    assert got["SWCHA"] == 0xFF ^ STICK[action] >> 4
    assert got["INPT4"] >> 7 == 1
    assert got["INPT5"] >> 7 == (action not in FIRING)


def test_direction_registers_change_nothing() -> None:
    got = ports_after(core_console(image_of(PORTS)), 0)
    assert (got["SWACNT"], got["SWBCNT"], got["SWCHA"], got["SWCHB"]) == (0xFF, 0, 0xFF, 0x3F)


def test_swacnt_is_cleared_by_a_reset() -> None:
    source = "start: LDA SWACNT\n STA $90\n LDA #$77\n STA SWACNT\nloop: JMP loop"
    console = core_console(image_of(source))
    console.reset_game()
    assert console.ram()[0x10] == 0


@pytest.mark.parametrize("difficulty", range(4))
def test_difficulty_switches(difficulty: int) -> None:
    console = core_console(image_of(PORTS))
    console.difficulty = difficulty
    assert ports_after(console, 0)["SWCHB"] == 0x3F | difficulty << 6


def test_property_difficulty_shows_in_the_detection_only() -> None:
    source = """
start:  LDA $9F                 ; 1 from the first start on: RAM is kept
        CMP #1
        BEQ later
        LDA #1
        STA $9F
        LDA SWCHB
        STA $90
later:  LDA SWCHB
        STA $91
loop:   JMP loop
"""
    ram = core_console(image_of(source), left_difficulty_a=True).ram()
    assert (ram[0x10], ram[0x11]) == (0x7F, 0x3F)


def test_reset_switch_is_held_at_the_end_of_a_reset() -> None:
    console = core_console(image_of(PORTS))
    assert console.ram()[0x12] == 0x3E
    assert ports_after(console, 0)["SWCHB"] == 0x3F


# --- paddles --------------------------------------------------------------------------------------

PADDLES = """
start:  LDX #0
        LDA #$82
        STA VBLANK              ; dump
        LDA #0
        STA VBLANK              ; charge
wait:   INX                     ; 2 + 3 + 2 + 3 cycles a turn
        BIT PORT
        BPL wait
        STX $90
        LDA SWCHA
        STA $91
again:  LDA #2
        STA VSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC
        JMP start
"""


def paddle_turns(resistance: int) -> int:
    """Turns of the loop above until a paddle of some resistance reads as charged."""
    needed = resistance * 119 // 6250
    cycle, turns = 0, 0  # cycle 0: the write that ends the dump
    while True:
        turns += 1
        cycle += 2 + 3
        if cycle > needed:
            return turns
        cycle += 3


@pytest.mark.parametrize("resistance", [30000, 100000, 250000])
def test_paddle_charges_with_its_resistance(resistance: int) -> None:
    game = _paddle_game("INPT0")
    console = native_console(
        game, repeat_action_probability=0.0, paddle_min=resistance, paddle_max=resistance
    )
    for _ in range(3):
        console.act(0)
    assert int(console.ram()[0x10]) == paddle_turns(resistance) & 0xFF


def _paddle_game(port: str, **properties: object) -> _core.Game:
    rom = image_of(PADDLES.replace("PORT", port))
    return core_game(rom, controller_left="paddles", format="NTSC", **properties)


def test_paddle_moves_and_fires() -> None:
    console = native_console(
        _paddle_game("INPT0"), repeat_action_probability=0.0, paddle_max=100000
    )
    start = (27450 + 100000) // 2
    for _ in range(2):
        console.act(0)
    assert int(console.ram()[0x10]) == paddle_turns(start) & 0xFF
    for _ in range(3):
        console.act(3)  # right: less resistance
    right = int(console.ram()[0x10])
    for _ in range(6):
        console.act(4)
    assert right < paddle_turns(start) < int(console.ram()[0x10])
    console.act(0)
    console.act(0)
    assert console.ram()[0x11] == 0xFF
    console.act(1)
    console.act(1)
    assert console.ram()[0x11] == 0x7F  # fire of pin 4


def test_swapped_paddles() -> None:
    console = native_console(
        _paddle_game("INPT1", swap_paddles=True), repeat_action_probability=0.0,
        paddle_min=30000, paddle_max=30000,
    )  # fmt: skip
    for _ in range(3):
        console.act(1)
    assert int(console.ram()[0x10]) == paddle_turns(30000) & 0xFF
    assert console.ram()[0x11] == 0xBF  # fire of pin 3


def test_right_paddles_are_always_charged() -> None:
    console = core_console(image_of(PORTS), controller_left="paddles", controller_right="paddles")
    got = ports_after(console, 0)
    assert [got["INPT2"] >> 7, got["INPT3"] >> 7, got["INPT4"] >> 7, got["INPT5"] >> 7] == [
        1,
        1,
        1,
        1,
    ]


# --- programs that run in RIOT space --------------------------------------------------------------


@pytest.mark.parametrize(
    ("register", "returns_to"), [(0x94, 0x87), (0x95, 0x89), (0x96, 0x89), (0x97, 0x89)]
)
def test_instat_in_the_cycle_of_the_timer_write(register: int, returns_to: int) -> None:
    # At $0282 is SWCHB, $3F: RLA abs,X with $00 and INTIM, 2, as its operand: it sets the timer
    # at $0200 + X. The next opcode is INSTAT in that very cycle: 0 is BRK; $80 is a NOP before one.
    source = f"""
start:  LDX #$FF
        TXS
        LDA #3
        STA T1024T
        LDX #{register}
        JMP $0282
handler: LDA $FE
        STA $90
"""
    assert cells(source, 0x90) == [returns_to]
