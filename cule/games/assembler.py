"""A small 6507 assembler for test cartridges.

In: source text, one statement per line; ``;`` starts a comment. Out: the bytes from the origin on.

    name:                 label, alone or before a statement
    name = expression     constant
    .org $F100            continue at this address (filled with zeros)
    .byte 1, $02, <name   bytes
    .word name            16-bit words, low byte first
    .wait 23              code of this many cycles (0, or at least 2) that changes no register
    LDA #%10 / LDA name,X / JMP (name) / LSR A ...

Numbers are decimal, ``$`` hexadecimal, ``%`` binary; expressions add and subtract numbers and
names; ``<`` and ``>`` in front take the low and the high byte. Registers are known by name. An
operand is in page zero when its value is below 256, unless it is written with four hexadecimal
digits or has a label in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cule.errors import InvalidArgumentError, shown
from cule.games.opcodes import BY_FORM, OPERAND_BYTES, Opcode

_TIA_WRITES = """
    VSYNC VBLANK WSYNC RSYNC NUSIZ0 NUSIZ1 COLUP0 COLUP1 COLUPF COLUBK CTRLPF REFP0 REFP1 PF0 PF1
    PF2 RESP0 RESP1 RESM0 RESM1 RESBL AUDC0 AUDC1 AUDF0 AUDF1 AUDV0 AUDV1 GRP0 GRP1 ENAM0 ENAM1
    ENABL HMP0 HMP1 HMM0 HMM1 HMBL VDELP0 VDELP1 VDELBL RESMP0 RESMP1 HMOVE HMCLR CXCLR
""".split()
_TIA_READS = """
    CXM0P CXM1P CXP0FB CXP1FB CXM0FB CXM1FB CXBLPF CXPPMM INPT0 INPT1 INPT2 INPT3 INPT4 INPT5
