"""A game of your own: assembler source to ROM, rules, random play, and its picture as text.

The program below is public domain. Left and right move the basket at the bottom; a caught apple is
a point, a missed one costs one of three lives. The right half of the screen repeats the left one.

python examples/own_rom.py --out build/apples
cule watch --game apples --rom-path build/apples/apples.bin \
    --rules build/apples/apples.toml
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import cule
from cule.roms import assemble

SOURCE = """
basket = $80            ; column of the basket, 0 to 15
apple = $81             ; column of the apple
row = $82               ; how far it has fallen, 0 to 15
score = $83
lives = $84
ticks = $85

start:  LDX #$FF
        TXS
frame:  LDA #2          ; three scanlines of vertical sync
        STA VSYNC
        STA WSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC
        LDA SWCHB       ; bit 0 is clear while RESET is pressed: a new game
        LSR A
        BCS play
        LDA #8
        STA basket
        LDA #3
        STA apple
        STA lives
        LDA #0
        STA row
        STA score
play:   LDA lives
        BEQ draw        ; the game is over
        INC ticks
        LDA ticks
        AND #3
        BNE draw
        INC row         ; every fourth frame, the apple falls and the basket moves
        LDA row
        CMP #15
        BNE move
        LDA #0
        STA row
        LDA apple
        CMP basket
        BNE missed
        INC score
        BNE next        ; always, but for 256 points
missed: DEC lives
next:   LDA apple       ; apple = (5 * apple + 7) mod 16
        ASL A
        ASL A
        CLC
        ADC apple
        ADC #7
        AND #15
        STA apple
move:   LDX basket
        BIT SWCHA       ; bit 7 is clear for right, bit 6 for left
        BMI left
        CPX #15
        BEQ left
        INX
left:   BVS moved
        CPX #0
        BEQ moved
        DEX
moved:  STX basket
draw:   LDX #36
blank:  STA WSYNC       ; the rest of vertical blank
        DEX
        BNE blank
        STX VBLANK
        LDA #$44        ; the apple is red
        STA COLUPF
        LDX #0          ; 15 rows of 12 scanlines; the apple is in one of them
rows:   LDA #0
        CPX row
        BNE empty
        LDY apple
        LDA first,Y
        STA PF1
        LDA second,Y
empty:  STA PF2
        LDY #12
line:   STA WSYNC
        DEY
        BNE line
        STY PF1
        STY PF2
        INX
        CPX #15
        BNE rows
        LDA #$0E        ; the basket is white
        STA COLUPF
        LDY basket
        LDA first,Y
        STA PF1
        LDA second,Y
        STA PF2
        LDX #12
last:   STA WSYNC
        DEX
        BNE last
        STX PF1
        STX PF2
        LDA #2
        STA VBLANK
        LDX #31
over:   STA WSYNC
        DEX
        BNE over
        JMP frame
first:  .byte 128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0
second: .byte 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128
"""

RULES = '''
[apples]
minimal_actions = [0, 3, 4]  # no-op, right, left
modes = [0]
difficulties = [0]
state = { score = 0, reward = 0, terminal = 0 }
lives = "ram(0x84)"
step = """
points = ram(0x83)
reward = points - score
score = points
terminal = ram(0x84) == 0"""
'''


def write_game(folder: Path) -> tuple[Path, Path]:
    """Assemble the ROM, and write it and its rules."""
    code, names = assemble(SOURCE, 0xF000)
    rom = bytearray(4096)
    rom[: len(code)] = code
    rom[-4:-2] = names["start"].to_bytes(2, "little")  # where the processor starts
    folder.mkdir(parents=True, exist_ok=True)
    rom_path, rules = folder / "apples.bin", folder / "apples.toml"
    rom_path.write_bytes(rom)
    rules.write_text(RULES)
    return rom_path, rules


def as_text(screen: np.ndarray) -> str:
    """A gray screen, uint8 ``[H, 160]``, as characters."""
    shades = np.array(list(" .:-=+*#%@"))
    return "\n".join("".join(row) for row in shades[screen[::12, ::4] // 26])


def follow(ram: np.ndarray) -> np.ndarray:
    """0, 1 or 2: stay, right, left, towards the apple; RAM uint8 ``[N, 128]``."""
    basket, apple = ram[:, 0].astype(int), ram[:, 1].astype(int)
    return np.where(apple > basket, 1, np.where(apple < basket, 2, 0))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("build", "apples"))
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()

rom_path, rules = write_game(args.out)
env = cule.AtariVectorEnv("apples", 16, rom_path=rom_path, rules=rules, noop_max=0)
env.reset(seed=0)
for name, choose in (
    ("random", lambda rng, ram: rng.integers(3, size=16)),
    ("follow the apple", lambda rng, ram: follow(ram)),
):
    rng, points = np.random.default_rng(0), 0
    for _ in range(args.steps):
        points += int(env.step(choose(rng, env.ram))[1].sum())
    print(f"{name}: {points} points of 16 environments in {args.steps} steps")
print(as_text(env.screens("gray", [0])[0]))
print(f"{rom_path} and {rules} are a game for every command of cule")
env.close()
