"""Machine code of a GPU executed in software (benchmarks/sass): lanes that part and meet."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.sass import latencies
from benchmarks.sass.device import Device
from benchmarks.sass.disassembly import Control, Disassembly, parse, read_control
from benchmarks.sass.kernel import Kernel
from benchmarks.sass.module import Module, read_module

PARTING = """
.text.part_and_meet:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   ISETP.LT.U32.AND P0, PT, R0, 0x5, PT ;
        /*0030*/                   BSSY B0, `(.L_x_1) ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/                   IMAD R4, R0, 0x3, RZ ;
        /*0060*/                   BRA `(.L_x_2) ;
.L_x_0:
        /*0070*/                   IADD3 R4, R0, 0x64, RZ ;
.L_x_2:
        /*0080*/                   BSYNC B0 ;
.L_x_1:
        /*0090*/                   VOTE.ANY R5, PT, P0 ;
        /*00a0*/                   IADD3 R4, R4, R5.reuse, RZ ;
        /*00b0*/                   IMAD.WIDE.U32 R2, R0, 0x4, R2 ;
        /*00c0*/                   ST.E desc[UR4][R2.64], R4 ;
        /*00d0*/                   EXIT ;
"""


#: Four lanes copy 16 bytes each over those behind them, into the registers of the address.
WIDE = """
.text.part_of_lanes:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   ISETP.LT.U32.AND P0, PT, R0, 0x4, PT ;
        /*0030*/                   IMAD.WIDE.U32 R4, R0, 0x20, R2 ;
        /*0040*/                   IMAD.WIDE.U32 R2, R0, 0x20, R2 ;
        /*0050*/               @P0 LDG.E.128.CONSTANT R4, desc[UR4][R4.64] ;
        /*0060*/               @P0 ST.E.128 desc[UR4][R2.64+0x10], R4 ;
        /*0070*/                   EXIT ;
"""


def parsed(text: str) -> Disassembly:
    """The only kernel of a disassembly."""
    name = text.split()[0].removeprefix(".text.").rstrip(":")
    return parse(text, Module({}, {}, starts={name: 0}))


def run(text: str, out: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """What 32 lanes stored, and how many instructions the warp executed."""
    out = np.zeros(32, np.uint32) if out is None else out
    code = parsed(text)
    executed = Kernel(code).run(out.ctypes.data.to_bytes(8, "little"))
    return out, executed.total()


#: A kernel calls a function in another section, which nvdisasm writes first.
LINKED = """
.text.twice:
        /*0000*/                   IADD3 R4, R4, R4, RZ ;
        /*0010*/                   RET.ABS.NODEC R20 0x0 ;
