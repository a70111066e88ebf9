"""Cartridges: recognising their types, bank switching, cartridge RAM, and the DPC chip.

A program that is the same in every bank makes random accesses to cartridge space and keeps what it
reads in RAM; what it should have read comes from a small model of each type.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cule import _core
from cule.games.assembler import assemble
from tests.support.cases import long_except
from tests.support.programs import BANK_BYTES, ale_console, core_console, core_game, with_vectors

MACHINE_SEED = 4753849
SUPPORTED = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE", "DPC")

#: Bytes other than those that patterns of cartridge types begin with.
WITHOUT_PATTERNS = [v for v in range(256) if v not in (0x20, 0x85, 0x8D, 0x99, 0x9D, 0xAD, 0xD0)]


def random_bytes(size: int, seed: int = 1) -> bytearray:
    """Random bytes of `WITHOUT_PATTERNS`."""
    return bytearray(random.Random(seed).choices(WITHOUT_PATTERNS, k=size))


# --- detection ------------------------------------------------------------------------------------


def with_pattern(size: int, pattern: str, at: int = 100, times: int = 1) -> bytes:
    data = random_bytes(size)
    code = bytes.fromhex(pattern)
    for i in range(times):
        data[at + 40 * i : at + 40 * i + len(code)] = code
    return bytes(data)


def superchip(banks: int) -> bytes:
    data = random_bytes(banks * BANK_BYTES)
    for bank in range(banks):
        data[bank * BANK_BYTES : bank * BANK_BYTES + 256] = bytes([bank + 5]) * 256
    return bytes(data)


def e7_image() -> bytes:
    data = random_bytes(16384)
    data[0x3800:0x3A00] = bytes([0xFF]) * 0x200
    return bytes(data)


PLAIN = {
    size: bytes(random_bytes(size))
    for size in (2048, 4096, 8192, 12288, 16384, 32768, 65536, 131072)
}
IMAGES: dict[str, tuple[bytes, str]] = {
    "2K": (PLAIN[2048], "2K"),
    "4K": (PLAIN[4096], "4K"),
    "4K of equal halves": (PLAIN[2048] * 2, "2K"),
    "8K": (PLAIN[8192], "F8"),
    "8K of equal halves": (PLAIN[4096] * 2, "4K"),
    "16K": (PLAIN[16384], "F6"),
    "32K": (PLAIN[32768], "F4"),
    "12K": (PLAIN[12288], "FASC"),
    "64K": (PLAIN[65536], "MB"),
    "128K": (PLAIN[131072], "MC"),
    "8448": (bytes(random_bytes(8448)), "AR"),
    "2 x 8448": (bytes(random_bytes(2 * 8448)), "AR"),
    "8K with RAM": (superchip(2), "F8SC"),
    "16K with RAM": (superchip(4), "F6SC"),
    "32K with RAM": (superchip(8), "F4SC"),
    "8K with RAM in one bank only": (superchip(1) + PLAIN[4096], "F8"),
    "16K E7": (e7_image(), "E7"),
    "16K of one value at E7's place": (e7_image()[:0x37E0] + b"\xff" * 0x240 + e7_image()[0x3A20:], "F6"),
    **{f"CV {p}": (with_pattern(4096, p), "CV") for p in ("9DFFF3", "9900F4")},
    "CV of 2K": (with_pattern(2048, "9DFFF3"), "CV"),
    **{f"E0 {p}": (with_pattern(8192, p), "E0")
       for p in ("8DE01F", "8DE05F", "8DE9FF", "ADE9FF", "ADEDFF", "ADF3BF")},
    **{f"FE {p}": (with_pattern(8192, p), "FE")
       for p in ("2000D0C6C5", "20C3F8A582", "D0FB2073FE", "2000F084D6")},
    "UA": (with_pattern(8192, "8D4002"), "UA"),
    "3E of 8K": (with_pattern(8192, "853EA900"), "3E"),
    "3E of 64K": (with_pattern(65536, "853EA900"), "3E"),
    "3F of 8K": (with_pattern(8192, "853F", times=2), "3F"),
    "3F of 16K": (with_pattern(16384, "853F", times=2), "3F"),
    "3F once": (with_pattern(8192, "853F"), "F8"),
    "E0 at the very end is not looked at": (with_pattern(8192, "8DE01F", at=8189), "F8"),
    "E0 one byte before": (with_pattern(8192, "8DE01F", at=8188), "E0"),
    "E0 comes before 3F": (with_pattern(8192, "8DE01F" + "853F" * 2), "E0"),
    **{f"DPC of {size}": (bytes(random_bytes(size)), "DPC") for size in (10240, 10495, 10496)},
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_detection(name: str) -> None:
    image, expected = IMAGES[name]
    assert _core.detect_bankswitch(image) == expected


@pytest.mark.parametrize(
    "name", [name for name, (_, kind) in IMAGES.items() if kind not in SUPPORTED]
)
def test_unsupported_types_are_rejected_by_name(name: str) -> None:
    image, kind = IMAGES[name]
    with pytest.raises(_core.UnsupportedRomError, match=f"type {kind} .*{len(image)} bytes"):
        core_game(image)


@pytest.mark.parametrize("size", [0, 1, 1024, 6000, 8191])
def test_sizes_of_no_cartridge(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        _core.detect_bankswitch(bytes(random_bytes(size)))
    with pytest.raises(_core.UnsupportedRomError, match=f"{size} bytes"):
        core_game(bytes(random_bytes(size)))


# --- models ---------------------------------------------------------------------------------------


class Draws:
    """The machine's generator."""

    def __init__(self) -> None:
        generator = np.random.MT19937()
        generator._legacy_seeding(MACHINE_SEED)
        self.values = [int(v) for v in generator.random_raw(2000)]
        self.used = 0

    def take(self, count: int) -> list[int]:
        self.used += count
        return self.values[self.used - count : self.used]


