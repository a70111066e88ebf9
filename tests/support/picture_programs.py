"""Random programs whose frames differ in little from each other: what a cache of lines lives on.

`picture_program` draws 30 lines of random writes to a few registers, four times over, in frames that
change by four cells. `changing_program` does so in ways that alternate. `reset_shows_program` and
`late_reader_program` are no random ones: each does what they hardly ever do.
"""

from __future__ import annotations

import random

from tests.support.programs import image_of

#: TIA registers that a line may write, and some that depend on each other.
REGISTERS = (
    *("NUSIZ0", "NUSIZ1", "COLUP0", "COLUP1", "COLUPF", "COLUBK", "CTRLPF", "REFP0", "REFP1"),
    *("PF0", "PF1", "PF2", "RESP0", "RESP1", "RESM0", "RESM1", "RESBL", "AUDV0", "HMCLR"),
    *("GRP0", "GRP1", "ENAM0", "ENAM1", "ENABL", "VDELP0", "VDELP1"),
    *("HMP0", "HMP1", "HMM0", "HMM1", "HMBL", "VDELBL", "RESMP0", "RESMP1", "HMOVE", "CXCLR"),
)
TOGETHER = (("GRP0", "GRP1"), ("ENABL", "GRP1"), ("ENAM0", "RESMP0"), ("NUSIZ1", "GRP1"))
FRAME_CELLS = ("$80", "$81", "$82", "$83")

#: Bits of a mode of `changing_program`.
MOVES, FLICKERS, IS_BUSY, IS_LONG, IS_BLIND = 1, 2, 4, 8, 16


def place_objects(rng: random.Random) -> list[str]:
    """Motion, delays and colours before the picture."""
    lines = []
    for motion in ("HMP0", "HMP1", "HMM0", "HMM1", "HMBL"):
        value = rng.choice(("#0", *FRAME_CELLS))
        lines += [f"LDA {value}", *["ASL"] * rng.choice((0, 4)), f"STA {motion}"]
    for delay in ("VDELP0", "VDELP1", "VDELBL"):
        lines += [f"LDA #{rng.randrange(2)}", f"STA {delay}"]
    for color in ("COLUP0", "COLUP1", "COLUPF", "COLUBK"):
        lines += [f"LDA #{rng.randrange(256)}", f"STA {color}"]
    return [*lines, "STA WSYNC", "STA HMOVE", *["NOP"] * 12, "STA HMCLR"]


def draw_lines(rng: random.Random, registers: list[str], count: int) -> list[str]:
    """So many lines of random writes."""
    lines = []
    for _ in range(count):
        lines.append("STA WSYNC")
        for _ in range(rng.choice((0, 1, 2, 3, 5, 7))):
            if rng.random() < 0.03:
                lines.append(f"LDA {rng.choice(FRAME_CELLS)}")
            elif rng.random() < 0.8:
                lines.append(f"LDA #{rng.choice((0, 0, 0, 2, 255, rng.randrange(256)))}")
            lines.append(f"STA {rng.choice(registers)}")
            lines += ["NOP"] * rng.choice((0, 0, 1, 2))
    return lines


def keep_latches() -> list[str]:
    """All of them, in $90 to $97."""
    return [line for n in range(8) for line in (f"LDA ${n:02X}", f"STA ${0x90 + n:02X}")]