.text.kernel:
        /*0000*/                   S2R R4, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   IMAD.WIDE.U32 R2, R4, 0x4, R2 ;
        /*0030*/                   MOV R20, 32@lo((kernel + .L_x_0@srel)) ;
        /*0040*/                   MOV R21, 32@hi((kernel + .L_x_0@srel)) ;
        /*0050*/                   CALL.ABS.NOINC `(twice) ;
.L_x_0:
        /*0060*/                   ST.E desc[UR4][R2.64], R4 ;
        /*0070*/                   EXIT ;
.text.not_reached:
        /*0000*/                   HMMA R5, R4, R4, R4 ;
"""


def test_functions_in_other_sections() -> None:
    module = Module({}, {}, starts={"kernel": 0, "twice": 0x80}, words={0x30: 0x60, 0x40: 0})
    code = parse(LINKED, module)
    assert [i.function for i in code.instructions] == ["kernel"] * 8 + ["twice"] * 2
    out = np.zeros(32, np.uint32)
    assert Kernel(code).run(out.ctypes.data.to_bytes(8, "little")).total() == 10
    assert np.array_equal(out, 2 * np.arange(32))


#: A byte of each lane's number, shifted up, to predicates 2 and 4; a register of them is stored.
BYTES = """
.text.part_of_a_word:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   IMAD.SHL.U32 R5, R0, 0x10000, RZ ;
        /*0030*/                   R2P PR, R5.B2, 0x14 ;
        /*0040*/                   MOV R4, RZ ;
        /*0050*/               @P2 IADD3 R4, R4, 0x1, RZ ;
        /*0060*/               @P4 IADD3 R4, R4, 0x2, RZ ;
        /*0070*/                   IMAD.WIDE.U32 R2, R0, 0x4, R2 ;
        /*0080*/                   ST.E desc[UR4][R2.64], R4 ;
        /*0090*/                   EXIT ;
"""


def test_predicates_from_a_byte() -> None:
    out, _ = run(BYTES)
    lanes = np.arange(32)
    assert np.array_equal(out, (lanes >> 2 & 1) + 2 * (lanes >> 4 & 1))


def test_loads_and_stores_of_four_words() -> None:
    before = np.arange(100, 132, dtype=np.uint32).reshape(4, 2, 4)
    out, _ = run(WIDE, before.copy().reshape(-1))
    assert np.array_equal(out.reshape(4, 2, 4), before[:, [0, 0]])


def test_lanes_part_and_meet_again() -> None:
    out, executed = run(PARTING)
    lanes = np.arange(32)
    votes = 0b11111
    assert np.array_equal(out, np.where(lanes < 5, lanes + 100, 3 * lanes) + votes)
    # Both sides of the branch and the barrier for each group; everything else once for all lanes.
    assert executed == 5 + (2 + 1) + 2 + 5


def test_a_loop_ends_for_each_lane_by_itself() -> None:
    """Lane n goes around n times; a lane that is done leaves the barrier and waits behind it."""
    loop = """
.text.part:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   IMAD.MOV.U32 R4, RZ, RZ, RZ ;
        /*0030*/                   BSSY B1, `(.L_x_1) ;
