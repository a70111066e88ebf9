// tests/fuzz/arm64_cpu.hpp: executes AArch64 machine code on another processor: the forms of
// instructions that jit/arm64.hpp writes. Any other form ends the program.
//
// Included before everything else, with CULE_ARM64 defined: what is translated is then AArch64
// code, and runs here. Registers, C functions and memory are those of the program itself.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace arm64_cpu {

class Cpu {
 public:
  // Calls the function at `code` with two arguments.
  void run(uint64_t code, uint64_t first, uint64_t second) {
    x_[0] = first;
    x_[1] = second;
    x_[kLink] = 0;
    sp_ = reinterpret_cast<uint64_t>(stack_ + sizeof stack_);
    for (pc_ = code; pc_ != 0;) {
      const uint32_t w = read<uint32_t>(pc_);
      pc_ += 4;
      if (!(calculate(w) || move_data(w) || transfer(w))) unknown(w);
    }
    if (sp_ != reinterpret_cast<uint64_t>(stack_ + sizeof stack_)) unknown(0);
  }

 private:
  static constexpr uint32_t kLink = 30;

  [[noreturn]] static void unknown(uint32_t w) {
    std::fprintf(stderr, "AArch64 instruction %08x is not one of jit/arm64.hpp\n", w);
    std::abort();
  }
  template <class T>
  static T read(uint64_t at) {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
    return value;
  }
  static uint64_t cut(uint64_t value, bool is_wide) { return is_wide ? value : uint32_t(value); }
  uint64_t reg(uint32_t n) const { return n == 31 ? 0 : x_[n]; }
  void set_reg(uint32_t n, uint64_t value, bool is_wide) {
    if (n != 31) x_[n] = cut(value, is_wide);
  }
  static int64_t signed_field(uint32_t w, uint32_t low, uint32_t bits) {
    return int64_t(uint64_t(w) >> low << (64 - bits)) >> (64 - bits);
  }

  uint64_t add(uint64_t a, uint64_t b, bool carry, bool sets_flags, bool is_wide) {
    const uint64_t sum = cut(a + b + carry, is_wide);
    if (sets_flags) {
      if (is_wide) unknown(0);
      n_ = sum >> 31 & 1;
      z_ = sum == 0;
      c_ = (uint64_t(uint32_t(a)) + uint32_t(b) + carry) >> 32 & 1;
      v_ = ((a ^ sum) & (b ^ sum)) >> 31 & 1;
    }
    return sum;
  }
  uint64_t logical(uint32_t opcode, uint64_t a, uint64_t b) {
    const uint64_t result = opcode == 0 || opcode == 3 ? a & b : opcode == 1 ? a | b : a ^ b;
    if (opcode == 3) {
      n_ = result >> 31 & 1;
      z_ = uint32_t(result) == 0;
      c_ = v_ = false;
    }
    return result;
  }
  bool holds(uint32_t condition) const {
    bool value = true;
    switch (condition >> 1) {
      case 0:
        value = z_;
        break;
      case 1:
        value = c_;
        break;
      case 2:
        value = n_;
        break;
      case 3:
        value = v_;
        break;
      case 4:
        value = c_ && !z_;
        break;
      default:
        unknown(condition);
    }
    return value != bool(condition & 1);
  }

  bool calculate(uint32_t w) {
    const bool is_wide = w >> 31;
    const uint32_t d = w & 31, n = w >> 5 & 31, m = w >> 16 & 31, opcode = w >> 29 & 3;
    const bool subtracts = opcode >> 1, sets_flags = opcode & 1;
    const auto sum = [&](uint64_t a, uint64_t b) {
      return add(a, subtracts ? ~b : b, subtracts, sets_flags, is_wide);
    };
    if ((w & 0x1F800000) == 0x11000000) {  // ADD and SUB of a constant
      const uint64_t a = n == 31 ? sp_ : x_[n];
      const uint64_t result = sum(a, uint64_t(w >> 10 & 0xFFF) << (w >> 22 & 1 ? 12 : 0));
      if (d == 31 && !sets_flags) unknown(w);
      set_reg(d, result, is_wide);
    } else if ((w & 0x9FC00000) == 0x12000000) {  // AND, ORR, EOR, ANDS of a run of ones
      const uint32_t size = (w >> 10 & 63) + 1, turn = w >> 16 & 63;
      if (size > 31 || turn > 31) unknown(w);
      const uint64_t ones = (1u << size) - 1;
      set_reg(d, logical(opcode, reg(n), uint32_t(ones << 32 >> turn | ones >> turn)), false);
    } else if ((w & 0x9F800000) == 0x12800000) {  // MOVN, MOVZ, MOVK
      const uint32_t at = w >> 17 & 16, value = (w >> 5 & 0xFFFF) << at;
      if (opcode == 1 || (w >> 22 & 1)) unknown(w);
      const uint32_t kept = opcode == 3 ? uint32_t(reg(d)) & ~(0xFFFFu << at) : 0;
      set_reg(d, opcode == 0 ? ~value : kept | value, false);
    } else if ((w & 0x7F800000) == 0x53000000) {  // UBFM: shifts and zero extension
      const uint32_t turn = w >> 16 & 63, last = w >> 10 & 63, size = is_wide ? 64 : 32;
      const uint64_t value = cut(reg(n), is_wide);
      const uint64_t low = value & (~uint64_t(0) >> (63 - last));
      set_reg(d, last >= turn ? low >> turn : low << (size - turn), is_wide);
    } else if ((w & 0x1FE00000) == 0x0A000000) {  // AND, ORR, EOR, ANDS
      set_reg(d, logical(opcode, reg(n), cut(reg(m) << (w >> 10 & 63), is_wide)), is_wide);
    } else if ((w & 0x1FE00000) == 0x0B000000) {  // ADD and SUB
      set_reg(d, sum(reg(n), cut(reg(m) << (w >> 10 & 63), is_wide)), is_wide);
    } else if ((w & 0xFFE0E000) == 0x8B204000) {  // ADD, UXTW
      const uint64_t a = n == 31 ? sp_ : x_[n];
      set_reg(d, a + (uint64_t(uint32_t(reg(m))) << (w >> 10 & 7)), true);
    } else if ((w & 0xBFE0FC00) == 0x3A000000) {  // ADCS and SBCS
      set_reg(d, add(reg(n), subtracts ? ~reg(m) : reg(m), c_, true, is_wide), is_wide);
    } else if ((w & 0xFFFF0FE0) == 0x1A9F07E0) {  // CSET
      set_reg(d, !holds(w >> 12 & 15), false);
    } else if ((w & 0x7FE0FC00) == 0x1B007C00) {  // MUL
      set_reg(d, reg(n) * reg(m), is_wide);
    } else {
      return false;
    }
    return true;
  }

