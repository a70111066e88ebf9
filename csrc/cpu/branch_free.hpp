// cpu/branch_free.hpp: one instruction by selects in place of switches.
//
// For lanes that execute different opcodes side by side: the common ones all run through the same
// machine instructions, so lanes do not part over what they execute, only over what they reach (a
// pointer, the TIA, a device). Each opcode is four words of bits and masks, made of its
// micro-operation before the first instruction. Stack, subroutines, decimal mode and rare opcodes
// share the address and the load, and then go through Staged. Order of accesses as in execute.hpp.
//
// Arithmetic, logic, compare, count, load, store and shift to the left are one sum,
// left + right + carry: AND is 0 + (a & s), EOR is (a ^ s) + 0, OR is both of these.
//
// The operands of the Bus come with the opcode: they may be asked for where there are none.
#pragma once

#include "cpu/staged.hpp"

namespace cule {

// Bits of Selects::path, which makes the address and moves pc.
constexpr u32 kPathTaken = 0;        // 8 bits: on N, V, C, Z clear, on N, V, C, Z set
constexpr u32 kPathIndexX = 1 << 8;  // added to the base
constexpr u32 kPathIndexY = 1 << 9;
constexpr u32 kPathPreIndexed = 1 << 10;  // X is added to where the pointer lies
constexpr u32 kPathIndirect = 1 << 11;    // base: the pointer in the zero page
constexpr u32 kPathAbsolute = 1 << 12;    // base: both operand bytes
constexpr u32 kPathWraps = 1 << 13;       // the address stays in the zero page
constexpr u32 kPathCrossing = 1 << 14;    // pays for a crossed page
constexpr u32 kPathLoads = 1 << 15;
constexpr u32 kPathCycles = 16;  // 4 bits
constexpr u32 kPathJumps = 1 << 20;
constexpr u32 kPathSize = 30;  // 2 bits: bytes that pc moves on

// Bits of Selects::work, which makes and stores the result. `s`: what is worked on; `reg`: A, X, Y.
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
constexpr u32 kWorkRare = 1 << 15;
constexpr u32 kWorkDecimal = 1 << 16;  // rare in decimal mode

// Masks: two bytes of Selects::left, of reg and of s; two of right, of s and what turns its bits.
constexpr u32 kLeftReg = 0xFF;
constexpr u32 kLeftS = 0xFF00;  // with the former: reg ^ s
constexpr u32 kRightS = 0xFF;
constexpr u32 kRightNot = 0xFF00;

struct alignas(16) Selects {
  u32 path;
  u32 work;
  u32 left;
  u32 right;
};

CULE_HD inline u32 select_path(u32 opcode, u32 op) {
  const u32 path = micro_cycles(op) << kPathCycles | (loads_byte(op) ? kPathLoads : 0) |
                   (pays_crossing(op) ? kPathCrossing : 0);
  switch (micro_mode(op)) {
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
      if (micro_function(op) == Function::kJump) return path | kPathAbsolute | kPathJumps;
      if (micro_function(op) != Function::kBranch) return path;
      return path | 2u << kPathSize | 1u << (kPathTaken + (opcode >> 6) + (opcode >> 3 & 4));
  }
}

// The sum of a function, and what follows from it.
CULE_HD inline Selects select_function(u32 opcode, Function function) {
  switch (function) {
    case Function::kPass:
      return {0, kWorkNz, 0, kRightS};
    case Function::kKeep:
      return {0, 0, 0, kRightS};
    case Function::kInc:
      return {0, kWorkNz | kWorkOne, 0, kRightS};
    case Function::kDec:
      return {0, kWorkNz, kLeftS, kRightNot};
    case Function::kOr:
      return {0, kWorkNz | kWorkAnd, kLeftReg | kLeftS, 0};
    case Function::kAnd:
      return {0, kWorkNz | kWorkAnd, 0, 0};
    case Function::kEor:
      return {0, kWorkNz, kLeftReg | kLeftS, 0};
    case Function::kAdc:
      return {0, kWorkNz | kWorkC | kWorkV | kWorkCarry | kWorkToA | kWorkDecimal, kLeftReg,
              kRightS};
    case Function::kSbc:
      return {0, kWorkNz | kWorkC | kWorkV | kWorkCarry | kWorkToA | kWorkDecimal, kLeftReg,
              kRightS | kRightNot};
    case Function::kCompareA:
      return {0, kWorkNz | kWorkC | kWorkOne, kLeftReg, kRightS | kRightNot};
    case Function::kCompareX:
      return {0, kWorkNz | kWorkC | kWorkOne | kWorkRegX, kLeftReg, kRightS | kRightNot};
    case Function::kCompareY:
      return {0, kWorkNz | kWorkC | kWorkOne | kWorkRegY, kLeftReg, kRightS | kRightNot};
    case Function::kBit:
      return {0, kWorkNz | kWorkV | kWorkBit | kWorkAnd, 0, 0};
    case Function::kAsl:
      return {0, kWorkNz | kWorkC, kLeftS, kRightS};
    case Function::kRol:
      return {0, kWorkNz | kWorkC | kWorkCarry, kLeftS, kRightS};
    case Function::kLsr:
      return {0, kWorkNz | kWorkC | kWorkShiftsRight, 0, 0};
    case Function::kRor:
      return {0, kWorkNz | kWorkC | kWorkShiftsRight | kWorkCarry, 0, 0};
    case Function::kFlag:
      if (opcode == 0x18) return {0, kWorkC, 0, 0};                     // CLC: 0
      if (opcode == 0x38) return {0, kWorkC | kWorkOne, 0, kRightNot};  // SEC: 0 + 255 + 1
      return {0, kWorkRare, 0, 0};
    case Function::kBranch:
    case Function::kJump:
      return {0, 0, 0, 0};
    default:
      return {0, kWorkRare, 0, 0};
  }
}

CULE_HD inline Selects make_selects(u32 opcode, u32 op) {
  Selects select = select_function(opcode, micro_function(op));
  select.path = select_path(opcode, op);
  u32& work = select.work;
  const Source source = micro_source(op);
  if (source != Source::kLoaded) work |= kWorkFromReg;
  if (source == Source::kFromX) work |= kWorkRegX;
  if (source == Source::kFromY) work |= kWorkRegY;
  if (source == Source::kFromSp || source == Source::kFromAX) work |= kWorkRare;
  const Target target = micro_target(op);
  if (target == Target::kToA || target == Target::kToAX) work |= kWorkToA;
  if (target == Target::kToX || target == Target::kToAX) work |= kWorkToX;
  if (target == Target::kToY) work |= kWorkToY;
  if (target == Target::kToSp) work |= kWorkRare;
  if (target == Target::kToMemory) work |= kWorkStores;
  return select;
}

template <class Bus>
struct BranchFree {
  using Cpu = Execution<Bus>;