.L_x_0:
        /*0040*/                   ISETP.GE.AND P0, PT, R4, R0, PT ;
        /*0050*/              @!P0 VIADD R4, R4, 0x1 ;
        /*0060*/              @!P0 BRA `(.L_x_0) ;
        /*0070*/                   BSYNC B1 ;
.L_x_1:
        /*0080*/                   LEA R2, P1, R0, R2, 0x2 ;
        /*0090*/                   IADD3.X R3, R3, RZ, RZ, P1, !PT ;
        /*00a0*/                   ST.E desc[UR4][R2.64], R4 ;
        /*00b0*/                   EXIT ;
"""
    out, executed = run(loop)
    assert np.array_equal(out, np.arange(32))
    # 32 rounds; each lane comes to the barrier alone.
    assert executed == 4 + 32 * 3 + 32 + 4


#: Loads R4 ... R6 and P0 (R6 is odd); an operation; stores R7.
OPERATION = """
.text.part:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   IMAD.WIDE.U32 R2, R0, 0x10, R2 ;
        /*0030*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0040*/                   LOP3.LUT R8, R6, 0x1, RZ, 0xc0, !PT ;
        /*0050*/                   ISETP.NE.U32.AND P0, PT, R8, RZ, PT ;
        /*0060*/                   {} ;
        /*0070*/                   STG.E desc[UR4][R2.64+0xc], R7 ;
        /*0080*/                   EXIT ;
"""


def floats(words: np.ndarray) -> np.ndarray:
    """Float32 of integers that have one."""
    return (words & 0xFFFF).astype(np.float32)


def bits(values: np.ndarray) -> np.ndarray:
    """The words of float32."""
    return values.astype(np.float32).view(np.uint32)


def byte_sum(a: np.ndarray, b: np.ndarray, dtype: type) -> np.ndarray:
    """Dot products of the bytes of words."""
    one, two = (x.view(dtype).reshape(-1, 4).astype(np.int64) for x in (a, b))
    return (one * two).sum(1)


def half_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of the halves of words and the low bytes of others, summed."""
    halves, weights = a.view(np.uint16).reshape(-1, 2), b.view(np.uint8).reshape(-1, 4)[:, :2]
    return (halves.astype(np.int64) * weights).sum(1)


def signed(words: np.ndarray) -> np.ndarray:
    """As int64."""
    return words.view(np.int32).astype(np.int64)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("IADD3 R7, R4, -R5, R6", lambda a, b, c: a - b + c),
        ("IMAD R7, R4, R5, -R6", lambda a, b, c: a * b - c),
        ("IMAD.HI.U32 R7, R4, R5, RZ", lambda a, b, c: a.astype(np.uint64) * b >> 32),
        ("IMAD.HI R7, R4, R5, RZ", lambda a, b, c: signed(a) * signed(b) >> 32),
        ("LOP3.LUT R7, R4, R5, R6, 0x96, !PT", lambda a, b, c: a ^ b ^ c),
        ("LOP3.LUT R7, R4, R5, R6, 0xe2, !PT", lambda a, b, c: (a & b) | (c & ~b)),
        ("SEL R7, R4, R5, P0", lambda a, b, c: np.where(c & 1, a, b)),
        ("VIADDMNMX R7, R4, R5, R6, PT", lambda a, b, c: np.minimum(signed(a + b), signed(c))),
        (
            "VIADDMNMX.RELU R7, R4, -R5, 0x3039, PT",
            lambda a, b, c: np.clip(signed(a - b), 0, 12345),
        ),
        (
            "VIMNMX.U16x2 R7, R4, R5, PT",
            lambda a, b, c: np.minimum(a.view(np.uint16), b.view(np.uint16)).view(np.uint32),
        ),
        ("VIMNMX.U32 R7, R4, R5, !PT", lambda a, b, c: np.maximum(a, b)),
        ("LEA R7, R4, R5, 0x3", lambda a, b, c: (a << 3) + b),
        ("LEA.HI R7, R4, R5, R6, 0x3", lambda a, b, c: (c << 3) + (a >> 29) + b),
        ("SHF.R.U64 R7, R4, 0x7, R6", lambda a, b, c: a >> 7 | c << 25),
        ("SHF.R.S32.HI R7, RZ, 0x1f, R4", lambda a, b, c: signed(a) >> 31),
        ("IDP.4A.U8.U8 R7, R4, R5, R6", lambda a, b, c: byte_sum(a, b, np.uint8) + c),
        ("IDP.2A.LO.U16.U8 R7, R4, R5, R6", lambda a, b, c: half_sum(a, b) + c),
        ("IDP.2A.HI.U16.U8 R7, R4, R5, R6", lambda a, b, c: half_sum(a, b >> 16) + c),
        ("IDP.4A.S8.S8 R7, R4, R5, R6", lambda a, b, c: byte_sum(a, b, np.int8) + c),
        ("PRMT R7, R4, 0x6521, R5", lambda a, b, c: (a >> 8 & 0xFFFF) | (b & 0xFFFF00) << 8),
        ("PRMT R7, R4, 0xbb32, R5", lambda a, b, c: a >> 16 | (signed(a) >> 31) << 16),
        ("SGXT R7, R4, 0x9", lambda a, b, c: signed(a << 23) >> 23),
        ("BMSK R7, 0x3, 0x5", lambda a, b, c: np.full(32, 0b11111000)),
        ("VABSDIFF4.U8.ACC R7, R4, R4, R6", lambda a, b, c: c),
        ("I2F.RP R7, 0x1000001", lambda a, b, c: bits(np.full(32, 0x1000002))),
        ("I2F.RM R7, 0x1000003", lambda a, b, c: bits(np.full(32, 0x1000002))),
        ("I2FP.F32.S32 R7, R4", lambda a, b, c: bits(signed(a))),
        ("FADD R7, R4, -1", lambda a, b, c: bits(a.view(np.float32) - np.float32(1))),
        ("FMUL R7, R4, R5", lambda a, b, c: bits(a.view(np.float32) * b.view(np.float32))),
        ("FMNMX R7, |R4|, R5, !PT", lambda a, b, c: np.maximum(a & 0x7FFF_FFFF, b)),
        ("F2I.U32.NTZ R7, 2.5", lambda a, b, c: np.full(32, 2)),
        ("F2I.FTZ.U32.TRUNC.NTZ R7, -3.5", lambda a, b, c: np.zeros(32)),
        ("FRND.FLOOR R7, -3.5", lambda a, b, c: bits(np.full(32, -4.0))),
        ("HFMA2.MMA R7, -RZ, RZ, 0, 5.9604644775390625e-08", lambda a, b, c: np.ones(32)),
        ("SHFL.BFLY PT, R7, R4, 0x5, 0x1f", lambda a, b, c: a[np.arange(32) ^ 5]),
        ("SHFL.IDX PT, R7, R4, R5, 0x1c1f", lambda a, b, c: a[np.arange(32) & ~3 | b & 3]),
        ("VOTE.ANY R7, PT, P0", lambda a, b, c: np.full(32, sum((c & 1) << np.arange(32)))),
        ("REDUX.MIN.S32 R7, R4", lambda a, b, c: np.full(32, signed(a).min())),
        ("REDUX.AND R7, R4", lambda a, b, c: np.full(32, np.bitwise_and.reduce(a))),
    ],
)
def test_operations(
    operation: str, expected: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
) -> None:
    words = np.random.default_rng(0).integers(0, 2**32, (32, 4), np.uint32)
    words[:, :2] = words[:, :2] & 0xBFFF_FFFF | 0x2000_0000  # finite numbers, as float32 too
    if operation.startswith(("FMNMX", "FMUL")):
        words[:, 1] &= 0x7FFF_FFFF
    a, b, c = (words[:, k].copy() for k in range(3))
    run(OPERATION.format(operation), words)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.asarray(expected(a, b, c)).astype(np.int64) & 0xFFFF_FFFF
    assert np.array_equal(words[:, 3], wanted), operation


#: The second warp notes that it has come; the first waits for it and stores what it left.
ARRIVAL = """
.text.part:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   ISETP.LT.U32.AND P0, PT, R0, 0x20, PT ;
        /*0030*/               @P0 BRA `(.L_x_0) ;
        /*0040*/                   IMAD.SHL.U32 R5, R0, 0x4, RZ ;
        /*0050*/                   STS [R5], R0 ;
        /*0060*/                   BAR.ARV 0x1, 0x40 ;
        /*0070*/                   EXIT ;