  bool move_data(uint32_t w) {
    const uint32_t t = w & 31, n = w >> 5 & 31, size = w >> 30;
    const bool is_load = w >> 22 & 1;
    uint64_t at = n == 31 ? sp_ : x_[n];
    const int64_t near = signed_field(w, 12, 9);
    if ((w & 0x3F800000) == 0x39000000) {
      at += uint64_t(w >> 10 & 0xFFF) << size;
    } else if ((w & 0x3FA00C00) == 0x38000000) {
      at += uint64_t(near);
    } else if ((w & 0x3FA0EC00) == 0x38204800) {  // index, UXTW
      at += uint64_t(uint32_t(reg(w >> 16 & 31))) << (w >> 12 & 1 ? size : 0);
    } else if ((w & 0xFFA00C00) == 0xF8000C00 && n == 31) {  // before: SP moves
      at = sp_ += uint64_t(near);
    } else if ((w & 0xFFA00C00) == 0xF8000400 && n == 31) {  // after
      sp_ += uint64_t(near);
    } else if ((w & 0xFE000000) == 0xA8000000 && n == 31) {  // pairs
      const uint64_t step = uint64_t(signed_field(w, 15, 7) * 8);
      const uint32_t mode = w >> 23 & 3;
      if (mode == 1) sp_ += step;
      if (mode == 2) at += step;
      if (mode == 3) at = sp_ += step;
      move_word(is_load, 3, t, at);
      move_word(is_load, 3, w >> 10 & 31, at + 8);
      return true;
    } else {
      return false;
    }
    move_word(is_load, size, t, at);
    return true;
  }
  void move_word(bool is_load, uint32_t size, uint32_t t, uint64_t at) {
    uint64_t value = reg(t);
    if (is_load) {
      value = 0;
      std::memcpy(&value, reinterpret_cast<const void*>(at), size_t(1) << size);
      set_reg(t, value, true);
    } else {
      std::memcpy(reinterpret_cast<void*>(at), &value, size_t(1) << size);
    }
  }

  bool transfer(uint32_t w) {
    const uint64_t here = pc_ - 4;
    const uint64_t target = reg(w >> 5 & 31);
    if ((w & 0x7C000000) == 0x14000000) {  // B and BL
      if (w >> 31) x_[kLink] = pc_;
      pc_ = here + uint64_t(signed_field(w, 0, 26) * 4);
    } else if ((w & 0xFF000010) == 0x54000000) {
      if (holds(w & 15)) pc_ = here + uint64_t(signed_field(w, 5, 19) * 4);
    } else if ((w & 0xFFFFFC1F) == 0xD61F0000 || (w & 0xFFFFFC1F) == 0xD65F0000) {  // BR and RET
      pc_ = target;
    } else if ((w & 0xFFFFFC1F) == 0xD63F0000) {  // BLR, only to C functions
      using Function = uint32_t (*)(void*, uint32_t);
      const auto function = reinterpret_cast<Function>(target);
      const uint64_t result = function(reinterpret_cast<void*>(x_[0]), uint32_t(x_[1]));
      for (uint32_t n = 0; n < 18; ++n) x_[n] = 0xBAD0BAD0BAD0BAD0;  // what a call may change
      n_ = z_ = c_ = v_ = false;
      x_[0] = result;
    } else {
      return false;
    }
    return true;
  }

  uint64_t x_[31] = {};
  uint64_t sp_ = 0, pc_ = 0;
  bool n_ = false, z_ = false, c_ = false, v_ = false;
  alignas(16) unsigned char stack_[256];
};

inline void run(uint64_t enter, void* context, uint64_t code) {
  Cpu cpu;
  cpu.run(enter, reinterpret_cast<uint64_t>(context), code);
}

}  // namespace arm64_cpu

#define CULE_RUN_CODE(enter, context, code) arm64_cpu::run((enter), (context), (code))
