// cpu/execute.hpp: one instruction of the 6507 as the reference core executes it (NOTES.md).
//
// Order within an instruction: opcode fetch, the whole base cycle count is charged, operand bytes,
// pointer bytes, page-cross cycle, data accesses. All accesses happen at the end-of-instruction
// time; apart from the few dummy reads written out here there are none.
//
// The Bus supplies memory and time:
//   operand(), operand_high()     bytes at pc + 1 and pc + 2; operand_word() both
//   begin(cycles)                 an instruction starts: its base cycles
//   charge(cycles)                further cycles
//   read(address, open_bus), read_zero_page(address, open_bus)
//   write(address, value), write_zero_page(address, value)
//   read_stack(sp, open_bus), write_stack(sp, value, follows_write)
//   transfer(execution, last_byte)  a control transfer was taken; last byte on the bus
//   branch_taken(execution, offset)  likewise, by a branch; pc is the target
//   jam(execution)                an opcode that stops the processor
// `open_bus` is the byte last on the bus before the read: undriven TIA bits show it. A Bus that
// records every access itself may ignore it.
#pragma once

#include "cpu/opcodes.hpp"
#include "cpu/registers.hpp"

namespace cule {

template <class Bus>
struct Execution {
  Bus& bus;
  u32 a, x, y, sp, pc;
  u32 nz;  // Z: low byte is 0; N: bit 7 or bit 8
  u32 c, v, d, i;
  bool is_jammed = false;

  CULE_HD CULE_INLINE Execution(Bus& b, const Registers& r) : bus(b) { load(r); }

  CULE_HD CULE_INLINE void load(const Registers& r) {
    a = r.a;
    x = r.x;
    y = r.y;
    sp = r.sp;
    pc = r.pc;
    is_jammed = r.is_jammed;
    set_status(r.p);
  }

  CULE_HD CULE_INLINE void store(Registers& r) const {
    r.a = u8(a);
    r.x = u8(x);
    r.y = u8(y);
    r.sp = u8(sp);
    r.pc = u16(pc);
    r.p = u8(status());
    r.is_jammed = is_jammed;
  }

  CULE_HD CULE_INLINE u32 status() const {
    return c * kC | ((nz & 0xFF) ? 0 : kZ) | i * kI | d * kD | v * kV | ((nz & 0x180) ? kN : 0);
  }
  CULE_HD CULE_INLINE void set_status(u32 p) {
    c = p & 1;
    i = p >> 2 & 1;
    d = p >> 3 & 1;
    v = p >> 6 & 1;
    nz = ((p & kZ) ? 0 : 1) | (p & kN) << 1;
  }

  struct Ea {
    u32 address;
    u32 open_bus;
  };

  // --- addressing modes; each advances pc past the instruction ---
  CULE_HD CULE_INLINE u32 imm() {
    const u32 m = bus.operand(pc);
    pc += 2;
    return m;
  }
  CULE_HD CULE_INLINE Ea zp_indexed(u32 index) {
    const u32 b = imm();
    return {(b + index) & 0xFF, b};
  }
  CULE_HD CULE_INLINE Ea absolute() {
    const u32 address = bus.operand_word(pc);
    pc += 3;
    return {address, address >> 8};
  }
  CULE_HD CULE_INLINE Ea absolute_indexed(u32 index, bool charges_cross) {
    const Ea base = absolute();
    const u32 address = (base.address + index) & 0xFFFF;
    if (charges_cross && ((address ^ base.address) & 0xFF00)) bus.charge(1);
    return {address, base.open_bus};
  }
  // Pointer at p, p + 1 without wrap: a pointer at $FF takes its high byte from $0100.
  CULE_HD CULE_INLINE Ea pointer(u32 p, u32 open_bus) {
    const u32 low = bus.read_zero_page(p, open_bus);
    const u32 high = p == 0xFF ? bus.read(0x100, low) : bus.read_zero_page(p + 1, low);
    return {low | high << 8, high};
  }
  CULE_HD CULE_INLINE Ea indexed_indirect() {
    const u32 b = imm();
    return pointer((b + x) & 0xFF, b);
  }
  CULE_HD CULE_INLINE Ea indirect_indexed(bool charges_cross) {
    const u32 b = imm();
    const Ea base = pointer(b, b);
    const u32 address = (base.address + y) & 0xFFFF;
    if (charges_cross && ((address ^ base.address) & 0xFF00)) bus.charge(1);
    return {address, base.open_bus};
  }

