// jit/x86.hpp: writes x86-64 machine code: the few instructions that translated blocks consist of.
//
// Only encodings; what is emitted and why is in instructions.cpp and operands.cpp. Jumps go to
// labels of the same piece of code or to absolute addresses within 2 GiB.
#pragma once

#include <cstring>
#include <vector>

#include "base/int.hpp"

namespace cule::jit {

enum Reg : u8 {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15,
  kNoReg,
};

// Numbers of the arithmetic group; of the shift group; of the condition codes.
enum Alu : u8 { kAdd, kOrr, kAdcc, kSbb, kAndd, kSub, kXor, kCmp };
enum Shift : u8 { kRcr = 3, kShl = 4, kShr = 5 };
enum Condition : u8 {
  kIfOverflow,
  kIfBelow = 2,
  kIfNotBelow,
  kIfZero,
  kIfNotZero,
  kIfNotAbove,
  kIfAbove,
  kIfSign,
  kIfNotSign
};

// base + scale * index + displacement
struct Mem {
  Reg base;
  i32 displacement = 0;
  Reg index = kNoReg;
  u8 scale_bits = 0;
};

class Assembler {
 public:
  // `address`: where the first byte will lie when it runs.
  explicit Assembler(u64 address) : address_(address) {}

  const std::vector<u8>& bytes() const { return bytes_; }
  u64 here() const { return address_ + bytes_.size(); }
  size_t size() const { return bytes_.size(); }
  void rewind(size_t size) { bytes_.resize(size); }
  // Another number whenever an instruction may have changed the flags, or a label is here.
  u32 flags() const { return flags_; }

  // --- moves ---
  void move(Reg to, Reg from) { reg_reg(0x8B, to, from); }
  void move64(Reg to, Reg from) { reg_reg(0x8B, to, from, kWide); }
  void set(Reg to, u32 value) {
    if (value == 0) {
      alu(kXor, to, to);
      return;
    }
    rex(0, kRax, kNoReg, to);
    byte(0xB8 | (to & 7));
    word(value);
  }
  void load(Reg to, Mem from) { reg_mem(0x8B, to, from); }
  void load64(Reg to, Mem from) { reg_mem(0x8B, to, from, kWide); }
  void store(Mem to, Reg from) { reg_mem(0x89, from, to); }
  void store64(Mem to, Reg from) { reg_mem(0x89, from, to, kWide); }
  void store(Mem to, u32 value) {
    reg_mem(0xC7, kRax, to);
    word(value);
  }
  void store8(Mem to, Reg from) { reg_mem(0x88, from, to, kByte); }
  void store16(Mem to, u32 value) {
    byte(0x66);
    reg_mem(0xC7, kRax, to);
    byte(value);
    byte(value >> 8);
  }
  void load8(Reg to, Mem from) { reg_mem(0xB6, to, from, kEscape); }   // the rest is 0
  void load16(Reg to, Mem from) { reg_mem(0xB7, to, from, kEscape); }  // the rest is 0
  void extend8(Reg to, Reg from) { reg_reg(0xB6, to, from, kEscape | kByte); }
  void lea(Reg to, Mem from) { reg_mem(0x8D, to, from); }

  // --- arithmetic; 8-bit forms leave the upper bits of the register alone ---
  void alu(Alu op, Reg to, Reg from) { flags_ += 1, reg_reg(u8(op * 8 + 3), to, from); }
  void alu(Alu op, Reg to, Mem from) { flags_ += 1, reg_mem(u8(op * 8 + 3), to, from); }
  void alu(Alu op, Reg to, u32 value) { immediate(op, to, value, 0); }
  void alu64(Alu op, Reg to, u32 value) { immediate(op, to, value, kWide); }
  void alu(Alu op, Mem to, u32 value) {
    const bool is_short = fits_byte(i32(value));
    flags_ += 1;
    reg_mem(is_short ? 0x83 : 0x81, Reg(op), to);
    is_short ? byte(value) : word(value);
  }
  void alu8(Alu op, Reg to, Reg from) { flags_ += 1, reg_reg(u8(op * 8 + 2), to, from, kByte); }
  void alu8(Alu op, Reg to, Mem from) { flags_ += 1, reg_mem(u8(op * 8 + 2), to, from, kByte); }
  void alu8(Alu op, Reg to, u32 value) {
    flags_ += 1;
    reg_reg(0x80, Reg(op), to, kByte);
    byte(value);
  }
  void shift(Shift op, Reg to, u32 count) {
    flags_ += 1;
    reg_reg(0xC1, Reg(op), to);
    byte(count);
  }
  void shift64(Shift op, Reg to, u32 count) {
    flags_ += 1;
    reg_reg(0xC1, Reg(op), to, kWide);
    byte(count);
  }
  void shift8_by_one(Shift op, Reg to) { flags_ += 1, reg_reg(0xD0, Reg(op), to, kByte); }
  void increment8(Reg to) { flags_ += 1, reg_reg(0xFE, kRax, to, kByte); }
  void decrement8(Reg to) { flags_ += 1, reg_reg(0xFE, Reg(1), to, kByte); }
  void multiply(Reg to, Reg from, u32 value) {
    flags_ += 1;
    reg_reg(0x69, to, from);
    word(value);
  }
  void multiply64(Reg to, Reg from, u32 value) {
    flags_ += 1;
    reg_reg(0x69, to, from, kWide);
    word(value);
  }
  void test8(Reg a, Reg b) { flags_ += 1, reg_reg(0x84, b, a, kByte); }
  void test8(Reg a, u32 value) {
    flags_ += 1;
    reg_reg(0xF6, kRax, a, kByte);
    byte(value);
  }
  void test(Reg a, u32 value) {
    flags_ += 1;
    reg_reg(0xF7, kRax, a);
    word(value);
  }
  void set_carry() { flags_ += 1, byte(0xF9); }
  void clear_carry() { flags_ += 1, byte(0xF8); }
  void complement_carry() { flags_ += 1, byte(0xF5); }
  void carry_from_bit0(Reg from) {  // BT
    flags_ += 1;
    reg_reg(0xBA, Reg(4), from, kEscape);
    byte(0);
  }
  void set_if(Condition c, Reg to) { reg_reg(u8(0x90 | c), kRax, to, kEscape | kByte); }
  void set_if(Condition c, Mem to) { reg_mem(u8(0x90 | c), kRax, to, kEscape); }

