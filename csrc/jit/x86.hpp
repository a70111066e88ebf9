// jit/x86.hpp: writes x86-64 machine code: the few instructions that translated blocks consist of.
//
// Only encodings; what is emitted and why is in instructions.cpp and operands.cpp. Jumps go to
// labels of the same piece of code or to absolute addresses within 2 GiB.
#pragma once

#include <cstring>
#include <vector>

#include "jit/host_code.hpp"

namespace cule::jit::x86 {

constexpr Reg kRax{0}, kRcx{1}, kRdx{2}, kRbx{3}, kRsp{4}, kRbp{5}, kRsi{6}, kRdi{7}, kR8{8},
    kR9{9}, kR10{10}, kR11{11}, kR12{12}, kR13{13}, kR14{14}, kR15{15};

// Who lives where while translated code runs; the first two are scratch. Instructions with the
// first eight registers alone are a byte shorter.
constexpr Reg kTemp0 = kRax, kTemp1 = kRcx, kA = kRbx, kX = kRdx, kY = kR8, kSp = kR11, kNz = kR9,
              kCarry = kR10, kTime = kRbp, kInstructions = kR15, kLog = kRdi, kRam = kRsi,
              kImage = kR12, kContext = kR13, kTable = kR14;

constexpr Reg kSaved[] = {kRbx, kRbp, kR12, kR13, kR14, kR15};

constexpr bool is_lost_in_calls(Reg r) {
  for (const Reg saved : kSaved) {
    if (r == saved) return false;
  }
  return true;
}

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
  // Whether the last 8-bit instruction set zero and sign as its result has them.
  bool shows_nz() const { return shows_nz_; }
  // Whether all jumps reach their targets.
  bool is_valid() const { return true; }

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
  void compare(Mem with, u32 value) {
    const bool is_short = fits_byte(i32(value));
    flags_ += 1;
    reg_mem(is_short ? 0x83 : 0x81, Reg(kCmp), with);
    is_short ? byte(value) : word(value);
  }
  void alu8(Alu op, Reg to, Reg from) { show_nz(), reg_reg(u8(op * 8 + 2), to, from, kByte); }
  void alu8(Alu op, Reg to, Mem from) { show_nz(), reg_mem(u8(op * 8 + 2), to, from, kByte); }
  void alu8(Alu op, Reg to, u32 value) {
    show_nz();
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
  void shift8_by_one(Shift op, Reg to) {
    show_nz();
    shows_nz_ = op != kRcr;
    reg_reg(0xD0, Reg(op), to, kByte);
  }
  void increment8(Reg to) { show_nz(), reg_reg(0xFE, kRax, to, kByte); }
  void decrement8(Reg to) { show_nz(), reg_reg(0xFE, Reg(1), to, kByte); }
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
  void test8(Reg a) { flags_ += 1, reg_reg(0x84, a, a, kByte); }
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
  void carry_from(Reg from) {  // which is 0 or 1; BT
    flags_ += 1;
    reg_reg(0xBA, Reg(4), from, kEscape);
    byte(0);
  }
  void set_if(Condition c, Reg to) { reg_reg(u8(0x90 | c), kRax, to, kEscape | kByte); }
  void set_if(Condition c, Mem to) { reg_mem(u8(0x90 | c), kRax, to, kEscape); }

  // --- control ---
  // Begins a function of two arguments, which come into kContext and kTemp0.
  void enter() {
    for (const Reg r : kSaved) push(r);
    align();
    move64(kContext, kRdi);
    move64(kTemp0, kRsi);
  }
  // Returns from such a function.
  void leave() {
    alu64(kAdd, kRsp, 8);
    for (size_t i = sizeof kSaved; i-- > 0;) pop(kSaved[i]);
    ret();
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
  // A function of kContext and kTemp1, from code that has been called; the result is in kTemp0.
  void call_function(Mem function) {
    move64(kRdi, kContext);
    move(kRsi, kTemp1);
    align();
    flags_ += 1;
    reg_mem(0xFF, Reg(2), function);
    alu64(kAdd, kRsp, 8);
  }
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
  // Where the jump has kept the flags, and nothing else leads here.
  void patch_here(size_t at, u32 flags) { flags_ = flags, patch(at, here()); }

 private:
  static constexpr u32 kWide = 1, kByte = 2, kEscape = 4;

  void show_nz() { flags_ += 1, shows_nz_ = true; }
  void push(Reg r) {
    rex(0, kRax, kNoReg, r);
    byte(0x50 | (r & 7));
  }
  void pop(Reg r) {
    rex(0, kRax, kNoReg, r);
    byte(0x58 | (r & 7));
  }
  void align() { alu64(kSub, kRsp, 8); }  // calls want it
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
  bool shows_nz_ = true;
};

}  // namespace cule::jit::x86