  // --- operations ---
  CULE_HD CULE_INLINE void set_a(u32 value) { a = nz = value; }
  CULE_HD CULE_INLINE void set_x(u32 value) { x = nz = value; }
  CULE_HD CULE_INLINE void set_y(u32 value) { y = nz = value; }
  CULE_HD CULE_INLINE void bit(u32 m) {
    nz = (a & m) | (m & 0x80) << 1;
    v = m >> 6 & 1;
  }
  CULE_HD CULE_INLINE void compare(u32 reg, u32 m) {
    nz = (reg - m) & 0xFF;
    c = reg >= m;
  }
  CULE_HD CULE_INLINE u32 asl(u32 m) {
    c = m >> 7;
    return nz = (m << 1) & 0xFF;
  }
  CULE_HD CULE_INLINE u32 lsr(u32 m) {
    c = m & 1;
    return nz = m >> 1;
  }
  CULE_HD CULE_INLINE u32 rol(u32 m) {
    const u32 r = (m << 1 & 0xFF) | c;
    c = m >> 7;
    return nz = r;
  }
  CULE_HD CULE_INLINE u32 ror(u32 m) {
    const u32 r = m >> 1 | c << 7;
    c = m & 1;
    return nz = r;
  }
  CULE_HD CULE_INLINE u32 inc(u32 m) { return nz = (m + 1) & 0xFF; }
  CULE_HD CULE_INLINE u32 dec(u32 m) { return nz = (m - 1) & 0xFF; }
  CULE_HD CULE_INLINE void add_binary(u32 m) {
    const u32 sum = a + m + c;
    v = (~(a ^ m) & (a ^ sum)) >> 7 & 1;
    c = sum >> 8;
    a = nz = sum & 0xFF;
  }
  CULE_HD CULE_INLINE void adc(u32 m) {
    if (CULE_UNLIKELY(d)) {
      set_decimal_result(decimal_sum(a, m, c), m);
    } else {
      add_binary(m);
    }
  }
  CULE_HD CULE_INLINE void sbc(u32 m) {
    if (CULE_UNLIKELY(d)) {
      set_decimal_result(decimal_difference(a, m, c), m);
    } else {
      add_binary(m ^ 0xFF);
    }
  }
  CULE_HD static CULE_INLINE u32 from_bcd(u32 t) { return 10 * (t >> 4) + (t & 15); }
  CULE_HD static CULE_INLINE u32 to_bcd(u32 t) { return 16 * ((t % 100) / 10) + t % 10; }
  // Result, and the carry in bit 8. Out of line on the device: rare, and in many places.
  CULE_HD static CULE_DEVICE_NOINLINE u32 decimal_sum(u32 a, u32 m, u32 c) {
    const u32 sum = from_bcd(a) + from_bcd(m) + c;
    return to_bcd(sum & 0xFF) | u32(sum > 99) << 8;
  }
  CULE_HD static CULE_DEVICE_NOINLINE u32 decimal_difference(u32 a, u32 m, u32 c) {
    const u32 borrow = 1 - c;
    i32 difference = i32(from_bcd(a)) - i32(from_bcd(m)) - i32(borrow);
    if (difference < 0) difference += 100;
    // Still negative with invalid BCD: the reference's table shows through (NOTES.md 8.1).
    const u32 result = difference >= 0 ? to_bcd(u32(difference)) : from_bcd(u32(256 + difference));
    return result | u32(a >= m + borrow) << 8;
  }
  CULE_HD CULE_INLINE void set_decimal_result(u32 packed, u32 m) {
    const u32 result = packed & 0xFF;
    v = ((a ^ result) & (result ^ m)) >> 7 & 1;
    c = packed >> 8;
    a = nz = result;
  }
  CULE_HD CULE_INLINE void arr(u32 m) {
    const u32 t = a & m;
    const u32 r = t >> 1 | c << 7;
    if (!d) {
      c = r >> 6 & 1;
      v = (r >> 6 ^ r >> 5) & 1;
      a = nz = r;
      return;
    }
    nz = (r ? 1 : 0) | c << 8;
    v = (t ^ r) >> 6 & 1;
    a = r;
    if ((t & 0x0F) + (t & 1) > 5) a = (a & 0xF0) | ((a + 6) & 0x0F);
    c = (t & 0xF0) + (t & 0x10) > 0x50;
    if (c) a = (a + 0x60) & 0xFF;
  }
  CULE_HD CULE_INLINE void sbx(u32 m) {
    const u32 t = a & x;
    c = t >= m;
    x = nz = (t - m) & 0xFF;
  }
  // Undocumented read-modify-write combinations: new memory value, then the effect on A.
  CULE_HD CULE_INLINE u32 slo(u32 m) {
    const u32 r = asl(m);
    a = nz = a | r;
    return r;
  }
  CULE_HD CULE_INLINE u32 rla(u32 m) {
    const u32 r = rol(m);
    a = nz = a & r;
    return r;
  }
  CULE_HD CULE_INLINE u32 sre(u32 m) {
    const u32 r = lsr(m);
    a = nz = a ^ r;
    return r;
  }
  CULE_HD CULE_INLINE u32 rra(u32 m) {
    const u32 r = ror(m);
    adc(r);
    return r;
  }
  CULE_HD CULE_INLINE u32 dcp(u32 m) {
    const u32 r = (m - 1) & 0xFF;
    compare(a, r);
    return r;
  }
  CULE_HD CULE_INLINE u32 isc(u32 m) {
    const u32 r = (m + 1) & 0xFF;
    sbc(r);
    return r;
  }