""".split()
_RIOT = {
    "SWCHA": 0x280, "SWACNT": 0x281, "SWCHB": 0x282, "SWBCNT": 0x283, "INTIM": 0x284,
    "INSTAT": 0x285, "TIM1T": 0x294, "TIM8T": 0x295, "TIM64T": 0x296, "T1024T": 0x297,
}  # fmt: skip
REGISTERS: Mapping[str, int] = {
    **{name: i for i, name in enumerate(_TIA_WRITES)},
    **{name: i for i, name in enumerate(_TIA_READS)},
    **_RIOT,
}

_OPERANDS = (
    ("imm", re.compile(r"#(.+)")),
    ("izx", re.compile(r"\((.+),\s*X\)")),
    ("izy", re.compile(r"\((.+)\),\s*Y")),
    ("ind", re.compile(r"\((.+)\)")),
    ("absx", re.compile(r"(.+),\s*X")),
    ("absy", re.compile(r"(.+),\s*Y")),
    ("abs", re.compile(r"(.+)")),
)
#: Addresses, and cycles of a wait, are below.
_END = 0x10000
_ZERO_PAGE = {"abs": "zp", "absx": "zpx", "absy": "zpy"}
_TERM = re.compile(r"\s*([+-]?)\s*(\$[0-9A-Fa-f]+|%[01]+|\d+|\w+)")
_WIDE = re.compile(r"\$[0-9A-Fa-f]{4,}")


def assemble(source: str, origin: int = 0xF000) -> tuple[bytes, dict[str, int]]:
    """Assemble a program.

    Args:
        source: The text.
        origin: Address of the first byte.

    Returns:
        The bytes from `origin` on, and the address or value of every name of the source.

    Raises:
        InvalidArgumentError: A statement is not understood.
    """
    return _Assembler(origin).run(source)


def encode(opcode: Opcode, operand: int = 0) -> bytes:
    """The bytes of one instruction; `operand` is the value that follows the opcode."""
    return bytes([opcode.code]) + operand.to_bytes(OPERAND_BYTES[opcode.mode], "little")


def wait_code(cycles: int) -> bytes:
    """Code that takes `cycles` cycles and changes no register, flag or memory."""
    if cycles == 1 or not 0 <= cycles < _END:
        raise InvalidArgumentError(f"cannot wait {shown(cycles)} cycles; 0, or 2 to {_END - 1}")
    odd = cycles & 1  # NOP zp takes 3, NOP 2
    return bytes([0x04, 0x80]) * odd + bytes([0xEA]) * ((cycles - 3 * odd) // 2)


class _Assembler:
    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.own: dict[str, int] = {}
        self.labels: set[str] = set()
        self.is_final = False

    def run(self, source: str) -> tuple[bytes, dict[str, int]]:
        lines = [line.split(";")[0].strip() for line in source.split("\n")]
        self.labels = {m[1] for line in lines if (m := re.match(r"(\w+):", line))}
        for final in (False, True):
            self.is_final = final
            out = bytearray()
            for number, line in enumerate(lines, 1):
                try:
                    out += self._statement(line, self.origin + len(out))
                except (ValueError, OverflowError) as error:
                    raise InvalidArgumentError(f"line {number}, {shown(line)}: {error}") from None
        return bytes(out), dict(self.own)

    def _statement(self, line: str, at: int) -> bytes:
        if m := re.match(r"(\w+):\s*", line):
            self._define(m[1], at)
            line = line[m.end() :]
        if not line:
            return b""
        if m := re.fullmatch(r"(\w+)\s*=\s*(.+)", line):
            self._define(m[1], self._value(m[2]))
            return b""
        word, rest = (*line.split(None, 1), "")[:2]
        if word in (".byte", ".word"):
            size = 1 if word == ".byte" else 2
            return b"".join(self._number(item, size) for item in rest.split(","))
        if word == ".wait":
            return wait_code(self._value(rest))
        if word == ".org":
            target = self._value(rest)
            if not at <= target <= _END:
                raise InvalidArgumentError(f"already at ${at:04X}; addresses end at ${_END - 1:X}")
            return bytes(target - at)
        return self._instruction(word.upper(), rest, at)

    def _instruction(self, name: str, text: str, at: int) -> bytes:
        if not text or text == "A":
            return encode(
                self._find(name, "acc" if text or (name, "imp") not in BY_FORM else "imp")
            )
        if (name, "rel") in BY_FORM:
            distance = self._value(text) - (at + 2)
            if self.is_final and not -128 <= distance <= 127:
                raise InvalidArgumentError(f"branch over {distance} bytes")
            return encode(self._find(name, "rel"), distance & 0xFF)
        for mode, pattern in _OPERANDS:
            if (m := pattern.fullmatch(text)) is None:
                continue
            value = self._value(m[1])
            small = _ZERO_PAGE.get(mode, "")
            if (name, small) in BY_FORM and value < 0x100 and not self._is_wide(m[1]):
                return encode(self._find(name, small), value)
            if mode == "imm":
                value = int.from_bytes(self._number(m[1], 1), "little")
            return encode(self._find(name, mode), value)
        raise InvalidArgumentError("no such operand")

    def _find(self, name: str, mode: str) -> Opcode:
        if (name, mode) not in BY_FORM:
            raise InvalidArgumentError(f"there is no {shown(name)} with this operand")
        return BY_FORM[name, mode]

    def _is_wide(self, text: str) -> bool:
        return bool(_WIDE.search(text)) or any(w in self.labels for w in re.findall(r"\w+", text))

    def _define(self, name: str, value: int) -> None:
        if not self.is_final and name in self.own:
            raise InvalidArgumentError(f"{shown(name)} is defined twice")
        if name in self.labels and self.own.get(name, value) != value:
            raise InvalidArgumentError(
                f"{shown(name)} moves: code before it depends on a label further down"
            )
        self.own[name] = value

    def _number(self, text: str, size: int) -> bytes:
        """A signed or unsigned value, low byte first."""
        value, bits = self._value(text), 8 * size
        if self.is_final and not -(1 << bits - 1) <= value < 1 << bits:
            raise InvalidArgumentError(f"{shown(value)} does not fit {bits} bits")
        return (value & (1 << bits) - 1).to_bytes(size, "little")

    def _value(self, text: str) -> int:
        text = text.strip()
        half = text[0] if text.startswith(("<", ">")) else ""
        text = text.removeprefix(half).strip()
        if not text:
            raise InvalidArgumentError("a value is missing")
        total, position = 0, 0
        while position < len(text):
            m = _TERM.match(text, position)
            if m is None or (position and not m[1]):
                raise InvalidArgumentError(f"not an expression: {shown(text)}")
            total += -self._term(m[2]) if m[1] == "-" else self._term(m[2])
            position = m.end()
        if half:
            return total >> (8 if half == ">" else 0) & 0xFF
        return total

    def _term(self, word: str) -> int:
        if word[0] == "$":
            return int(word[1:], 16)
        if word[0] == "%":
            return int(word[1:], 2)
        if word.isdecimal():
            return int(word)
        if word in self.own:
            return self.own[word]
        if word in REGISTERS:
            return REGISTERS[word]
        if word in self.labels and not self.is_final:
            return 0xF000  # further down; the second pass knows
        raise InvalidArgumentError(f"unknown name {shown(word)}")
