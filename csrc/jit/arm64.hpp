// jit/arm64.hpp: writes AArch64 machine code, with the interface of x86.hpp.
//
// The processor has no 8-bit arithmetic and no operands in memory: sums and differences of bytes
// are made in the upper 8 bits of kShifted, and operands are loaded into kLoaded. Registers are
// always zero-extended. The carry is the processor's C or, after a subtraction, its complement.
#pragma once

#include <cstring>
#include <vector>

#include "jit/host_code.hpp"

namespace cule::jit::arm64 {

// x18 belongs to the system, x30 has the address to return to.
constexpr Reg kX0{0}, kX1{1}, kShifted{16}, kLoaded{17}, kFirstSaved{19}, kLastSaved{28},
    kFramePointer{29}, kLink{30}, kZero{31}, kStack{31};

// Who lives where while translated code runs; the first two are scratch.
constexpr Reg kTemp0 = kX0, kTemp1 = kX1, kContext{19}, kTable{20}, kImage{21}, kRam{22}, kLog{23},
              kTime{24}, kInstructions{25}, kA{26}, kX{27}, kY{28}, kSp{9}, kNz{10}, kCarry{11};

constexpr bool is_lost_in_calls(Reg r) { return r < kFirstSaved || r > kLastSaved; }

class Assembler {
 public:
  // `address`: where the first byte will lie when it runs.
  explicit Assembler(u64 address) : address_(address) {}

  const std::vector<u8>& bytes() const { return bytes_; }
  u64 here() const { return address_ + bytes_.size(); }
  size_t size() const { return bytes_.size(); }
  void rewind(size_t size) { bytes_.resize(size); }
  // Another number whenever an instruction may have changed the flags, or a label is here. The
  // lowest bit: the carry is the complement of C.
  u32 flags() const { return flags_ << 1 | u32(carry_ == Carry::kInverted); }
  // Whether the last 8-bit instruction set zero and sign as its result has them.
  bool shows_nz() const { return shows_nz_; }
  // Whether all jumps reach their targets.
  bool is_valid() const { return is_valid_; }

  // --- moves ---
  void move(Reg to, Reg from) { word(0x2A0003E0 | from << 16 | to); }
  void move64(Reg to, Reg from) { word(0xAA0003E0 | from << 16 | to); }
  void set(Reg to, u32 value) {
    if (value >> 16 == 0xFFFF) {
      word(0x12800000 | (~value & 0xFFFF) << 5 | to);  // MOVN
      return;
    }
    const bool has_low = (value & 0xFFFF) != 0 || value == 0;
    if (has_low) word(0x52800000 | (value & 0xFFFF) << 5 | to);
    if (value >> 16) word((has_low ? 0x72A00000 : 0x52A00000) | (value >> 16) << 5 | to);
  }
  void load(Reg to, Mem from) { access(kLoad32, to, from); }
  void load64(Reg to, Mem from) { access(kLoad64, to, from); }
  void store(Mem to, Reg from) { access(kStore32, from, to); }
  void store64(Mem to, Reg from) { access(kStore64, from, to); }
  void store(Mem to, u32 value) { access(kStore32, constant(value), to); }
  void store8(Mem to, Reg from) { access(kStore8, from, to); }
  void store16(Mem to, u32 value) { access(kStore16, constant(value), to); }
  void load8(Reg to, Mem from) { access(kLoad8, to, from); }
  void load16(Reg to, Mem from) { access(kLoad16, to, from); }
  void extend8(Reg to, Reg from) { word(0x53001C00 | from << 5 | to); }
  void lea(Reg to, Mem from) {
    Reg base = from.base;
    if (from.index != kNoReg) {
      three(kAddOp, to, base, from.index, from.scale_bits);
      base = to;
    }
    add_constant(to, base, from.displacement);
    if (from.index == kNoReg && from.displacement == 0) move(to, base);
  }

