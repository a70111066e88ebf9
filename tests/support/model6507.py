"""A plain model of the 6507 and what it can read, for comparison with the core.

Written for clarity, straight from the description of the chip: one method an operation, one table of
addressing modes. It has RAM, a 4 KiB ROM, the RIOT timer, and of the TIA only what reaches the
program without any drawing: the line clock (WSYNC), the end of a frame (VSYNC), idle inputs, undriven
bits. Collision latches are always clear.
"""

from __future__ import annotations

from cule.games.opcodes import OPCODES

BY_CODE = {opcode.code: opcode for opcode in OPCODES}

CYCLES_PER_LINE = 76
WSYNC, VSYNC = 2, 0
SWCHA_IDLE, SWCHB_IDLE = 0xFF, 0x3F


class Jammed(Exception):
    """An opcode stopped the processor."""


class Model6507:
    """The machine between the end of one frame and the end of the next."""

    def __init__(self, rom: bytes, ram: bytes, pc: int) -> None:
        self.rom = rom
        self.ram = bytearray(ram)
        self.a = self.x = self.y = 0
        self.sp = 0xFF
        self.pc = pc
        self.n = self.v = self.d = self.i = self.z = self.c = 0
        self.cycles = 0
        self.bus = 0
        self.was_read = True
        self.vsync_finish: int | None = None  # cycle from which releasing VSYNC ends the frame
        self.frame_over = False
        self.timer_start, self.timer_shift, self.timer_set = 0, 6, 0
        self.first_late_read: int | None = None
        self.swacnt = 0
        self.tia_writes: list[tuple[int, int, int]] = []  # cycle, register, value

    # --- memory ---
    def read(self, address: int) -> int:
        if address & 0x1000:
            value = self.rom[address & 0xFFF]
        elif not address & 0x80:
            value = self.bus & 0x3F | (0x80 if address & 0xF in (0xC, 0xD) else 0)
        elif not address & 0x200:
            value = self.ram[address & 0x7F]
        else:
            value = self.read_riot(address & 7)
        self.bus = value
        self.was_read = True
        return value

    def write(self, address: int, value: int) -> None:
        if address & 0x1000:
            pass
        elif not address & 0x80:
            self.write_tia(address & 0x3F, value)
        elif not address & 0x200:
            self.ram[address & 0x7F] = value
        elif address & 7 == 1:
            self.swacnt = value
        elif address & 0x14 == 0x14:
            self.timer_start, self.timer_set = value, self.cycles
            self.timer_shift = (0, 3, 6, 10)[address & 3]
            self.first_late_read = None
        self.bus = value
        self.was_read = False

    def write_tia(self, register: int, value: int) -> None:
        self.tia_writes.append((self.cycles, register, value))
        if register == WSYNC and self.was_read:
            self.cycles += -self.cycles % CYCLES_PER_LINE
        elif register == VSYNC and value & 2:
            self.vsync_finish = self.cycles + CYCLES_PER_LINE
        elif register == VSYNC and self.vsync_finish is not None:
            self.frame_over = self.cycles >= self.vsync_finish

    def read_riot(self, register: int) -> int:
        if register < 4:
            return (SWCHA_IDLE, self.swacnt, SWCHB_IDLE, 0)[register]
        span = self.timer_start << self.timer_shift
        elapsed = self.cycles - 1 - self.timer_set
        is_expired = elapsed >> self.timer_shift >= self.timer_start
        if register & 1:
            return 0x80 if is_expired and self.first_late_read is None else 0
        value = self.timer_start - 1 - (elapsed >> self.timer_shift)
        if is_expired:
            if self.first_late_read is None and elapsed > span:
                self.first_late_read = self.cycles
            if self.first_late_read is None:
                return 0xFF
            value -= self.first_late_read - self.timer_set - span - 1
        return value & 0xFF

    def fetch(self) -> int:
        value = self.read(self.pc)
        self.pc = self.pc + 1 & 0xFFFF
        return value

    def read_word(self, low: int, high: int) -> int:
        return self.read(low) | self.read(high) << 8

    def push(self, value: int) -> None:
        self.write(0x100 | self.sp, value)
        self.sp = self.sp - 1 & 0xFF

    def peek_stack(self) -> int:
        return self.read(0x100 | self.sp)

    def pull(self) -> int:
        self.sp = self.sp + 1 & 0xFF
        return self.peek_stack()

    # --- status ---
    @property
    def p(self) -> int:
        return self.n << 7 | self.v << 6 | 0x30 | self.d << 3 | self.i << 2 | self.z << 1 | self.c

    @p.setter
    def p(self, value: int) -> None:
        self.n, self.v, self.d = value >> 7, value >> 6 & 1, value >> 3 & 1
        self.i, self.z, self.c = value >> 2 & 1, value >> 1 & 1, value & 1

    def nz(self, value: int) -> int:
        self.n, self.z = value >> 7, int(value == 0)
        return value

    # --- one instruction ---
    def step(self) -> None:
        """Execute one instruction.

        Raises:
            Jammed: It was an opcode that stops the processor.
        """
        opcode = BY_CODE[self.fetch()]
        self.cycles += opcode.cycles
        if opcode.name == "JAM":
            raise Jammed
        if opcode.name == "JSR":  # the high byte is fetched between the pushes and the jump
            self.jsr()
            return
        address = self.address(opcode.mode, opcode.pays_crossing)
        operation = getattr(self, f"op_{opcode.name.lower()}", None)
        if operation is not None:
            operation(address)
        elif opcode.mode == "rel":
            self.branch(opcode.name, address)
        elif opcode.mode == "acc":
            self.a = getattr(self, f"change_{opcode.name.lower()}")(self.a)
        elif hasattr(self, f"change_{opcode.name.lower()}"):
            value = getattr(self, f"change_{opcode.name.lower()}")(self.read(address))
            self.write(address, value)
        elif hasattr(self, f"store_{opcode.name.lower()}"):
            self.write(address, getattr(self, f"store_{opcode.name.lower()}")(address))
        else:
            value = self.read(address) if opcode.mode != "imp" else 0
            getattr(self, f"use_{opcode.name.lower()}")(value)

    def address(self, mode: str, pays_crossing: bool) -> int:
        if mode in ("imp", "acc"):
            return 0
        if mode == "imm":
            self.pc = self.pc + 1 & 0xFFFF
            return self.pc - 1 & 0xFFFF
        if mode == "rel":
            distance = self.fetch()
            return self.pc + (distance ^ 0x80) - 0x80 & 0xFFFF
        if mode in ("zp", "zpx", "zpy"):
            return self.fetch() + {"zp": 0, "zpx": self.x, "zpy": self.y}[mode] & 0xFF
        if mode == "izx":
            pointer = self.fetch() + self.x & 0xFF
            return self.read_word(pointer, pointer + 1)
        if mode == "izy":
            pointer = self.fetch()
            base = self.read_word(pointer, pointer + 1)
            index = self.y
        else:
            base = self.fetch()
            base |= self.fetch() << 8
            index = {"abs": 0, "ind": 0, "absx": self.x, "absy": self.y}[mode]
        if mode == "ind":
            return self.read_word(base, base & 0xFF00 | base + 1 & 0xFF)
        address = base + index & 0xFFFF
        if pays_crossing and address >> 8 != base >> 8:
            self.cycles += 1
        return address

    def branch(self, name: str, target: int) -> None:
        taken = {
            "BPL": not self.n, "BMI": self.n, "BVC": not self.v, "BVS": self.v,
            "BCC": not self.c, "BCS": self.c, "BNE": not self.z, "BEQ": self.z,
        }[name]  # fmt: skip
        if taken:
            self.cycles += 1 if target >> 8 == self.pc >> 8 else 2
            self.pc = target

    # --- control ---
    def op_jmp(self, address: int) -> None:
        self.pc = address

    def jsr(self) -> None:
        low = self.fetch()
        self.peek_stack()
        self.push(self.pc >> 8)
        self.push(self.pc & 0xFF)
        self.pc = low | self.read(self.pc) << 8

    def op_rts(self, _: int) -> None:
        self.peek_stack()
        self.pc = self.pull()
        self.pc |= self.pull() << 8
        self.fetch()

    def op_rti(self, _: int) -> None:
        self.peek_stack()
        self.p = self.pull()
        self.pc = self.pull()
        self.pc |= self.pull() << 8

    def op_brk(self, _: int) -> None:
        self.fetch()
        for value in (self.pc >> 8, self.pc & 0xFF, self.p):
            self.push(value)
        self.i = 1
        self.pc = self.read_word(0xFFFE, 0xFFFF)

    def op_pha(self, _: int) -> None:
        self.push(self.a)

    def op_php(self, _: int) -> None:
        self.push(self.p)

    def op_pla(self, _: int) -> None:
        self.peek_stack()
        self.a = self.nz(self.pull())

    def op_plp(self, _: int) -> None:
        self.peek_stack()
        self.p = self.pull()

    # --- values read ---
    def use_nop(self, value: int) -> None:
        pass

    def use_lda(self, value: int) -> None:
        self.a = self.nz(value)

    def use_ldx(self, value: int) -> None:
        self.x = self.nz(value)

    def use_ldy(self, value: int) -> None:
        self.y = self.nz(value)

    def use_lax(self, value: int) -> None:
        self.a = self.x = self.nz(value)

    def use_ora(self, value: int) -> None:
        self.a = self.nz(self.a | value)

    def use_and(self, value: int) -> None:
        self.a = self.nz(self.a & value)

    def use_eor(self, value: int) -> None:
        self.a = self.nz(self.a ^ value)

    def use_bit(self, value: int) -> None:
        self.z, self.n, self.v = int(self.a & value == 0), value >> 7, value >> 6 & 1

    def compare(self, register: int, value: int) -> None:
        self.nz(register - value & 0xFF)
        self.c = int(register >= value)

    def use_cmp(self, value: int) -> None:
        self.compare(self.a, value)

    def use_cpx(self, value: int) -> None:
        self.compare(self.x, value)

    def use_cpy(self, value: int) -> None:
        self.compare(self.y, value)

    def add(self, value: int) -> None:
        signed = (self.a ^ 0x80) - 0x80 + (value ^ 0x80) - 0x80 + self.c
        total = self.a + value + self.c
        self.v, self.c = int(not -128 <= signed <= 127), total >> 8
        self.a = self.nz(total & 0xFF)

    def use_adc(self, value: int) -> None:
        if not self.d:
            self.add(value)
            return
        total = 10 * (self.a >> 4) + (self.a & 15) + 10 * (value >> 4) + (value & 15) + self.c
        self.c = int(total > 99)
        total &= 0xFF
        self.set_decimal(16 * (total % 100 // 10) + total % 10, value)

    def use_sbc(self, value: int) -> None:
        if not self.d:
            self.add(value ^ 0xFF)
            return
        borrow = 1 - self.c
        rest = 10 * (self.a >> 4) + (self.a & 15) - 10 * (value >> 4) - (value & 15) - borrow
        self.c = int(self.a >= value + borrow)
        if rest < 0:
            rest += 100
        if rest >= 0:
            self.set_decimal(16 * (rest % 100 // 10) + rest % 10, value)
        else:  # invalid BCD; the reference looks it up in front of its table
            rest += 256
            self.set_decimal(10 * (rest >> 4) + (rest & 15), value)

    def set_decimal(self, result: int, value: int) -> None:
        self.v = ((self.a ^ result) & (result ^ value)) >> 7
        self.a = self.nz(result)

    def use_anc(self, value: int) -> None:
        self.a = self.nz(self.a & value)
        self.c = self.n

    def use_alr(self, value: int) -> None:
        self.a = self.change_lsr(self.a & value)

    def use_arr(self, value: int) -> None:
        t = self.a & value
        r = t >> 1 | self.c << 7
        if not self.d:
            self.a = self.nz(r)
            self.c, self.v = r >> 6 & 1, (r >> 6 ^ r >> 5) & 1
            return
        self.n, self.z, self.v = self.c, int(r == 0), (t ^ r) >> 6 & 1
        self.a = r
        if (t & 0x0F) + (t & 1) > 5:
            self.a = r & 0xF0 | r + 6 & 0x0F
        self.c = int((t & 0xF0) + (t & 0x10) > 0x50)
        if self.c:
            self.a = self.a + 0x60 & 0xFF

    def use_ane(self, value: int) -> None:
        self.a = self.nz((self.a | 0xEE) & self.x & value)

    def use_lxa(self, value: int) -> None:
        self.a = self.x = self.nz((self.a | 0xEE) & value)

    def use_las(self, value: int) -> None:
        self.a = self.x = self.sp = self.nz(self.sp & value)

    def use_sbx(self, value: int) -> None:
        both = self.a & self.x
        self.compare(both, value)
        self.x = both - value & 0xFF

    # --- implied ---
    def use_inx(self, _: int) -> None:
        self.x = self.nz(self.x + 1 & 0xFF)

    def use_iny(self, _: int) -> None:
        self.y = self.nz(self.y + 1 & 0xFF)

    def use_dex(self, _: int) -> None:
        self.x = self.nz(self.x - 1 & 0xFF)

    def use_dey(self, _: int) -> None:
        self.y = self.nz(self.y - 1 & 0xFF)

    def use_tax(self, _: int) -> None:
        self.x = self.nz(self.a)

    def use_tay(self, _: int) -> None:
        self.y = self.nz(self.a)

    def use_txa(self, _: int) -> None:
        self.a = self.nz(self.x)

    def use_tya(self, _: int) -> None:
        self.a = self.nz(self.y)

    def use_tsx(self, _: int) -> None:
        self.x = self.nz(self.sp)

    def use_txs(self, _: int) -> None:
        self.sp = self.x

    def use_clc(self, _: int) -> None:
        self.c = 0

    def use_sec(self, _: int) -> None:
        self.c = 1

    def use_cli(self, _: int) -> None:
        self.i = 0

    def use_sei(self, _: int) -> None:
        self.i = 1

    def use_cld(self, _: int) -> None:
        self.d = 0

    def use_sed(self, _: int) -> None:
        self.d = 1

    def use_clv(self, _: int) -> None:
        self.v = 0

    # --- values stored ---
    def store_sta(self, _: int) -> int:
        return self.a

    def store_stx(self, _: int) -> int:
        return self.x

    def store_sty(self, _: int) -> int:
        return self.y

    def store_sax(self, _: int) -> int:
        return self.a & self.x

    def store_sha(self, address: int) -> int:
        return self.a & self.x & (address >> 8) + 1

    def store_shx(self, address: int) -> int:
        return self.x & (address >> 8) + 1

    def store_shy(self, address: int) -> int:
        return self.y & (address >> 8) + 1

    def store_tas(self, address: int) -> int:
        self.sp = self.a & self.x
        return self.store_sha(address)

    # --- values changed in place ---
    def change_asl(self, value: int) -> int:
        self.c = value >> 7
        return self.nz(value << 1 & 0xFF)

    def change_lsr(self, value: int) -> int:
        self.c = value & 1
        return self.nz(value >> 1)

    def change_rol(self, value: int) -> int:
        result = value << 1 & 0xFF | self.c
        self.c = value >> 7
        return self.nz(result)

    def change_ror(self, value: int) -> int:
        result = value >> 1 | self.c << 7
        self.c = value & 1
        return self.nz(result)

    def change_inc(self, value: int) -> int:
        return self.nz(value + 1 & 0xFF)

    def change_dec(self, value: int) -> int:
        return self.nz(value - 1 & 0xFF)

    def change_slo(self, value: int) -> int:
        result = self.change_asl(value)
        self.use_ora(result)
        return result

    def change_rla(self, value: int) -> int:
        result = self.change_rol(value)
        self.use_and(result)
        return result

    def change_sre(self, value: int) -> int:
        result = self.change_lsr(value)
        self.use_eor(result)
        return result

    def change_rra(self, value: int) -> int:
        result = self.change_ror(value)
        self.use_adc(result)
        return result

    def change_dcp(self, value: int) -> int:
        result = value - 1 & 0xFF
        self.compare(self.a, result)
        return result

    def change_isc(self, value: int) -> int:
        result = value + 1 & 0xFF
        self.use_sbc(result)
        return result