  // --- control ---
  void push(Reg r) {
    rex(0, kRax, kNoReg, r);
    byte(0x50 | (r & 7));
  }
  void pop(Reg r) {
    rex(0, kRax, kNoReg, r);
    byte(0x58 | (r & 7));
  }
  void ret() { byte(0xC3); }
  void jump(Reg to) { reg_reg(0xFF, Reg(4), to); }
  void jump(Mem to) { reg_mem(0xFF, Reg(4), to); }
  void jump(u64 to) {
    byte(0xE9);
    word(u32(to - (here() + 4)));
  }
  void call(u64 to) {
    flags_ += 1;
    byte(0xE8);
    word(u32(to - (here() + 4)));
  }
  void call(Mem to) { flags_ += 1, reg_mem(0xFF, Reg(2), to); }
  void jump(Condition c, u64 to) { patch(jump_later(c), to); }
  // A jump whose target is not known yet; returns the place for patch().
  size_t jump_later() {
    byte(0xE9);
    word(0);
    return bytes_.size() - 4;
  }
  size_t jump_later(Condition c) {
    byte(0x0F);
    byte(0x80 | c);
    word(0);
    return bytes_.size() - 4;
  }
  void patch(size_t at, u64 target) {
    const u32 offset = u32(target - (address_ + at + 4));
    std::memcpy(&bytes_[at], &offset, sizeof offset);
  }
  void patch_here(size_t at) { flags_ += 1, patch(at, here()); }

 private:
  static constexpr u32 kWide = 1, kByte = 2, kEscape = 4;

  static bool fits_byte(i32 v) { return v >= -128 && v <= 127; }
  void byte(u32 b) { bytes_.push_back(u8(b)); }
  void word(u32 w) {
    for (u32 i = 0; i < 4; ++i) byte(w >> (8 * i));
  }
  void immediate(Alu op, Reg to, u32 value, u32 flags) {
    flags_ += 1;
    const bool is_short = fits_byte(i32(value));
    reg_reg(is_short ? 0x83 : 0x81, Reg(op), to, flags);
    is_short ? byte(value) : word(value);
  }
  // `force`: SIL, DIL and so on exist only with a prefix.
  void rex(u32 flags, Reg reg, Reg index, Reg base, bool force = false) {
    const u32 r = 0x40 | (flags & kWide ? 8 : 0) | (reg >= kR8 && reg != kNoReg ? 4 : 0) |
                  (index >= kR8 && index != kNoReg ? 2 : 0) | (base >= kR8 && base != kNoReg);
    if (r != 0x40 || force) byte(r);
  }
  void opcode(u32 flags, u8 op) {
    if (flags & kEscape) byte(0x0F);
    byte(op);
  }
  void reg_reg(u8 op, Reg reg, Reg rm, u32 flags = 0) {
    rex(flags, reg, kNoReg, rm, (flags & kByte) && (reg >= kRsp || rm >= kRsp));
    opcode(flags, op);
    byte(0xC0 | (reg & 7) << 3 | (rm & 7));
  }
  void reg_mem(u8 op, Reg reg, Mem m, u32 flags = 0) {
    rex(flags, reg, m.index, m.base, (flags & kByte) && reg >= kRsp);
    opcode(flags, op);
    const bool has_index = m.index != kNoReg || (m.base & 7) == kRsp;
    const u32 mode = m.displacement == 0 && (m.base & 7) != kRbp ? 0
                     : fits_byte(m.displacement)                 ? 1
                                                                 : 2;
    byte(mode << 6 | (reg & 7) << 3 | (has_index ? 4 : (m.base & 7)));
    if (has_index) {
      const u32 index = m.index == kNoReg ? 4 : m.index & 7;
      byte(u32(m.scale_bits) << 6 | index << 3 | (m.base & 7));
    }
    if (mode == 1) byte(u32(m.displacement));
    if (mode == 2) word(u32(m.displacement));
  }

  u64 address_;
  std::vector<u8> bytes_;
  u32 flags_ = 1;
};

}  // namespace cule::jit