  // --- arithmetic ---
  void alu(Alu op, Reg to, Reg from) {
    if (op == kCmp) {
      compare(to, from);
    } else {
      three(opcode(op), to, to, from);
    }
  }
  void alu(Alu op, Reg to, Mem from) {
    load(kLoaded, from);
    alu(op, to, kLoaded);
  }
  void alu(Alu op, Reg to, u32 value) {
    if (op == kAdd || op == kSub) {
      add_constant(to, to, op == kAdd ? i32(value) : -i32(value));
    } else if (op == kCmp && value < 0x1000) {
      changed(Carry::kInverted);
      word(0x7100001F | value << 10 | to << 5);
    } else if (op != kCmp && is_run(value)) {
      word(logical(op) | run(value) | to << 5 | to);
    } else {
      alu(op, to, constant(value));
    }
  }
  void alu64(Alu op, Reg to, u32 value) {
    word((op == kAdd ? 0x91000000 : 0xD1000000) | value << 10 | to << 5 | to);
  }
  void compare(Mem with, u32 value) {
    load(kLoaded, with);
    alu(kCmp, kLoaded, value);
  }
  void alu8(Alu op, Reg to, Reg from) {
    shows_nz_ = op == kAdd || op == kSub;
    switch (op) {
      case kAdd:
      case kSub:
      case kCmp:
        shift_left(kShifted, to, 24);
        three(op == kAdd ? kAddsOp : kSubsOp, op == kCmp ? kZero : kShifted, kShifted, from, 24);
        changed(op == kAdd ? Carry::kDirect : Carry::kInverted);
        if (op != kCmp) shift_right(to, kShifted, 24);
        break;
      case kAdcc:
      case kSbb:
        need_carry(op == kSbb);
        shift_left(kShifted, to, 24);
        // Ones below the byte pass an incoming carry on to it.
        if (op == kAdcc) word(0x32005C00 | kShifted << 5 | kShifted);  // ORR ..., #0xFFFFFF
        shift_left(kLoaded, from, 24);
        three(op == kAdcc ? kAdcsOp : kSbcsOp, kShifted, kShifted, kLoaded);
        changed(op == kAdcc ? Carry::kDirect : Carry::kInverted);
        shift_right(to, kShifted, 24);
        break;
      default:
        three(opcode(op), to, to, from);
    }
  }
  void alu8(Alu op, Reg to, Mem from) {
    if (op == kAdcc || op == kSbb) need_carry(op == kSbb);
    load8(kLoaded, from);
    alu8(op, to, kLoaded);
  }
  void alu8(Alu op, Reg to, u32 value) {
    if (op == kAdcc || op == kSbb) need_carry(op == kSbb);
    alu8(op, to, constant(value));
  }
  void shift(Shift op, Reg to, u32 count) {
    op == kShl ? shift_left(to, to, count) : shift_right(to, to, count);
  }
  void shift64(Shift, Reg to, u32 count) {  // to the right
    word(0xD340FC00 | count << 16 | to << 5 | to);
  }
  void shift8_by_one(Shift op, Reg to) {
    shows_nz_ = false;
    if (op == kRcr) {
      if (carry_ == Carry::kSet || carry_ == Carry::kClear) {
        if (carry_ == Carry::kSet) word(0x32180000 | to << 5 | to);  // ORR ..., #0x100
      } else {
        set_if(kIfBelow, kShifted);
        three(kOrrOp, to, to, kShifted, 8);
      }
    }
    word(0x12000000 | to << 5 | kLoaded);  // AND ..., #1
    shift_right(to, to, 1);
    carry_from(kLoaded);
  }
  void increment8(Reg to) { step8(kAdd, to); }
  void decrement8(Reg to) { step8(kSub, to); }
  void multiply(Reg to, Reg from, u32 value) {
    word(0x1B007C00 | constant(value) << 16 | from << 5 | to);
  }
  void multiply64(Reg to, Reg from, u32 value) {
    word(0x9B007C00 | constant(value) << 16 | from << 5 | to);
  }
  void test8(Reg a) {
    changed(Carry::kDirect);
    three(kAddsOp, kZero, kZero, a, 24);
  }
  void test8(Reg a, u32 value) { test(a, value); }
  void test(Reg a, u32 value) {  // for zero; a run of ones
    changed(Carry::kDirect);
    word(0x7200001F | run(value) | a << 5);
  }
  void set_carry() { changed(Carry::kSet); }
  void clear_carry() { changed(Carry::kClear); }
  void complement_carry() { changed(carry_ == Carry::kDirect ? Carry::kInverted : Carry::kDirect); }
  void carry_from(Reg from) {  // which is 0 or 1
    changed(Carry::kDirect);
    word(0x7100041F | from << 5);  // CMP ..., #1
  }
  void set_if(Condition c, Reg to) { word(0x1A9F07E0 | (processor_condition(c) ^ 1) << 12 | to); }
  void set_if(Condition c, Mem to) {
    set_if(c, kLoaded);
    store8(to, kLoaded);
  }

