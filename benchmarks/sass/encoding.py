"""Instructions as the executor reads them: numbers instead of text (native/warp.hpp)."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.sass import latencies
from benchmarks.sass.disassembly import Control, Disassembly, Instruction

OPERAND = np.dtype(
    [
        *((name, np.uint8) for name in ("kind", "flags", "scale", "padding")),
        *((name, np.uint16) for name in ("index", "extra")),
        ("value", np.uint64),
    ]
)
MOST_OPERANDS = 8
INSTRUCTION = np.dtype(
    [
        ("kinds", np.uint64, 2),
        *((name, np.uint32) for name in ("operation", "offset", "place")),
        *((name, np.uint16) for name in ("guard", "latency", "read_latency")),
        *((name, np.uint8) for name in ("stall", "write", "read", "waits", "count", "padding")),
        ("operands", OPERAND, MOST_OPERANDS),
    ]
)
_WORD, _NUMBER, _CONSTANT, _PREDICATE, _ADDRESS, _PLACE, _SPECIAL = range(1, 8)
_NEGATIVE, _COMPLEMENT, _ABSOLUTE, _BYTE, _WIDE = 1, 2, 4, 8, 16
_SIGNS = {"-": _NEGATIVE, "~": _COMPLEMENT, "!": _COMPLEMENT}
#: Rows of R0, UR0 and B0, and numbers of RZ and URZ.
_FILES = {"R": (0, 255), "UR": (257, 63), "B": (322, 0)}

_REGISTER = re.compile(r"([-~]?)(\|?)(UR|R|B)(\d+|Z)(?:\.B([0-3]))?\|?")
_CONSTANT_BANK = re.compile(r"([-~]?)(\|?)c\[0x(\w+)\]\[(?:(R\w+))?\+?(-?0x\w+)?\]\|?")
_MEMORY = re.compile(
    r"(?:desc\[UR\d+\])?"
    r"\[(?:(R\d+|RZ)((?:\.\w+)*))?\+?(?:(UR\d+)(?:\.64)?)?\+?(-?0x[0-9a-f]+)?\]"
)
_PREDICATE_NAME = re.compile(r"(!?)(U?)P([T\d])")
_INDEXED_PLACE = re.compile(r"(U?R\d+)\s+(-?0x[0-9a-f]+)?\s*(?:`\(.*\))?")
_INTEGER = re.compile(r"-?0x[0-9a-f]+|-?\d+")
_SCALES = {"X4": 2, "X8": 3, "X16": 4}

Values = dict[str, int]


class UnknownOperandError(Exception):
    """An operand that is not understood."""


def row_of(name: str) -> int:
    """Row of R12, UR3, B0 or RZ."""
    match = _REGISTER.fullmatch(name)
    assert match, name
    first, zero = _FILES[match[3]]
    return first + (zero if match[4] == "Z" else int(match[4]))


def predicate_number(text: str) -> tuple[int, bool]:
    """Number of P3 or UP1, and whether it is negated."""
    match = _PREDICATE_NAME.fullmatch(text)
    assert match, text
    return (8 if match[2] else 0) + (7 if match[3] == "T" else int(match[3])), bool(match[1])


def _number(text: str, name: str) -> int:
    """An immediate: float32 or float64 for operations on these, and else a word."""
    is_float = name.startswith(("F", "MUFU", "D")) and name not in ("FLO", "FSEL", "DEPBAR")
    if _INTEGER.fullmatch(text) and not (is_float and "0x" not in text):
        return int(text, 0) % 2**32
    try:
        value = float(text.replace("INF", "inf").replace("QNAN", "nan"))
    except ValueError:
        raise UnknownOperandError(text) from None
    if name.startswith("D"):
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _address(match: re.Match[str]) -> Values:
    base, suffixes, uniform, offset = match.groups()
    values = {"kind": _ADDRESS, "index": row_of(base or "RZ"), "extra": row_of(uniform or "URZ")}
    values["value"] = int(offset or "0", 16) % 2**64
    for suffix in filter(None, (suffixes or "").split(".")):
        if suffix == "64":
            values["flags"] = _WIDE
        elif suffix in _SCALES:
            values["scale"] = _SCALES[suffix]
        elif suffix != "U32":
            raise UnknownOperandError(match[0])
    return values


def encode_operand(
    text: str, name: str, labels: Mapping[str, int], specials: Mapping[str, int]
) -> Values:
    """Fields of an operand of the operation `name`; those left out are 0."""
    if match := _PREDICATE_NAME.fullmatch(text):
        number, is_negated = predicate_number(text)
        return {"kind": _PREDICATE, "index": number, "flags": _COMPLEMENT * is_negated}
    if match := _REGISTER.fullmatch(text):
        flags = _SIGNS.get(match[1], 0) | _ABSOLUTE * bool(match[2]) | _BYTE * bool(match[5])
        row = row_of(f"{match[3]}{match[4]}")
        return {"kind": _WORD, "index": row, "flags": flags, "extra": int(match[5] or 0)}
    if match := _CONSTANT_BANK.fullmatch(text):
        flags = _SIGNS.get(match[1], 0) | _ABSOLUTE * bool(match[2])
        offset = int(match[5] or "0", 16) % 2**64
        row, bank = row_of(match[4] or "RZ"), int(match[3], 16)
        return {"kind": _CONSTANT, "index": row, "extra": bank, "flags": flags, "value": offset}
    if match := _MEMORY.fullmatch(text):
        return _address(match)
    if text.startswith("`("):
        return {"kind": _PLACE, "value": labels[text[2:-1]]}
    if text.replace(".", "_") in specials:
        return {"kind": _SPECIAL, "value": specials[text.replace(".", "_")]}
    if match := _INDEXED_PLACE.fullmatch(text):
        value = int(match[2] or "0", 16) % 2**64
        return {"kind": _PLACE, "index": row_of(match[1]), "value": value}
    if text == "PR" or re.fullmatch(r"SB\d", text):
        return {}
    return {"kind": _NUMBER, "value": _number(text, name)}


def _pack_halves(operands: list[str]) -> list[str]:
    """HFMA2 with two float16 as its last operands, the high one first: one word."""
    halves = [struct.unpack("<H", struct.pack("<e", float(text)))[0] for text in operands[3:5]]
    return [*operands[:3], hex(halves[0] << 16 | halves[1])]


class Encoder:
    """Knows the names that the executor knows."""

    def __init__(self, kinds: str, specials: str, operations: str) -> None:
        """Arguments are the executor's lists, one name a line."""
        self._kinds = {kind: number for number, kind in enumerate(kinds.split())}
        self._specials = {name: number for number, name in enumerate(specials.split())}
        self._operations = {
            name: (number, frozenset(accepted))
            for number, (name, *accepted) in enumerate(map(str.split, operations.splitlines()), 1)
        }

    def _operation(self, mnemonic: str) -> tuple[int, list[str]]:
        """Its number, 0 if it is not known, and its suffixes."""
        if mnemonic in self._operations:
            return self._operations[mnemonic][0], []
        name, *kinds = mnemonic.split(".")
        if name not in self._operations:  # an operation of the uniform datapath: UIADD3, VOTEU
            name = {"S2UR": "S2R", "VOTEU": "VOTE"}.get(name, name.removeprefix("U"))
        number, accepted = self._operations.get(name, (0, frozenset[str]()))
        return (number if accepted.issuperset(kinds) else 0), kinds

    def _fields(
        self, i: Instruction, control: Control, labels: Mapping[str, int]
    ) -> tuple[Values, list[str], list[Values]]:
        """Fields of an instruction but its kinds and operands, kinds, fields of operands."""
        number, kinds = self._operation(i.mnemonic)
        operands: list[Values] = []
        name = i.mnemonic.split(".")[0]
        texts = i.operands
        if name == "HFMA2" and len(texts) == 5:
            texts = _pack_halves(texts)
        try:
            operands = [encode_operand(text, name, labels, self._specials) for text in texts]
        except UnknownOperandError:
            number = 0
        guard, is_negated = predicate_number(i.guard or "PT")
        fields = {
            "operation": number if len(operands) <= MOST_OPERANDS else 0,
            "offset": i.offset,
            "guard": guard + 32 * is_negated,
            "latency": latencies.latency_of(i.mnemonic),
            "read_latency": latencies.READ,
            "stall": control.stall,
            "write": control.write_scoreboard,
            "read": control.read_scoreboard,
            "waits": control.waits,
            "count": len(operands),
        }
        return fields, kinds if number else [], operands[:MOST_OPERANDS]

    def encode(self, code: Disassembly, places: list[int]) -> NDArray[Any]:
        """All instructions; `places` are the numbers that their totals are counted under."""
        records = np.zeros(len(code.instructions), INSTRUCTION)
        controls = code.controls or [Control()] * len(records)
        for record, i, control in zip(records, code.instructions, controls, strict=True):
            fields, kinds, operands = self._fields(i, control, code.labels)
            for field, value in fields.items():
                record[field] = value
            for kind in kinds:
                bit = self._kinds[kind]
                record["kinds"][bit // 64] |= np.uint64(1 << bit % 64)
            for target, operand in zip(record["operands"], operands, strict=False):
                for field, value in operand.items():
                    target[field] = value
        records["place"] = places
        return records
