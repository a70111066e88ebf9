// warp/lane_opcodes.hpp: the 256 opcodes as bits and masks for warp/branch_free.hpp.
//
// In: the opcode table (cpu/opcodes.hpp). Out: one 16-byte row for each opcode. The host
// makes the table; a kernel copies it to shared memory.
//
// Arithmetic, logic, compare, increment, load, store and left shift are one sum,
// left + right + carry: AND is 0 + (a & s), EOR is (a ^ s) + 0, OR is both.
#pragma once

#include "cpu/opcodes.hpp"

namespace cule {

constexpr u32 kNumOpcodes = 256;

// Bits of LaneOpcode::path, which makes the address and moves pc.
constexpr u32 kPathTaken = 0;        // 8 bits: on N, V, C, Z clear, on N, V, C, Z set
constexpr u32 kPathIndexX = 1 << 8;  // added to the base
constexpr u32 kPathIndexY = 1 << 9;
constexpr u32 kPathPreIndexed = 1 << 10;  // X is added to the address of the pointer
constexpr u32 kPathIndirect = 1 << 11;    // base: the pointer in the zero page
constexpr u32 kPathAbsolute = 1 << 12;    // base: both operand bytes
constexpr u32 kPathWraps = 1 << 13;       // the address stays in the zero page
constexpr u32 kPathCrossing = 1 << 14;    // pays for a crossed page
constexpr u32 kPathLoads = 1 << 15;
constexpr u32 kPathCycles = 16;  // 4 bits
constexpr u32 kPathJumps = 1 << 20;
constexpr u32 kPathSize = 30;  // 2 bits: bytes that pc moves on

// Bits of LaneOpcode::work, which makes and stores the result. `reg` is A, X or Y; `s` is the
// operand, reg or the loaded byte.
constexpr u32 kWorkOne = 1 << 0;      // carry into the sum: 1
constexpr u32 kWorkCarry = 1 << 1;    // the flag
constexpr u32 kWorkFromReg = 1 << 2;  // s is reg, not what was loaded
constexpr u32 kWorkRegX = 1 << 3;
constexpr u32 kWorkRegY = 1 << 4;
constexpr u32 kWorkAnd = 1 << 5;          // reg & s on the right
constexpr u32 kWorkShiftsRight = 1 << 6;  // in place of the sum
constexpr u32 kWorkBit = 1 << 7;          // BIT: N and V are bits of s; its place is that of N
constexpr u32 kWorkNz = 1 << 8;           // flags that follow
constexpr u32 kWorkC = 1 << 9;
constexpr u32 kWorkV = 1 << 10;
constexpr u32 kWorkToA = 1 << 11;
constexpr u32 kWorkToX = 1 << 12;
constexpr u32 kWorkToY = 1 << 13;
constexpr u32 kWorkStores = 1 << 14;
constexpr u32 kWorkAlone = 1 << 15;    // no sum, but a function of its own
constexpr u32 kWorkDecimal = 1 << 16;  // in decimal mode not a plain sum

// Bytes of LaneOpcode::masks: left is (reg & LeftReg) ^ (s & LeftS), right is
// (s & RightS) ^ RightNot.
constexpr u32 kLeftReg = 0xFF;
constexpr u32 kLeftS = 0xFF00;
constexpr u32 kRightS = 0xFF0000;
constexpr u32 kRightNot = 0xFF000000;

struct alignas(16) LaneOpcode {
  u32 path;
  u32 work;
  u32 masks;
};

struct LaneOpcodes {
  LaneOpcode opcode[kNumOpcodes];
};

inline u32 find_path(u32 opcode, const Opcode& op) {
  const u32 path = op.cycles << kPathCycles | (op.loads() ? kPathLoads : 0) |
                   (op.pays_crossing() ? kPathCrossing : 0);
  switch (op.mode) {
    case Mode::kImplied:
      return path | 1u << kPathSize;
    case Mode::kImmediate:
      return path | 2u << kPathSize;
    case Mode::kZeroPage:
      return path | 2u << kPathSize | kPathWraps;
    case Mode::kZeroPageX:
      return path | 2u << kPathSize | kPathWraps | kPathIndexX;
    case Mode::kZeroPageY:
      return path | 2u << kPathSize | kPathWraps | kPathIndexY;
    case Mode::kAbsolute:
      return path | 3u << kPathSize | kPathAbsolute;
    case Mode::kAbsoluteX:
      return path | 3u << kPathSize | kPathAbsolute | kPathIndexX;
    case Mode::kAbsoluteY:
      return path | 3u << kPathSize | kPathAbsolute | kPathIndexY;
    case Mode::kIndirectX:
      return path | 2u << kPathSize | kPathIndirect | kPathPreIndexed;
    case Mode::kIndirectY:
      return path | 2u << kPathSize | kPathIndirect | kPathIndexY;
    default:
      if (op.function == Function::kJump) return path | kPathAbsolute | kPathJumps;
      if (op.function != Function::kBranch) return path;
      return path | 2u << kPathSize | 1u << (kPathTaken + (opcode >> 6) + (opcode >> 3 & 4));
  }
}

// Sets the bits and masks of the sum that a function is, and of the flags that follow.
inline void set_function(LaneOpcode& o, u32 opcode, Function function) {
  const auto set = [&o](u32 work, u32 masks) {
    o.work = work;
    o.masks = masks;
  };
  constexpr u32 kCompare = kWorkNz | kWorkC | kWorkOne;
  constexpr u32 kAdd = kWorkNz | kWorkC | kWorkV | kWorkCarry | kWorkToA | kWorkDecimal;
  switch (function) {
    case Function::kPass:
      return set(kWorkNz, kRightS);
    case Function::kKeep:
      return set(0, kRightS);
    case Function::kInc:
      return set(kWorkNz | kWorkOne, kRightS);
    case Function::kDec:
      return set(kWorkNz, kLeftS | kRightNot);
    case Function::kOr:
      return set(kWorkNz | kWorkAnd, kLeftReg | kLeftS);
    case Function::kAnd:
      return set(kWorkNz | kWorkAnd, 0);
    case Function::kEor:
      return set(kWorkNz, kLeftReg | kLeftS);
    case Function::kAdc:
      return set(kAdd, kLeftReg | kRightS);
    case Function::kSbc:
      return set(kAdd, kLeftReg | kRightS | kRightNot);
    case Function::kCompareA:
      return set(kCompare, kLeftReg | kRightS | kRightNot);
    case Function::kCompareX:
      return set(kCompare | kWorkRegX, kLeftReg | kRightS | kRightNot);
    case Function::kCompareY:
      return set(kCompare | kWorkRegY, kLeftReg | kRightS | kRightNot);
    case Function::kBit:
      return set(kWorkNz | kWorkV | kWorkBit | kWorkAnd, 0);
    case Function::kAsl:
      return set(kWorkNz | kWorkC, kLeftS | kRightS);
    case Function::kRol:
      return set(kWorkNz | kWorkC | kWorkCarry, kLeftS | kRightS);
    case Function::kLsr:
      return set(kWorkNz | kWorkC | kWorkShiftsRight, 0);
    case Function::kRor:
      return set(kWorkNz | kWorkC | kWorkShiftsRight | kWorkCarry, 0);
    case Function::kFlag:
      if (opcode == 0x18) return set(kWorkC, 0);                     // CLC: 0
      if (opcode == 0x38) return set(kWorkC | kWorkOne, kRightNot);  // SEC: 0 + 255 + 1
      return set(kWorkAlone, 0);
    case Function::kBranch:
    case Function::kJump:
      return set(0, 0);
    default:
      return set(kWorkAlone, 0);
  }
}

inline LaneOpcode make_lane_opcode(u32 opcode, const Opcode& op) {
  LaneOpcode o{};
  set_function(o, opcode, op.function);
  o.path = find_path(opcode, op);
  const Source source = op.source;
  if (source != Source::kLoaded) o.work |= kWorkFromReg;
  if (source == Source::kFromX) o.work |= kWorkRegX;
  if (source == Source::kFromY) o.work |= kWorkRegY;
  if (source == Source::kFromSp) o.work |= kWorkAlone;
  const Target target = op.target;
  if (target == Target::kToA || target == Target::kToAX) o.work |= kWorkToA;
  if (target == Target::kToX || target == Target::kToAX) o.work |= kWorkToX;
  if (target == Target::kToY) o.work |= kWorkToY;
  if (target == Target::kToSp) o.work |= kWorkAlone;
  if (target == Target::kToMemory) o.work |= kWorkStores;
  return o;
}

// Whether the lanes execute an opcode by step_slowly: BRK, RTI, JMP (), and the undocumented ones
// that are more than a load or no operation.
inline bool is_slow(const Opcode& op) {
  return op.function >= Function::kFirstSlow || op.source == Source::kFromAX;
}

inline LaneOpcodes make_lane_opcodes() {
  LaneOpcodes table;
  for (u32 i = 0; i < kNumOpcodes; ++i)
    table.opcode[i] = make_lane_opcode(i, kOpcodeTable.opcode[i]);
  return table;
}

}  // namespace cule
