"""The 256 opcodes of the 6507: name, addressing mode and base cycles.

One line of `TABLE` is an instruction: its name, then ``mode:opcode/cycles`` for every form, with a
``+`` where a read pays one more cycle when indexing crosses a page. Of several opcodes with the
same name and mode the first is the one that the assembler uses. Source: the published 6502 opcode
matrix; cycles as ale-py 0.12.1 counts them (LAX zp takes 4).
"""

from __future__ import annotations

from dataclasses import dataclass

DOCUMENTED = """
ADC imm:69/2 zp:65/3 zpx:75/4 abs:6D/4 absx:7D/4+ absy:79/4+ izx:61/6 izy:71/5+
AND imm:29/2 zp:25/3 zpx:35/4 abs:2D/4 absx:3D/4+ absy:39/4+ izx:21/6 izy:31/5+
ASL acc:0A/2 zp:06/5 zpx:16/6 abs:0E/6 absx:1E/7
BCC rel:90/2
BCS rel:B0/2
BEQ rel:F0/2
BIT zp:24/3 abs:2C/4
BMI rel:30/2
BNE rel:D0/2
BPL rel:10/2
BRK imp:00/7
BVC rel:50/2
BVS rel:70/2
CLC imp:18/2
CLD imp:D8/2
CLI imp:58/2
CLV imp:B8/2
CMP imm:C9/2 zp:C5/3 zpx:D5/4 abs:CD/4 absx:DD/4+ absy:D9/4+ izx:C1/6 izy:D1/5+
CPX imm:E0/2 zp:E4/3 abs:EC/4
CPY imm:C0/2 zp:C4/3 abs:CC/4
DEC zp:C6/5 zpx:D6/6 abs:CE/6 absx:DE/7
DEX imp:CA/2
DEY imp:88/2
EOR imm:49/2 zp:45/3 zpx:55/4 abs:4D/4 absx:5D/4+ absy:59/4+ izx:41/6 izy:51/5+
INC zp:E6/5 zpx:F6/6 abs:EE/6 absx:FE/7
INX imp:E8/2
INY imp:C8/2
JMP abs:4C/3 ind:6C/5
JSR abs:20/6
LDA imm:A9/2 zp:A5/3 zpx:B5/4 abs:AD/4 absx:BD/4+ absy:B9/4+ izx:A1/6 izy:B1/5+
LDX imm:A2/2 zp:A6/3 zpy:B6/4 abs:AE/4 absy:BE/4+
LDY imm:A0/2 zp:A4/3 zpx:B4/4 abs:AC/4 absx:BC/4+
LSR acc:4A/2 zp:46/5 zpx:56/6 abs:4E/6 absx:5E/7
NOP imp:EA/2
ORA imm:09/2 zp:05/3 zpx:15/4 abs:0D/4 absx:1D/4+ absy:19/4+ izx:01/6 izy:11/5+
PHA imp:48/3
PHP imp:08/3
PLA imp:68/4
PLP imp:28/4
ROL acc:2A/2 zp:26/5 zpx:36/6 abs:2E/6 absx:3E/7
ROR acc:6A/2 zp:66/5 zpx:76/6 abs:6E/6 absx:7E/7
RTI imp:40/6
RTS imp:60/6
SBC imm:E9/2 zp:E5/3 zpx:F5/4 abs:ED/4 absx:FD/4+ absy:F9/4+ izx:E1/6 izy:F1/5+
SEC imp:38/2
SED imp:F8/2
SEI imp:78/2
STA zp:85/3 zpx:95/4 abs:8D/4 absx:9D/5 absy:99/5 izx:81/6 izy:91/6
STX zp:86/3 zpy:96/4 abs:8E/4
STY zp:84/3 zpx:94/4 abs:8C/4
TAX imp:AA/2
TAY imp:A8/2
TSX imp:BA/2
TXA imp:8A/2
TXS imp:9A/2
TYA imp:98/2
"""

UNDOCUMENTED = """
ALR imm:4B/2
ANC imm:0B/2 imm:2B/2
ANE imm:8B/2
ARR imm:6B/2
DCP zp:C7/5 zpx:D7/6 abs:CF/6 absx:DF/7 absy:DB/7 izx:C3/8 izy:D3/8
ISC zp:E7/5 zpx:F7/6 abs:EF/6 absx:FF/7 absy:FB/7 izx:E3/8 izy:F3/8
JAM imp:02/2 imp:12/2 imp:22/2 imp:32/2 imp:42/2 imp:52/2 imp:62/2 imp:72/2 imp:92/2 imp:B2/2
JAM imp:D2/2 imp:F2/2
LAS absy:BB/4+
LAX zp:A7/4 zpy:B7/4 abs:AF/4 absy:BF/4+ izx:A3/6 izy:B3/5+
LXA imm:AB/2
NOP imm:80/2 imm:82/2 imm:89/2 imm:C2/2 imm:E2/2 zp:04/3 zp:44/3 zp:64/3 abs:0C/4
NOP zpx:14/4 zpx:34/4 zpx:54/4 zpx:74/4 zpx:D4/4 zpx:F4/4
NOP absx:1C/4+ absx:3C/4+ absx:5C/4+ absx:7C/4+ absx:DC/4+ absx:FC/4+
NOP imp:1A/2 imp:3A/2 imp:5A/2 imp:7A/2 imp:DA/2 imp:FA/2
RLA zp:27/5 zpx:37/6 abs:2F/6 absx:3F/7 absy:3B/7 izx:23/8 izy:33/8
RRA zp:67/5 zpx:77/6 abs:6F/6 absx:7F/7 absy:7B/7 izx:63/8 izy:73/8
SAX zp:87/3 zpy:97/4 abs:8F/4 izx:83/6
SBC imm:EB/2
SBX imm:CB/2
SHA absy:9F/5 izy:93/6
SHX absy:9E/5
SHY absx:9C/5
SLO zp:07/5 zpx:17/6 abs:0F/6 absx:1F/7 absy:1B/7 izx:03/8 izy:13/8
SRE zp:47/5 zpx:57/6 abs:4F/6 absx:5F/7 absy:5B/7 izx:43/8 izy:53/8
TAS absy:9B/5
"""

OPERAND_BYTES = {
    "imp": 0, "acc": 0, "imm": 1, "rel": 1, "zp": 1, "zpx": 1, "zpy": 1, "izx": 1, "izy": 1,
    "abs": 2, "absx": 2, "absy": 2, "ind": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Opcode:
    """One row of the opcode matrix."""

    code: int
    name: str
    mode: str  # a key of OPERAND_BYTES
    cycles: int  # without what branches and page crossings add
    pays_crossing: bool
    documented: bool

    @property
    def size_bytes(self) -> int:
        """Opcode and operand; the padding byte that BRK skips is not counted."""
        return 1 + OPERAND_BYTES[self.mode]


def _read_table() -> tuple[Opcode, ...]:
    rows = []
    for text, documented in ((DOCUMENTED, True), (UNDOCUMENTED, False)):
        for line in text.split("\n"):
            name, *forms = line.split() or [""]
            for form in forms:
                mode, rest = form.split(":")
                code, cycles = rest.rstrip("+").split("/")
                crosses = rest.endswith("+")
                rows.append(Opcode(int(code, 16), name, mode, int(cycles), crosses, documented))
    return tuple(rows)


OPCODES = _read_table()
BY_FORM = {(opcode.name, opcode.mode): opcode for opcode in reversed(OPCODES)}