.L_x_0:
        /*0080*/                   BAR.SYNC.DEFER_BLOCKING 0x1, 0x40 ;
        /*0090*/                   LDS R4, [R0.X4+0x80] ;
        /*00a0*/                   IMAD.WIDE.U32 R2, R0, 0x4, R2 ;
        /*00b0*/                   STG.E desc[UR4][R2.64], R4 ;
        /*00c0*/                   EXIT ;
"""


def test_a_warp_waits_for_another() -> None:
    out = np.zeros(32, np.uint32)
    kernel = Kernel(parsed(ARRIVAL))
    kernel.run(out.ctypes.data.to_bytes(8, "little"), threads=(64, 1, 1))
    assert np.array_equal(out, np.arange(32, 64))
    with pytest.raises(RuntimeError, match="wait for each other"):
        kernel.run(out.ctypes.data.to_bytes(8, "little"), threads=(32, 1, 1))


def test_time_of_a_warp() -> None:
    """A load, an instruction that waits for it, one that is issued three cycles later."""
    code = parsed(OPERATION.format("IADD3 R7, R4, R5, R6"))
    load, after, branch = Control(1, write_scoreboard=2), Control(3, waits=0b100), Control()
    code.controls = [branch, branch, branch, load, after, *[branch] * 4]
    words = np.zeros((32, 4), np.uint32)
    executed = Kernel(code).run(words.ctypes.data.to_bytes(8, "little"))
    loaded = 3 + latencies.latency_of("LDG.E.128")
    assert executed.cycles == loaded + 3 + 4
    assert loaded == 3 + 41


def test_controls_of_an_instruction() -> None:
    """Bits 105 to 121 of the 128."""
    wanted = Control(stall=11, write_scoreboard=2, read_scoreboard=5, waits=0b100001)
    high = 11 << 41 | 2 << 46 | 5 << 49 | 0b100001 << 52
    assert read_control(bytes(16) + struct.pack("<QQ", 0, high), 16) == wanted


#: A barrier saved twice; lane 0 comes back from the second copy alone.
SAVED_TWICE = """
.text.part:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDC.64 R2, c[0x0][0x210] ;
        /*0020*/                   ISETP.EQ.U32.AND P0, PT, R0, RZ, PT ;
        /*0030*/                   BSSY B3, `(.L_x_1) ;
        /*0040*/              @!P0 BRA `(.L_x_0) ;
        /*0050*/                   BMOV.32.CLEAR R5, B3 ;
        /*0060*/                   BMOV.32.CLEAR R6, B3 ;
        /*0070*/                   BMOV.32 B3, R6 ;