def picture_program(seed: int) -> bytes:
    """A program whose frames differ in little: four cells that change now and then.

    The cells move some objects before the picture; few of the values in it come from them. The
    latches are kept in $90 to $97.
    """
    rng = random.Random(seed)
    registers = [*rng.sample(REGISTERS, rng.randrange(1, 8)), *2 * rng.choice(TOGETHER)]
    lines = ["start: LDX #$FF", "TXS", "frame: LDA #2", "STA VSYNC", *["STA WSYNC"] * 3]
    lines += ["LDA #0", "STA VSYNC", "INC $80", "LDA $80", "AND #3", "BNE same", "INC $81"]
    lines += ["LDA $80", "AND #15", "BNE same", "LDA $82", "CLC", "ADC #$37", "STA $82"]
    lines += ["same: LDA $80", "AND #1", "STA $83", "LDX #37", "top: STA WSYNC", "DEX", "BNE top"]
    lines += place_objects(rng)
    lines += ["LDA #0", "STA VBLANK", "LDY #4", "kernel:", *draw_lines(rng, registers, 30)]
    lines += ["DEY", "BEQ done", "JMP kernel", "done:", *keep_latches()]
    lines += ["LDX #105", "bottom: STA WSYNC", "DEX", "BNE bottom", "JMP frame"]
    return image_of("\n".join(lines))


def write_on(rng: random.Random, name: str, rounds: int) -> list[str]:
    """Rounds of a line each, almost all of it writes; a few of them change what is shown."""
    lines = [f"LDX #{rounds}", f"{name}:"]
    for _ in range(24):
        register = rng.choice(("COLUPF", "PF1", "AUDV0")) if rng.random() < 0.2 else "AUDV1"
        lines.append(f"ST{rng.choice('AY')} {register}")
    return [*lines, "DEX", f"BNE {name}"]


def linger(rounds: int) -> list[str]:
    """512 instructions a round without an access to the TIA."""
    return [f"LDX #{rounds}", "outer: LDY #0", "inner: DEY", "BNE inner", "DEX", "BNE outer"]


def changing_program(seed: int) -> bytes:
    """As `picture_program`; its frames are of another kind every 8, 16 or 32.

    Each stretch has a mode. MOVES: the cells change. FLICKERS: every other frame shows another
    picture. IS_BUSY: more accesses than a log holds. IS_LONG: the program lingers in the middle of
    the picture, so that frame steps end before the frame does, or the frame has too many lines.
    IS_BLIND: latches are not read; otherwise one is within the picture, and all after it. In any mode
    the stick changes a cell, and the picture is another one while RESET is pressed, as before an
    episode. The rules of the game are left alone.
    """
    rng = random.Random(f"changing {seed}")
    registers = [*rng.sample(REGISTERS, rng.randrange(1, 6)), *2 * rng.choice(TOGETHER)]
    registers += rng.choice(((), ("CXCLR",)))
    often = rng.choice((FLICKERS, IS_BUSY, IS_LONG))
    modes = [rng.choice((0, 0, MOVES, FLICKERS, often, rng.randrange(32))) for _ in range(32)]
    if rng.random() < 0.3:
        modes = [mode | IS_BLIND if n < 20 else mode & ~IS_BLIND for n, mode in enumerate(modes)]
    shift = rng.choice((3, 3, 4, 5))
    lines = ["start: LDX #$FF", "TXS", "frame: LDA #2", "STA VSYNC", *["STA WSYNC"] * 3]
    lines += ["LDA #0", "STA VSYNC", "INC $84", "LDA $84", *["LSR"] * shift, "TAX"]
    lines += ["LDA modes,X", "STA $85", "LDA SWCHA", "EOR #$FF", *["LSR"] * 4, "CLC", "ADC $82"]
    lines += ["STA $82", "LDA #0", "STA $83", f"LDA #{MOVES}", "BIT $85", "BEQ still", "INC $80"]
    lines += ["LDA $80", "AND #3", "BNE still", "INC $81", f"still: LDA #{FLICKERS}", "BIT $85"]
    lines += ["BEQ steady", "LDA $84", "AND #1", "ASL", "ASL", "STA $83"]
    lines += [f"steady: LDA #{IS_BUSY}", "BIT $85", "BNE busy", "LDX #37", "top: STA WSYNC", "DEX"]
    lines += ["BNE top", "JMP place", "busy:", *write_on(rng, "more", rng.randrange(37, 90))]
    lines += ["place:", *place_objects(rng), "LDA #0", "STA VBLANK"]
    lines += ["LDA SWCHB", "LSR", "BCC other", "LDA $83", "BEQ same"]
    lines += [f"other: LDA #{rng.randrange(256)}", "STA COLUBK", "same: LDA #4", "STA $86"]
    lines += ["kernel:", *draw_lines(rng, registers, 30), f"LDA #{IS_BLIND}", "BIT $85"]
    lines += ["BNE blind", f"LDA ${rng.randrange(8):02X}", "STA $98", "blind: LDA $86", "CMP #3"]
    lines += ["BNE go", f"LDA #{IS_LONG}", "BIT $85", "BEQ go"]
    lines += [*linger(rng.choice((10, 50, 50, 100))), "go: DEC $86", "BEQ done", "JMP kernel"]
    lines += [f"done: LDA #{IS_BLIND}", "BIT $85", "BNE kept", *keep_latches()]
    lines += [f"kept: LDA #{IS_BUSY}", "BIT $85", "BNE rest", "LDX #105"]
    lines += ["bottom: STA WSYNC", "DEX", "BNE bottom", "JMP frame"]
    lines += ["rest:", *write_on(rng, "yet", 105), "JMP frame"]
    lines += ["modes: .byte " + ", ".join(map(str, modes))]
    return image_of("\n".join(lines))