  // --- control ---
  // Begins a function of two arguments, which come into kContext and kTemp0.
  void enter() {
    pair(0xA9BA0000, kFramePointer, kLink, 0);  // STP ..., [SP, #-96]!
    for (u32 n = 0; n < kPairs; ++n) pair(0xA9000000, saved(2 * n), saved(2 * n + 1), n + 1);
    move64(kContext, kX0);
    move64(kTemp0, kX1);
  }
  // Returns from such a function.
  void leave() {
    for (u32 n = 0; n < kPairs; ++n) pair(0xA9400000, saved(2 * n), saved(2 * n + 1), n + 1);
    pair(0xA8C60000, kFramePointer, kLink, 0);  // LDP ..., [SP], #96
    ret();
  }
  void ret() { word(0xD65F0000 | kLink << 5); }
  void jump(Reg to) { word(0xD61F0000 | to << 5); }
  void jump(Mem to) {
    load64(kShifted, to);
    jump(kShifted);
  }
  void jump(u64 to) { patch(jump_later(), to); }
  void call(u64 to) {
    changed(Carry::kDirect);
    word(0x94000000);
    patch(bytes_.size() - 4, to);
  }
  // A function of kContext and kTemp1, from code that has been called; the result is in kTemp0.
  void call_function(Mem function) {
    changed(Carry::kDirect);
    word(0xF81F0C00 | kStack << 5 | kLink);  // STR ..., [SP, #-16]!
    move64(kX0, kContext);
    load64(kShifted, function);
    word(0xD63F0000 | kShifted << 5);
    word(0xF8410400 | kStack << 5 | kLink);  // LDR ..., [SP], #16
  }
  void jump(Condition c, u64 to) {
    const i64 distance = i64(to - here());
    if (distance >= -kShortReach && distance < kShortReach) {
      patch(jump_later(c), to);
    } else {
      const size_t over = jump_later(Condition(c ^ 1));
      jump(to);
      patch(over, here());
    }
  }
  // A jump whose target is not known yet; returns the place for patch().
  size_t jump_later() {
    word(0x14000000);
    return bytes_.size() - 4;
  }
  size_t jump_later(Condition c) {
    word(0x54000000 | processor_condition(c));
    return bytes_.size() - 4;
  }
  void patch(size_t at, u64 target) {
    u32 code;
    std::memcpy(&code, &bytes_[at], sizeof code);
    const i64 distance = i64(target - (address_ + at)) / 4;
    const bool is_short = code >> 24 == 0x54;
    const i64 reach = is_short ? kShortReach / 4 : 1 << 25;
    is_valid_ = is_valid_ && distance >= -reach && distance < reach;
    code = is_short ? (code & 0xFF00001F) | (u32(distance) & 0x7FFFF) << 5
                    : (code & 0xFC000000) | (u32(distance) & 0x3FFFFFF);
    std::memcpy(&bytes_[at], &code, sizeof code);
  }
  void patch_here(size_t at) {
    changed(Carry::kDirect);
    patch(at, here());
  }
  // Where the jump has kept the flags, and nothing else leads here.
  void patch_here(size_t at, u32 flags) {
    flags_ = flags >> 1;
    carry_ = flags & 1 ? Carry::kInverted : Carry::kDirect;
    patch(at, here());
  }

 private:
  // What the carry is: C, its complement, or known.
  enum class Carry : u8 { kDirect, kInverted, kSet, kClear };

  // Instructions of three registers, of which the last may be shifted to the left.
  static constexpr u32 kAddOp = 0x0B000000, kAddsOp = 0x2B000000, kSubOp = 0x4B000000,
                       kSubsOp = 0x6B000000, kAndOp = 0x0A000000, kOrrOp = 0x2A000000,
                       kXorOp = 0x4A000000, kAdcsOp = 0x3A000000, kSbcsOp = 0x7A000000;
  // Loads and stores with an offset of 12 bits, in units of their size.
  static constexpr u32 kStore8 = 0x39000000, kLoad8 = 0x39400000, kStore16 = 0x79000000,
                       kLoad16 = 0x79400000, kStore32 = 0xB9000000, kLoad32 = 0xB9400000,
                       kStore64 = 0xF9000000, kLoad64 = 0xF9400000;
  static constexpr i64 kShortReach = 1 << 20;
  static constexpr u32 kPairs = (kLastSaved - kFirstSaved + 1) / 2;