  CULE_HD static CULE_INLINE bool is_rare(const Cpu& e, Selects select) {
    return select.work & (e.d * kWorkDecimal + kWorkRare);
  }

  // `select`: of `opcode`.
  CULE_HD static CULE_INLINE void step(Cpu& e, u32 opcode, Selects select, const u32* micro_ops) {
    e.bus.begin(select.path >> kPathCycles & 0xF);
    const u32 low = e.bus.operand(e.pc);
    u32 base = select.path & kPathAbsolute ? e.bus.operand_word(e.pc) : low;
    if (select.path & kPathIndirect) {
      const u32 p = (low + (select.path & kPathPreIndexed ? e.x : 0)) & 0xFF;
      const u32 first = e.bus.read(p, low);
      base = first | e.bus.read(p + 1, first) << 8;
    }
    const u32 address = move(e, select.path, base, low);
    const u32 open_bus = select.path & kPathWraps ? low : base >> 8;
    const u32 loaded = select.path & kPathLoads ? e.bus.read_flat(address, open_bus) : low;
    if (CULE_UNLIKELY(is_rare(e, select))) {
      Staged<Bus>::finish(e, opcode, micro_ops[opcode], loaded, address);
    } else {
      work(e, select, loaded, address);
    }
  }

 private:
  // The address, and pc behind the instruction or at the target of a branch or jump.
  CULE_HD static CULE_INLINE u32 move(Cpu& e, u32 path, u32 base, u32 low) {
    const u32 next = e.pc + (path >> kPathSize);
    const bool is_branch = path & 0xFF << kPathTaken;
    const bool is_taken = path & conditions(e) << kPathTaken;
    u32 index = path & kPathIndexX ? e.x : 0;
    index = path & kPathIndexY ? e.y : index;
    index = is_branch ? (low ^ 0x80) - 0x80 : index;
    base = is_branch ? next : base;
    const u32 address = (base + index) & (path & kPathWraps ? 0xFF : 0xFFFF);
    const bool pays = is_taken || path & kPathCrossing;
    const u32 crossing = pays && ((address ^ base) & 0xFF00) ? 1 : 0;
    e.bus.charge(is_taken ? crossing + 1 : crossing);
    e.pc = next;
    if (is_taken || path & kPathJumps) {
      e.pc = address;
      if (is_branch) {
        e.bus.branch_taken(e, low);
      } else {
        e.bus.transfer(e, address >> 8);
      }
    }
    return address;
  }

  // Bits as in kPathTaken: what branches are taken.
  CULE_HD static CULE_INLINE u32 conditions(const Cpu& e) {
    const u32 n = e.nz & 0x180 ? 1 : 0;
    const u32 z = e.nz & 0xFF ? 0 : 8;
    const u32 set = n + 2 * e.v + 4 * e.c + z;
    return set * 15 + 15;  // set << 4 | (set ^ 15)
  }

  CULE_HD static CULE_INLINE void work(Cpu& e, Selects select, u32 loaded, u32 address) {
    const u32 work = select.work;
    u32 reg = work & kWorkRegX ? e.x : e.a;
    reg = work & kWorkRegY ? e.y : reg;
    const u32 s = work & kWorkFromReg ? reg : loaded;
    const u32 left = (reg & select.left) ^ (s & select.left >> 8);
    const u32 right = (s & (work & kWorkAnd ? reg : select.right)) ^ select.right >> 8;
    const u32 carry = work & kWorkCarry ? e.c : work & kWorkOne;
    u32 sum = left + right + carry;
    const u32 overflow = (left ^ sum) & (right ^ sum);
    const u32 wide = carry << 8 | s;
    sum = work & kWorkShiftsRight ? wide >> 1 | (wide & 1) << 8 : sum;
    const u32 result = sum & 0xFF;
    e.nz = work & kWorkNz ? result | (s & work & kWorkBit) << 1 : e.nz;
    e.c = work & kWorkC ? sum >> 8 : e.c;
    e.v = work & kWorkV ? (work & kWorkBit ? s << 1 : overflow) >> 7 & 1 : e.v;
    e.a = work & kWorkToA ? result : e.a;
    e.x = work & kWorkToX ? result : e.x;
    e.y = work & kWorkToY ? result : e.y;
    if (work & kWorkStores) e.bus.write(address, result);
  }
};

}  // namespace cule
