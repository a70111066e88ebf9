"""Machine code of a GPU executed in software (benchmarks/sass): lanes that part and meet."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from benchmarks.sass.disassembly import parse
from benchmarks.sass.module import read_module
from benchmarks.sass.operations import Kernel

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


def run(text: str, out: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """What 32 lanes stored, and how many instructions the warp executed."""
    out = np.zeros(32, np.uint32) if out is None else out
    executed = Kernel(parse(text, "part", {})).run(out.ctypes.data.to_bytes(8, "little"))
    return out, executed.total()


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