.L_x_0:
        /*0080*/                   BSYNC B3 ;
.L_x_1:
        /*0090*/                   VOTE.ANY R4, PT, PT ;
        /*00a0*/                   IMAD.WIDE.U32 R2, R0, 0x4, R2 ;
        /*00b0*/                   ST.E desc[UR4][R2.64], R4 ;
        /*00c0*/                   EXIT ;
"""


def test_a_barrier_that_is_saved_keeps_its_lanes() -> None:
    out, _ = run(SAVED_TWICE)
    assert np.array_equal(out, np.full(32, 0xFFFF_FFFF))


def test_what_is_not_known_raises() -> None:
    with pytest.raises(NotImplementedError, match="HMMA"):
        run(PARTING.replace("VOTE.ANY R5, PT, P0", "HMMA R5, R4, R4, R4"))


def test_lanes_that_wait_for_each_other_are_an_error() -> None:
    waits = PARTING.replace("BRA `(.L_x_2)", "WARPSYNC.ALL")
    with pytest.raises(RuntimeError, match="wait for each other"):
        run(waits)


def make_module(relocation: int) -> bytes:
    """An ELF file: the variable "1234", at byte 2 of its section, with its address in bank 4."""
    contents = {
        "": b"",
        ".nv.global.init": b"xx1234",
        ".nv.constant4": bytes(16),
        ".rela.nv.constant4": struct.pack("<QIIq", 8, relocation, 1, 1),
        ".symtab": bytes(24) + struct.pack("<IBBHQQ", 0, 1, 0, 1, 2, 4),
        ".shstrtab": b"",
    }
    names = "\0".join(contents).encode() + b"\0"
    contents[".shstrtab"] = names
    body, heads = bytearray(64), b""
    for name, data in contents.items():
        at = names.index(name.encode() + b"\0")
        heads += struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, len(body), len(data), 0, 0, 1, 0)
        body += data
    struct.pack_into("<Q", body, 0x28, len(body))
    struct.pack_into("<HHH", body, 0x3A, 64, len(contents), len(contents) - 1)
    return bytes(body) + heads


def test_constant_banks_hold_addresses_of_global_variables() -> None:
    module = read_module(make_module(2), "kernel")
    assert module.banks[4][:8] == bytes(8)
    address = int.from_bytes(module.banks[4][8:], "little")
    assert ctypes.string_at(address, 3) == b"234"


def test_a_relocation_that_is_not_known_raises() -> None:
    with pytest.raises(NotImplementedError, match="relocation 7"):
        read_module(make_module(7), "kernel")


def test_blocks_that_are_resident() -> None:
    device = Device(multiprocessors=1)
    assert device.resident_blocks(registers=128, threads=256, shared_bytes=8) == 2
    assert device.resident_blocks(registers=168, threads=128, shared_bytes=20480) == 3
    assert device.resident_blocks(registers=32, threads=256, shared_bytes=0) == 8
    assert device.resident_blocks(registers=32, threads=32, shared_bytes=56 * 1024) == 3
    assert device.resident_blocks(registers=32, threads=32, shared_bytes=0) == 32


def test_predicted_times() -> None:
    device = Device(multiprocessors=2, clock_hz=1000.0, issue_efficiency=0.5)
    assert device.latency_s(cycles=100, blocks=5, resident=2) == pytest.approx(0.3)
    assert device.issue_s(instructions=4000) == pytest.approx(1.0)
