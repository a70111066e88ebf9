"""The table of micro-operations is what its generator writes."""

from __future__ import annotations

from roms_tools import make_micro_ops
from roms_tools.opcodes import OPCODES


def test_header_is_current() -> None:
    text = make_micro_ops.TARGET.read_text(encoding="utf-8")
    assert text == make_micro_ops.render(), f"run {make_micro_ops.COMMAND}"
    assert make_micro_ops.COMMAND in text.splitlines()[0]


def test_every_opcode_has_its_stages() -> None:
    assert sorted(opcode.code for opcode in OPCODES) == list(range(256))
    for opcode in OPCODES:
        mode, loads, source, _, target = make_micro_ops.stages(opcode)
        assert not loads or mode not in ("kImplied", "kImmediate", "kOwn")
        assert target != "kToMemory" or loads or source != "kLoaded", opcode
