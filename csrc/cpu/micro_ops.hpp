// cpu/micro_ops.hpp: an opcode as stages, packed into one word.
//
// In: cycles, addressing mode, what is loaded, done and written. Out: a word that csrc/warp,
// csrc/jit and csrc/rom_kernel read. The table itself is generated (micro_ops.generated.hpp);
// opcodes.hpp is a second, independent statement of each opcode, and tests compare the two.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// How the address of the operand is made; kOwn: the function reads its operand bytes itself.
enum class Mode : u8 {
  kImplied,
  kImmediate,
  kZeroPage,
  kZeroPageX,
  kZeroPageY,
  kAbsolute,
  kAbsoluteX,
  kAbsoluteY,
  kIndirectX,
  kIndirectY,
  kOwn,
};

enum class Source : u8 { kLoaded, kFromA, kFromX, kFromY, kFromSp, kFromAX };
enum class Target : u8 { kNowhere, kToA, kToX, kToY, kToSp, kToAX, kToMemory };

// In order of how often they are executed, roughly. Lanes of a warp have no fast form from
// kFirstSlow on.
enum class Function : u8 {
  kPass,  // N and Z follow
  kKeep,  // no flag changes
  kInc,
  kDec,
  kOr,
  kAnd,
  kEor,
  kAdc,
  kSbc,
  kCompareA,
  kCompareX,
  kCompareY,
  kBit,
  kAsl,
  kLsr,
  kRol,
  kRor,
  kFlag,
  kBranch,
  kJump,
  kJsr,
  kRts,
  kPha,
  kPla,
  kPhp,
  kPlp,
  kRti,
  kBrk,
  kJumpIndirect,
  kSlo,
  kRla,
  kSre,
  kRra,
  kDcp,
  kIsc,
  kAnc,
  kAlr,
  kArr,
  kAne,
  kLxa,
  kSbx,
  kLas,
  kStoreHigh,
  kTas,
  kJam,
  kFirstSlow = kRti,
};

struct MicroOps {
  u32 op[256];
};

// Shifts of the fields.
constexpr u32 kMicroMode = 4, kMicroCrossing = 8, kMicroLoads = 9, kMicroSource = 10,
              kMicroFunction = 13, kMicroTarget = 19;

CULE_HD constexpr u32 micro_op(u32 cycles, Mode mode, bool pays_crossing, bool loads, Source source,
                               Function function, Target target) {
  return cycles | u32(mode) << kMicroMode | u32(pays_crossing) << kMicroCrossing |
         u32(loads) << kMicroLoads | u32(source) << kMicroSource | u32(function) << kMicroFunction |
         u32(target) << kMicroTarget;
}

CULE_HD CULE_INLINE u32 micro_cycles(u32 op) { return op & 0xF; }
CULE_HD CULE_INLINE Mode micro_mode(u32 op) { return Mode(op >> kMicroMode & 0xF); }
CULE_HD CULE_INLINE bool pays_crossing(u32 op) { return op >> kMicroCrossing & 1; }
CULE_HD CULE_INLINE bool loads_byte(u32 op) { return op >> kMicroLoads & 1; }
CULE_HD CULE_INLINE Source micro_source(u32 op) { return Source(op >> kMicroSource & 7); }
CULE_HD CULE_INLINE Function micro_function(u32 op) {
  return Function(op >> kMicroFunction & 0x3F);
}
// Whether the next instruction may be elsewhere than behind this one.
CULE_HD CULE_INLINE bool is_transfer(Function f) {
  constexpr u64 kTransfers = 1ULL << u32(Function::kBranch) | 1ULL << u32(Function::kJump) |
                             1ULL << u32(Function::kJsr) | 1ULL << u32(Function::kRts) |
                             1ULL << u32(Function::kRti) | 1ULL << u32(Function::kBrk) |
                             1ULL << u32(Function::kJumpIndirect);
  return kTransfers >> u32(f) & 1;
}
CULE_HD inline u32 instruction_bytes(u32 op) {
  const Function f = micro_function(op);
  switch (micro_mode(op)) {
    case Mode::kImplied:
      return 1;
    case Mode::kAbsolute:
    case Mode::kAbsoluteX:
    case Mode::kAbsoluteY:
      return 3;
    case Mode::kOwn:
      if (f == Function::kBranch) return 2;
      return f == Function::kJump || f == Function::kJsr || f == Function::kJumpIndirect ? 3 : 1;
    default:
      return 2;
  }
}
CULE_HD CULE_INLINE Target micro_target(u32 op) { return Target(op >> kMicroTarget & 7); }

}  // namespace cule