  // --- stack and control ---
  // Of a branch: bits 7 and 6 of the opcode name the flag (N V C Z), bit 5 the value that branches.
  CULE_HD CULE_INLINE bool takes_branch(u32 opcode) const {
    const u32 which = opcode >> 6;
    const u32 flag = which == 0   ? u32((nz & 0x180) != 0)
                     : which == 1 ? v
                     : which == 2 ? c
                                  : u32((nz & 0xFF) == 0);
    return flag == (opcode >> 5 & 1);
  }
  CULE_HD CULE_INLINE void push(u32 value, bool follows_write = false) {
    bus.write_stack(sp, value, follows_write);
    sp = (sp - 1) & 0xFF;
  }
  CULE_HD CULE_INLINE u32 pull(u32 open_bus) {
    sp = (sp + 1) & 0xFF;
    return bus.read_stack(sp, open_bus);
  }
  CULE_HD CULE_INLINE void branch(bool taken) {
    const u32 offset = imm();
    if (!taken) return;
    const u32 target = (pc + (offset ^ 0x80) - 0x80) & 0xFFFF;
    bus.charge(((target ^ pc) & 0xFF00) ? 2 : 1);
    pc = target;
    bus.branch_taken(*this, offset);
  }
  CULE_HD CULE_INLINE void jsr() {
    const u32 low = bus.operand(pc);
    bus.read_stack(sp, low);
    const u32 pushed = (pc + 2) & 0xFFFF;
    push(pushed >> 8);
    push(pushed & 0xFF, true);
    const u32 high = bus.operand_high(pc);
    pc = low | high << 8;
    bus.transfer(*this, high);
  }
  CULE_HD CULE_INLINE void rts() {
    u32 open_bus = bus.read_stack(sp, 0x60);
    const u32 low = open_bus = pull(open_bus);
    const u32 high = pull(open_bus);
    pc = low | high << 8;
    const u32 last = bus.read(pc, high);
    pc = (pc + 1) & 0xFFFF;
    bus.transfer(*this, last);
  }
  CULE_HD CULE_INLINE void rti() {
    u32 open_bus = bus.read_stack(sp, 0x40);
    set_status(open_bus = pull(open_bus));
    const u32 low = pull(open_bus);
    const u32 high = pull(low);
    pc = low | high << 8;
    bus.transfer(*this, high);
  }
  CULE_HD CULE_INLINE void brk() {
    bus.operand(pc);
    const u32 pushed = (pc + 2) & 0xFFFF;
    push(pushed >> 8);
    push(pushed & 0xFF, true);
    push(status() | kPushedBits, true);
    i = 1;
    const u32 low = bus.read(0xFFFE, 0);
    const u32 high = bus.read(0xFFFF, low);
    pc = low | high << 8;
    bus.transfer(*this, high);
  }
  CULE_HD CULE_INLINE void jump() {
    const Ea ea = absolute();
    pc = ea.address;
    bus.transfer(*this, ea.open_bus);
  }
  CULE_HD CULE_INLINE void jump_indirect() {
    const Ea p = absolute();
    const u32 low = bus.read(p.address, p.open_bus);
    const u32 high = bus.read((p.address & 0xFF) == 0xFF ? p.address & 0xFF00 : p.address + 1, low);
    pc = low | high << 8;
    bus.transfer(*this, high);
  }