def still_lines(label: str, count: int) -> list[str]:
    """Lines with an access each that changes nothing."""
    return [f"LDX #{count}", f"{label}: STA WSYNC", "STA AUDV0", "DEX", f"BNE {label}"]


def reset_shows_program() -> bytes:
    """A still picture whose first rows have another colour while RESET is pressed.

    So few that the cache continues to compare with the same frame, also over a reset of the console:
    all latches are read, so that which are recorded never changes.
    """
    lines = ["start: LDX #$FF", "TXS", "frame: LDA #2", "STA VSYNC", *["STA WSYNC"] * 3]
    lines += ["LDA #0", "STA VSYNC", *still_lines("top", 30), "LDA SWCHB", "LSR", "LDA #14"]
    lines += ["BCS free", "LDA #2", "free: STA COLUBK", "LDA #0", "STA VBLANK"]
    lines += [*still_lines("band", 9), "LDA #4", "STA COLUBK", "LDA #0", *still_lines("rest", 205)]
    lines += [*keep_latches(), "LDA #2", "STA VBLANK", *["STA WSYNC"] * 2, "JMP frame"]
    return image_of("\n".join(lines))


def late_reader_program(frame: int) -> bytes:
    """A picture that flickers; a register of latches is read from some frame after power-on on.

    Another one is read in every frame. Player 0 and the ball meet the playfield on every line, and
    CXCLR comes once a frame. $80 counts frames; the latches are kept in $90 and $91.
    """
    lines = ["start: LDX #$FF", "TXS", "LDA #0", "STA $80", "STA $91", "frame: LDA #2"]
    lines += ["STA VSYNC", *["STA WSYNC"] * 3, "LDA #0", "STA VSYNC", "STA CXCLR", "INC $80"]
    lines += ["LDA #$FF", "STA PF0", "STA PF1", "STA PF2", "STA GRP0", "STA ENABL"]
    lines += ["STA WSYNC", *["NOP"] * 15, "STA RESP0", "STA RESBL", "LDA $80", "AND #1", "ASL"]
    lines += ["ASL", "STA COLUBK", "STA COLUPF", "LDA #0", *still_lines("top", 33), "STA VBLANK"]
    lines += [*still_lines("kernel", 211), "LDA #2", "STA VBLANK", "LDA CXP0FB", "STA $90"]
    lines += ["LDA $80", f"CMP #{frame}", "BCC done", "LDA CXBLPF", "STA $91"]
    lines += ["done: LDA #0", *still_lines("bottom", 10), "JMP frame"]
    return image_of("\n".join(lines))
