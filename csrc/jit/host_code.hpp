// jit/host_code.hpp: what the assemblers of all processors understand (x86.hpp, arm64.hpp).
//
// An assembler has two operands for most instructions, the first of which takes the result, and
// flags: zero, sign, overflow, and a carry that a subtraction sets where it borrows.
#pragma once

#include "base/int.hpp"

namespace cule::jit {

// A register, by its number in machine code.
enum Reg : u8 { kNoReg = 0xFF };

enum Alu : u8 { kAdd, kOrr, kAdcc, kSbb, kAndd, kSub, kXor, kCmp };
enum Shift : u8 { kRcr = 3, kShl = 4, kShr = 5 };  // kRcr: to the right, through the carry
// The lowest bit negates.
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

// base + (index << scale_bits) + displacement; the index has 32 bits
struct Mem {
  Reg base;
  i32 displacement = 0;
  Reg index = kNoReg;
  u8 scale_bits = 0;
};

}  // namespace cule::jit