  // --- instructions ---
  CULE_HD CULE_INLINE void step(u32 opcode) {
    switch (opcode) {
      CULE_CASES_OF_BYTE(execute)
      default:  // an opcode is a byte
        break;
    }
  }

  template <u32 kOpcode>
  CULE_HD CULE_INLINE void execute() {
    constexpr Opcode o = make_opcode(kOpcode);
    if constexpr (o.function == Function::kJam) {
      bus.jam(*this);
    } else if constexpr (o.mode == Mode::kOwn) {
      bus.begin(o.cycles);
      control<kOpcode>();
    } else {
      bus.begin(o.cycles);
      const Ea ea = find_address<o.mode, o.pays_crossing()>();
      const u32 result = calculate<kOpcode>(operand<kOpcode>(ea), ea.address);
      if constexpr (o.target == Target::kToA || o.target == Target::kToAX) a = result;
      if constexpr (o.target == Target::kToX || o.target == Target::kToAX) x = result;
      if constexpr (o.target == Target::kToY) y = result;
      if constexpr (o.target == Target::kToSp) sp = result;
      if constexpr (o.stores() && o.in_zero_page()) bus.write_zero_page(ea.address, result);
      if constexpr (o.stores() && !o.in_zero_page()) bus.write(ea.address, result);
    }
  }

 private:
  // An immediate operand is its own address.
  template <Mode kMode, bool kPaysCrossing>
  CULE_HD CULE_INLINE Ea find_address() {
    if constexpr (kMode == Mode::kImplied) {
      pc += 1;
      return {0, 0};
    } else if constexpr (kMode == Mode::kZeroPageX) {
      return zp_indexed(x);
    } else if constexpr (kMode == Mode::kZeroPageY) {
      return zp_indexed(y);
    } else if constexpr (kMode == Mode::kAbsolute) {
      return absolute();
    } else if constexpr (kMode == Mode::kAbsoluteX) {
      return absolute_indexed(x, kPaysCrossing);
    } else if constexpr (kMode == Mode::kAbsoluteY) {
      return absolute_indexed(y, kPaysCrossing);
    } else if constexpr (kMode == Mode::kIndirectX) {
      return indexed_indirect();
    } else if constexpr (kMode == Mode::kIndirectY) {
      return indirect_indexed(kPaysCrossing);
    } else {
      const u32 b = imm();
      return {b, b};
    }
  }

  template <u32 kOpcode>
  CULE_HD CULE_INLINE u32 operand(Ea ea) {
    constexpr Opcode o = make_opcode(kOpcode);
    u32 m = ea.address;
    if constexpr (o.loads() && o.in_zero_page()) m = bus.read_zero_page(ea.address, ea.open_bus);
    if constexpr (o.loads() && !o.in_zero_page()) m = bus.read(ea.address, ea.open_bus);
    if constexpr (o.source == Source::kFromA) m = a;
    if constexpr (o.source == Source::kFromX) m = x;
    if constexpr (o.source == Source::kFromY) m = y;
    if constexpr (o.source == Source::kFromSp) m = sp;
    if constexpr (o.source == Source::kFromAX) m = a & x;
    return m;
  }