class Banked:
    """2K, 4K, F8, F6 and, with RAM, F8SC and F6SC."""

    def __init__(self, image: bytes, kind: str) -> None:
        self.image, self.kind = image, kind
        self.hotspots = {"F8": range(0xFF8, 0xFFA), "F6": range(0xFF6, 0xFFA)}.get(
            kind[:2], range(0)
        )
        self.start = 1 if kind.startswith("F8") else 0
        self.has_ram = kind.endswith("SC")
        self.ram = [0] * 128
        self.bank = self.start

    def reset(self, draws: Draws) -> None:
        self.bank = self.start
        if self.has_ram:
            self.ram = [draw & 0xFF for draw in draws.take(128)]

    def touch(self, offset: int) -> None:
        if offset in self.hotspots:
            self.bank = offset - self.hotspots[0]

    def read(self, address: int) -> int:
        offset = address & 0xFFF
        self.touch(offset)
        if self.has_ram and 0x80 <= offset < 0x100:
            return self.ram[offset - 0x80]
        return self.image[(self.bank * BANK_BYTES + offset) % len(self.image)]

    def write(self, address: int, value: int) -> None:
        offset = address & 0xFFF
        self.touch(offset)
        if self.has_ram and offset < 0x80:
            self.ram[offset] = value


class E0:
    """Four windows of 1 KiB."""

    def __init__(self, image: bytes, _: str) -> None:
        self.image = image
        self.slices = [4, 5, 6, 7]

    def reset(self, _: Draws) -> None:
        self.slices = [4, 5, 6, 7]

    def read(self, address: int) -> int:
        offset = address & 0xFFF
        if 0xFE0 <= offset < 0xFF8:
            self.slices[(offset - 0xFE0) // 8] = offset & 7
        return self.image[self.slices[offset >> 10] * 1024 + (offset & 0x3FF)]

    def write(self, address: int, _: int) -> None:
        self.read(address)


class FE:
    """The bank is address bit 13."""

    def __init__(self, image: bytes, _: str) -> None:
        self.image = image

    def reset(self, _: Draws) -> None:
        pass

    def read(self, address: int) -> int:
        return self.image[(address & 0xFFF) + (0 if address & 0x2000 else BANK_BYTES)]

    def write(self, address: int, value: int) -> None:
        pass


MODELS: dict[str, Callable[[bytes, str], Banked | E0 | FE]] = {
    "2K": Banked, "4K": Banked, "F8": Banked, "F8SC": Banked, "F6": Banked, "F6SC": Banked,
    "E0": E0, "FE": FE,
}  # fmt: skip
BYTES = {"2K": 2048, "4K": 4096, "F8": 8192, "F8SC": 8192, "F6": 16384, "F6SC": 16384, "E0": 8192,
         "FE": 8192, "DPC": 10495}  # fmt: skip

# The code begins at offset $C00 of every bank, in E0's fixed window. `frame` marks the frame's start;
# the accesses of the test follow it in RAM at $80 as LDA abs / STA zp or LDA # / STA abs.
HARNESS = """
start:  SEI
        LDX #$EF
        TXS
        LDA $1000               ; a first read of each port shows what a reset left
        STA $F0
        LDA $1080
        STA $F1
        LDA $10FF
        STA $F2
        LDA #$4C
        STA $80
        LDA #<done
        STA $81
        LDA #>done
        STA $82
frame:  LDA #2
        STA VSYNC
        STA WSYNC
        STA WSYNC
        LDA #0
        STA VSYNC
        JMP $0080
done:   JMP frame
"""
ORIGIN = 0xFC00


def harness_image(kind: str) -> bytes:
    """An image of random bytes with the harness in every bank."""
    data = random_bytes(BYTES[kind], seed=len(kind))
    code, names = assemble(HARNESS, ORIGIN)
    banks = max(1, BYTES[kind] // BANK_BYTES)
    for bank in range(banks):
        if kind.endswith("SC"):
            data[bank * BANK_BYTES : bank * BANK_BYTES + 256] = bytes([0xA0 + bank]) * 256
        at = bank * BANK_BYTES + (0x400 if kind == "2K" else 0xC00)
        data[at : at + len(code)] = code
        if kind != "2K":
            with_vectors(data, bank, names["start"], names["start"])
    if kind == "2K":
        data[-4:] = (names["start"] & 0xF7FF).to_bytes(2, "little") * 2
    if kind == "E0":
        data[0:3] = b"\x8d\xe0\x1f"
    if kind == "FE":
        data[0:5] = b"\x20\x00\xd0\xc6\xc5"
    return bytes(data)


HOT = {"F8": (0xFF8, 0xFF9), "F6": (0xFF6, 0xFF7, 0xFF8, 0xFF9), "E0": tuple(range(0xFE0, 0xFF8))}


def random_accesses(rng: random.Random, kind: str, count: int) -> list[tuple[int, int | None]]:
    """Addresses, with the value to write or None for a read."""
    accesses: list[tuple[int, int | None]] = []
    for _ in range(count):
        offset = rng.choice((rng.randrange(0x1000), rng.choice(HOT.get(kind[:2], (0xFFF,))),
                             rng.randrange(0x100), rng.randrange(0xFD0, 0x1000)))  # fmt: skip
        page = rng.choice((0x1000, 0x3000, 0x5000, 0xD000, 0xF000))
        accesses.append((page | offset, rng.randrange(256) if rng.random() < 0.4 else None))
    return accesses


@pytest.mark.parametrize("kind", MODELS)
def test_cartridge_against_its_model(kind: str) -> None:
    image = harness_image(kind)
    assert core_game(image).bankswitch == kind
    console = core_console(image)
    names = assemble(HARNESS, ORIGIN)[1]
    model, draws = MODELS[kind](image, kind), Draws()
    draws.take(129)  # construction: RAM and timer
    for _ in range(3):  # detection, switching on, first reset of the environment
        draws.take(1)
        model.reset(draws)
    rng = random.Random(kind)
    for turn in range(200):
        if turn % 50 == 0:
            if turn:
                console.reset_game()
                draws.take(1)
                model.reset(draws)
            first = [model.read(0x1000), model.read(0x1080), model.read(0x10FF)]
            assert console.ram()[0x70:0x73].tolist() == first, f"after reset {turn // 50}"
        code = b""
        expected = {}
        for i, (address, value) in enumerate(random_accesses(rng, kind, 8)):
            low_high = address.to_bytes(2, "little")
            if value is None:
                code += b"\xad" + low_high + bytes([0x85, 0xD0 + i])
                expected[0x50 + i] = model.read(address)
            else:
                code += bytes([0xA9, value, 0x8D]) + low_high
                model.write(address, value)
        code += b"\x4c" + names["done"].to_bytes(2, "little")
        assert len(code) < 0x50
        for i, byte in enumerate(code):
            console.set_ram(i, byte)
        console.act(0)
        ram = console.ram()
        assert {i: int(ram[i]) for i in expected} == expected, f"turn {turn}"


def test_bank_switching_takes_effect_for_the_next_opcode() -> None:
    # The instruction behind the hotspot access comes from the other bank.
    code = {
        0: "start: LDA $FFF9\n LDX #1\nloop0: STX $90\n JMP loop0",
        1: "start: LDA $FFF8\n LDX #2\nloop1: STX $90\n JMP loop1",
    }
    data = bytearray(8192)
    for bank in (0, 1):
        part = assemble(code[bank], 0xF100)[0]
        data[bank * BANK_BYTES + 0x100 : bank * BANK_BYTES + 0x100 + len(part)] = part
        with_vectors(data, bank, 0xF100, 0xF100)
    data[0:4] = b"\x01\x02\x03\x04"
    assert core_console(bytes(data)).ram()[0x10] == 1  # starts in bank 1, continues in bank 0


@pytest.mark.parametrize("kind", ["F8", "F6"])
def test_a_hotspot_can_be_run_into(kind: str) -> None:
    # NOPs up to the hotspots: fetching them switches banks, each byte comes from the new bank.
    banks = BYTES[kind] // BANK_BYTES
    data = bytearray(BYTES[kind])
    first = 0xFF8 if kind == "F8" else 0xFF6
    for bank in range(banks):
        base = bank * BANK_BYTES
        data[base : base + 6] = bytes([0xA9, bank, 0x85, 0x90, 0x4C, 0x04])
        data[base + 6] = 0xF0
        data[base + 0xFE0 : base + first] = bytes([0xEA]) * (first - 0xFE0)
        for spot in range(first, 0xFFA):
            data[base + spot] = 0xEA if spot < 0xFF9 else 0x4C
        data[base + 0xFFA : base + 0xFFC] = b"\x00\xf0"
        with_vectors(data, bank, 0xFFE0, 0xFFE0)
    assert core_console(bytes(data)).ram()[0x10] == banks - 1


@pytest.mark.parametrize(("kind", "draws_a_reset"), [("F8SC", 129), ("F6SC", 129), ("F8", 1)])
def test_cartridge_ram_is_drawn_at_every_reset(kind: str, draws_a_reset: int) -> None:
    # Stated values: the first cell after the third and the fourth machine reset, and the timer.
    console = core_console(harness_image(kind))
    draws = Draws()
    draws.take(129 + 2 * draws_a_reset)
    for _ in range(3):
        taken = draws.take(draws_a_reset)
        if draws_a_reset > 1:
            assert int(console.ram()[0x71]) == taken[1] & 0xFF
        console.reset_game()
    if kind == "F8SC":
        assert [v & 0xFF for v in Draws().values[129 + 2 * 129 + 1 :][:4]] == [
            0x6D,
            0xE0,
            0x42,
            0x2B,
        ]


# --- DPC ------------------------------------------------------------------------------------------


class DpcRig:
    """A DPC cartridge whose accesses come from RAM, and whose program runs in $080-$FBF."""

    def __init__(self) -> None:
        data = random_bytes(10495, seed=9)
        code, names = assemble(HARNESS.replace("$1000", "$1100").replace("$1080", "$1100"), 0xF400)
        for bank in range(2):
            data[bank * BANK_BYTES + 0x400 : bank * BANK_BYTES + 0x400 + len(code)] = code
            with_vectors(data, bank, names["start"], names["start"])
        self.image = bytes(data)
        self.display = self.image[8192:10240]
        self.done = names["done"]
        self.console = core_console(self.image)

    def run(self, source: str) -> list[int]:
        """Run code at $80; returns the cells from $D0 on."""
        code = assemble(f"{source}\n JMP ${self.done:04X}", 0x80)[0]
        for i, byte in enumerate(code):
            self.console.set_ram(i, byte)
        self.console.act(0)
        return [int(v) for v in self.console.ram()[0x50:0x60]]


def store(*pairs: tuple[int, int]) -> str:
    return "\n".join(f"LDA #{value}\n STA ${0x1000 | at:04X}" for at, value in pairs)


def keep(*addresses: int) -> str:
    return "\n".join(
        f"LDA ${0x1000 | at:04X}\n STA ${0xD0 + i:02X}" for i, at in enumerate(addresses)
    )


def test_dpc_random_numbers() -> None:
    # Writing $070 sets the generator to 1 after the step of that access; each read steps it first.
    def step(g: int) -> int:
        return (g << 1 | ~(g >> 7 ^ g >> 5 ^ g >> 4 ^ g >> 3) & 1) & 0xFF

    got = DpcRig().run(store((0x70, 0)) + "\n" + keep(0, 1, 2, 3, 0))
    expected, g = [], 1
    for _ in range(5):
        g = step(g)
        expected.append(g)
    assert got[:5] == expected
    # Reads of the middle of the bank do not step it; $FC0 and beyond do, and so does any write.
    for between, steps in (("LDA $1200", 0), ("LDA $1FC0", 1), ("STA $1200", 1), ("LDA $107F", 1)):
        got = DpcRig().run(store((0x70, 0)) + f"\n {between}\n" + keep(0))
        g = 1
        for _ in range(steps + 1):
            g = step(g)
        assert got[0] == g, between


@pytest.mark.parametrize("fetcher", long_except(range(8), every=3))
def test_dpc_data_fetchers(fetcher: int) -> None:
    rig = DpcRig()
    at = 0x0123
    setup = store((0x58 + fetcher, at >> 8), (0x50 + fetcher, at & 0xFF), (0x40 + fetcher, 0x21),
                  (0x48 + fetcher, 0x1F))  # fmt: skip
    plain, masked, flag = 0x08 + fetcher, 0x10 + fetcher, 0x38 + fetcher
    got = rig.run(
        setup + "\n" + keep(plain, masked, plain, masked, plain, flag, masked, 0x18 + fetcher)
    )
    data = [rig.display[2047 - (at - i)] for i in range(8)]
    # Count: $123, $122, $121 = top: flag on, $120, $11F = bottom: flag off, ...
    assert got[:8] == [data[0], 0, data[2], data[3], data[4], 0, 0, 0]


def test_dpc_counters_wrap_at_eleven_bits() -> None:
    rig = DpcRig()
    got = rig.run(store((0x58, 0), (0x50, 0), (0x40, 0x80), (0x48, 0x81)) + "\n" + keep(0x08, 0x08))
    assert got[:2] == [rig.display[2047], rig.display[0]]


def test_dpc_music() -> None:
    rig = DpcRig()
    # No fetcher in music mode: amplitude 0. Then fetcher 5 with its flag on: 4.
    assert rig.run(keep(0x04))[0] == 0
    setup = store((0x5D, 0x10), (0x45, 0xFF), (0x4D, 0x00), (0x55, 0))  # low byte: from top
    got = rig.run(setup + "\n" + keep(0x04, 0x3D, 0x04))
    assert got[:3] == [4, 0xFF, 4]


def test_dpc_registers_survive_a_machine_reset() -> None:
    rig = DpcRig()
    rig.run(store((0x5B, 1), (0x53, 0x40), (0x43, 0x80), (0x4B, 0x81)))
    rig.console.reset_game()
    assert rig.run(keep(0x0B))[0] == rig.display[2047 - 0x140]


# --- and live -------------------------------------------------------------------------------------


@pytest.mark.ale
@pytest.mark.parametrize("kind", long_except([*MODELS, "DPC"], every=2))
def test_cartridge_in_ale_py(kind: str, tmp_path: Path) -> None:
    image = DpcRig().image if kind == "DPC" else harness_image(kind)
    done = DpcRig().done if kind == "DPC" else assemble(HARNESS, ORIGIN)[1]["done"]
    console, ale = core_console(image), ale_console(image, tmp_path)
    rng = random.Random(kind)
    for turn in range(300):
        if turn % 100 == 99:
            console.reset_game()
            ale.reset_game()
        code = b""
        for i, (address, value) in enumerate(random_accesses(rng, kind, 8)):
            if kind == "DPC" and rng.random() < 0.8:
                address = 0x1000 | rng.randrange(0x80)
            low_high = address.to_bytes(2, "little")
            read = b"\xad" + low_high + bytes([0x85, 0xD0 + i])
            code += read if value is None else bytes([0xA9, value, 0x8D]) + low_high
        code += b"\x4c" + done.to_bytes(2, "little")
        for i, byte in enumerate(code):
            console.set_ram(i, byte)
            ale.setRAM(i, byte)
        assert console.act(0) == ale.act(0)
        assert console.ram().tolist() == ale.getRAM().tolist(), f"turn {turn}"