  void word(u32 w) {
    for (u32 i = 0; i < 4; ++i) bytes_.push_back(u8(w >> (8 * i)));
  }
  void changed(Carry carry) { flags_ += 1, carry_ = carry; }
  static Reg saved(u32 n) { return Reg(kFirstSaved + n); }
  void pair(u32 op, Reg a, Reg b, u32 place) {
    word(op | 2 * place << 15 | b << 10 | kStack << 5 | a);
  }
  void three(u32 op, Reg to, Reg a, Reg b, u32 shift = 0) {
    word(op | b << 16 | shift << 10 | a << 5 | to);
  }
  static u32 opcode(Alu op) {
    return op == kAdd    ? kAddOp
           : op == kSub  ? kSubOp
           : op == kAndd ? kAndOp
           : op == kOrr  ? kOrrOp
                         : kXorOp;
  }
  void compare(Reg a, Reg b) {
    changed(Carry::kInverted);
    three(kSubsOp, kZero, a, b);
  }
  void shift_left(Reg to, Reg from, u32 n) {
    word(0x53000000 | (32 - n) << 16 | (31 - n) << 10 | from << 5 | to);
  }
  void shift_right(Reg to, Reg from, u32 n) { word(0x53007C00 | n << 16 | from << 5 | to); }
  void step8(Alu op, Reg to) {
    shows_nz_ = false;
    alu(op, to, 1);
    extend8(to, to);
  }
  // A register with a constant.
  Reg constant(u32 value) {
    if (value == 0) return kZero;
    set(kLoaded, value);
    return kLoaded;
  }
  // Adds less than 2^24 in at most two steps.
  void add_constant(Reg to, Reg from, i32 value) {
    const u32 size = value < 0 ? 0u - u32(value) : u32(value);
    if (size >> 24) {
      three(value < 0 ? kSubOp : kAddOp, to, from, constant(size));
      return;
    }
    const u32 op = value < 0 ? 0x51000000 : 0x11000000;
    if (size >> 12) {
      word(op | 1 << 22 | (size >> 12) << 10 | from << 5 | to);
      from = to;
    }
    if (size & 0xFFF) word(op | (size & 0xFFF) << 10 | from << 5 | to);
  }
  // Whether a word is a run of ones between zeros, which logical instructions can have in them.
  static bool is_run(u32 value) {
    const u32 filled = value | (value - 1);
    return value != 0 && value != ~0u && (filled & (filled + 1)) == 0;
  }
  static u32 run(u32 value) {
    u32 begin = 0, size = 0;
    while (!(value >> begin & 1)) ++begin;
    while (begin + size < 32 && value >> (begin + size) & 1) ++size;
    return ((32 - begin) & 31) << 16 | (size - 1) << 10;
  }
  static u32 logical(Alu op) {
    return op == kAndd ? 0x12000000 : op == kOrr ? 0x32000000 : 0x52000000;
  }
  u32 processor_condition(Condition c) const {
    const u32 negated = c & 1;
    switch (c & ~1) {
      case kIfOverflow:
        return 6 ^ negated;
      case kIfBelow:
        return (carry_ == Carry::kInverted ? 3 : 2) ^ negated;
      case kIfZero:
        return 0 ^ negated;
      case kIfNotAbove:
        return 9 ^ negated;
      default:
        return 4 ^ negated;
    }
  }
  // C is the carry, or its complement.
  void need_carry(bool is_inverted) {
    const Carry wanted = is_inverted ? Carry::kInverted : Carry::kDirect;
    if (carry_ == wanted) return;
    if (carry_ == Carry::kSet || carry_ == Carry::kClear) {
      const bool c = (carry_ == Carry::kSet) != is_inverted;
      three(c ? kSubsOp : kAddsOp, kZero, kZero, kZero);
    } else {
      word(0x1A9F07E0 | 2 << 12 | kLoaded);  // CSET ..., LO
      word(0x7100041F | kLoaded << 5);       // CMP ..., #1
    }
    changed(wanted);
  }
  // `op`: one of kLoad8 and so on.
  void access(u32 op, Reg reg, Mem m) {
    const u32 scale = op >> 30;
    Reg base = m.base;
    u32 offset = u32(m.displacement);
    if (m.index != kNoReg) {
      if (offset == 0 && (m.scale_bits == 0 || m.scale_bits == scale)) {
        word((op & ~0x01000000u) | 0x00204800 | u32(m.index) << 16 | u32(m.scale_bits != 0) << 12 |
             base << 5 | reg);
        return;
      }
      // ADD kShifted, base, index, UXTW #scale_bits
      word(0x8B204000 | u32(m.index) << 16 | u32(m.scale_bits) << 10 | base << 5 | kShifted);
      base = kShifted;
    }
    const i32 signed_offset = m.displacement;
    if (signed_offset >= -256 && signed_offset < 256 &&
        (signed_offset < 0 || offset & ((1u << scale) - 1))) {
      word((op & ~0x01000000u) | (offset & 0x1FF) << 12 | base << 5 | reg);
      return;
    }
    if (signed_offset < 0) {
      is_valid_ = false;  // no operand is so far below
      return;
    }
    const u32 most = 0xFFFu << scale;
    if (offset > most || offset & ((1u << scale) - 1)) {
      word(0x91400000 | (offset >> 12) << 10 | base << 5 | kShifted);  // ADD ..., LSL #12
      base = kShifted;
      offset &= 0xFFF;
      if (offset & ((1u << scale) - 1)) {
        word(0x91000000 | offset << 10 | base << 5 | kShifted);
        offset = 0;
      }
    }
    word(op | offset >> scale << 10 | base << 5 | reg);
  }

  u64 address_;
  std::vector<u8> bytes_;
  u32 flags_ = 1;
  Carry carry_ = Carry::kDirect;
  bool shows_nz_ = false;
  bool is_valid_ = true;
};

}  // namespace cule::jit::arm64