  // The result for the target; functions without one set registers and flags themselves.
  template <u32 kOpcode>
  CULE_HD CULE_INLINE u32 calculate(u32 m, u32 address) {
    using F = Function;
    constexpr F f = make_opcode(kOpcode).function;
    if constexpr (f == F::kPass) nz = m;
    if constexpr (f == F::kOr) m = nz = a | m;
    if constexpr (f == F::kAnd) m = nz = a & m;
    if constexpr (f == F::kEor) m = nz = a ^ m;
    if constexpr (f == F::kAdc) adc(m);
    if constexpr (f == F::kSbc) sbc(m);
    if constexpr (f == F::kCompareA) compare(a, m);
    if constexpr (f == F::kCompareX) compare(x, m);
    if constexpr (f == F::kCompareY) compare(y, m);
    if constexpr (f == F::kBit) bit(m);
    if constexpr (f == F::kInc) m = inc(m);
    if constexpr (f == F::kDec) m = dec(m);
    if constexpr (f == F::kAsl) m = asl(m);
    if constexpr (f == F::kLsr) m = lsr(m);
    if constexpr (f == F::kRol) m = rol(m);
    if constexpr (f == F::kRor) m = ror(m);
    if constexpr (f == F::kSlo) m = slo(m);
    if constexpr (f == F::kRla) m = rla(m);
    if constexpr (f == F::kSre) m = sre(m);
    if constexpr (f == F::kRra) m = rra(m);
    if constexpr (f == F::kDcp) m = dcp(m);
    if constexpr (f == F::kIsc) m = isc(m);
    if constexpr (f == F::kFlag) set_flag<kOpcode>();
    if constexpr (f == F::kPha) push(a);
    if constexpr (f == F::kPhp) push(status() | kPushedBits);
    if constexpr (f == F::kPla) set_a(pull(bus.read_stack(sp, kOpcode)));
    if constexpr (f == F::kPlp) set_status(pull(bus.read_stack(sp, kOpcode)));
    if constexpr (f == F::kAnc) set_a(a & m), c = a >> 7;
    if constexpr (f == F::kAlr) set_a(lsr(a & m));
    if constexpr (f == F::kArr) arr(m);
    if constexpr (f == F::kAne) set_a((a | 0xEE) & x & m);
    if constexpr (f == F::kLxa) set_x(a = (a | 0xEE) & m);
    if constexpr (f == F::kSbx) sbx(m);
    if constexpr (f == F::kLas) set_x(a = sp = sp & m);
    if constexpr (f == F::kTas) sp = m;
    // The stored value is masked with the high address byte plus one.
    if constexpr (f == F::kTas || f == F::kStoreHigh) m = m & ((address >> 8) + 1) & 0xFF;
    return m;
  }

  template <u32 kOpcode>
  CULE_HD CULE_INLINE void set_flag() {
    constexpr u32 kValue = kOpcode >> 5 & 1;
    if constexpr (kOpcode == 0x18 || kOpcode == 0x38) c = kValue;
    if constexpr (kOpcode == 0x58 || kOpcode == 0x78) i = kValue;
    if constexpr (kOpcode == 0xD8 || kOpcode == 0xF8) d = kValue;
    if constexpr (kOpcode == 0xB8) v = 0;
  }

  template <u32 kOpcode>
  CULE_HD CULE_INLINE void control() {
    constexpr Function f = make_opcode(kOpcode).function;
    if constexpr (f == Function::kBranch) branch(takes_branch(kOpcode));
    if constexpr (f == Function::kJump) jump();
    if constexpr (f == Function::kJumpIndirect) jump_indirect();
    if constexpr (f == Function::kJsr) jsr();
    if constexpr (f == Function::kRts) rts();
    if constexpr (f == Function::kRti) rti();
    if constexpr (f == Function::kBrk) brk();
  }
};

}  // namespace cule
