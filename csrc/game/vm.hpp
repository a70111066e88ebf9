// game/vm.hpp: executes the compiled rules of a game: reward, score, lives, terminal, mode
// selection.
//
// A program is a list of i32 words made by cule/games/compiler.py from games.toml; the opcodes
// below are the same list there. In: RAM of the console and the cartridge, slots (score, reward,
// terminal, further state, locals). Out: changed slots, or the value an expression leaves. Integers
// are 32-bit and wrap. Mode-selection programs also act on the environment, through an Effects
// object.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

constexpr u32 kMaxSlots = 32;
constexpr u32 kMaxStack = 16;
enum Slot : u32 { kScoreSlot, kRewardSlot, kTerminalSlot, kModeSlot = kMaxSlots - 1 };

// In games for several players the rewards of the others follow `terminal`.
CULE_HD constexpr u32 reward_slot(u32 player) {
  return player == 0 ? u32(kRewardSlot) : kTerminalSlot + player;
}

enum RuleOp : i32 {
  kEnd = 0,
  kConst = 1,
  kLoad = 2,
  kStore = 3,
  kRam = 4,
  kCartRam = 5,
  kRamAt = 6,
  kBcd1At = 7,
  kBcd1 = 8,
  kAdd = 10,
  kSub = 11,
  kMul = 12,
  kFloorDiv = 13,
  kMod = 14,
  kAnd = 15,
  kOr = 16,
  kXor = 17,
  kShl = 18,
  kShr = 19,
  kNeg = 20,
  kInvert = 21,
  kNot = 22,
  kEq = 23,
  kNe = 24,
  kLt = 25,
  kLe = 26,
  kGt = 27,
  kGe = 28,
  kJump = 30,
  kJumpIfZero = 31,
  kJumpIfZeroOrPop = 32,
  kJumpIfNonzeroOrPop = 33,
  kSelect = 40,
  kSoftReset = 41,
  kAct = 42,
  kRand = 43,
  kFail = 44,
  kEmit = 45,
  kTable = 46,
  kPoke = 47,
  kRandBelow = 48,
  kRow = 49,
};

// Added to a binary operation: the right operand is the word that follows; or the left one is the
// byte of RAM whose index follows, and the right one the word after that.
constexpr i32 kWithConstant = 64;
constexpr i32 kWithCell = 128;

// Effects of a program: none, those of a mode selection, rows of objects, or changes of RAM.
enum class ProgramKind : u8 { kRules, kSetup, kObjects, kModification };
constexpr u32 kMaxTable = 256;
constexpr u32 kObjectColumns = 6;              // x, y, width, height, visible, value
constexpr u32 kRowWords = kObjectColumns / 2;  // two columns a word

struct RuleMemory {
  const u8* ram;           // 128 cells
  const u8* cart_ram;      // 128 cells
  u8* data_bus = nullptr;  // takes each byte read from `ram`, where a program can see that

  CULE_HD CULE_INLINE i32 read(u32 i) const {
    if (data_bus != nullptr) *data_bus = ram[i];
    return ram[i];
  }
};

// For programs without effects.
struct NoEffects {
  static constexpr ProgramKind kKind = ProgramKind::kRules;
};

CULE_HD CULE_INLINE i32 bcd1(u32 byte) { return i32(10 * (byte >> 4) + (byte & 15)); }

CULE_HD inline i32 floor_div(i32 a, i32 b) {
  if (b == 0) return 0;
  if (b == -1) return i32(0u - u32(a));
  const i32 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

CULE_HD constexpr bool is_binary(i32 op) {
  return (op >= kAdd && op <= kShr) || (op >= kEq && op <= kGe);
}

CULE_HD inline i32 apply_binary(i32 op, i32 a, i32 b) {
  switch (op) {
    case kAdd:
      return i32(u32(a) + u32(b));
    case kSub:
      return i32(u32(a) - u32(b));
    case kMul:
      return i32(u32(a) * u32(b));
    case kFloorDiv:
      return floor_div(a, b);
    case kMod:
      return b == 0 ? 0 : i32(u32(a) - u32(floor_div(a, b)) * u32(b));
    case kAnd:
      return a & b;
    case kOr:
      return a | b;
    case kXor:
      return a ^ b;
    case kShl:
      return u32(b) > 31 ? 0 : i32(u32(a) << b);
    case kShr:
      return a >> (u32(b) > 31 ? 31 : b);
    case kEq:
      return a == b;
    case kNe:
      return a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    default:
      return a >= b;
  }
}

// Runs to the end; returns the value left on the stack, or 0. An Effects method returning false
// stops the program; count_jump() is asked at every jump, so that a loop that never ends is
// noticed.
template <class Effects>
CULE_HD i32 run_program(const i32* code, i32* slots, const RuleMemory& memory, Effects& effects) {
  i32 stack[kMaxStack + 1];
  i32* top = stack;  // the cell below the first value
  *top = 0;
  for (const i32* p = code;;) {
    const i32 op = *p++;
    switch (op) {
      case kEnd:
        return *top;
      case kConst:
        *++top = *p++;
        break;
      case kLoad:
        *++top = slots[*p++];
        break;
      case kStore:
        slots[*p++] = *top--;
        break;
      case kRam:
        *top = memory.read(u32(*top & 0x7F));
        break;
      case kCartRam:
        *top = memory.cart_ram[*top & 0x7F];
        break;
      case kRamAt:
        *++top = memory.read(u32(*p++));
        break;
      case kBcd1At:
        *++top = bcd1(u32(memory.read(u32(*p++))));
        break;
      case kBcd1:
        *top = bcd1(u32(memory.read(u32(*top & 0x7F))));
        break;
      case kNeg:
        *top = i32(0u - u32(*top));
        break;
      case kInvert:
        *top = ~*top;
        break;
      case kNot:
        *top = !*top;
        break;
      case kJump:
        if constexpr (Effects::kKind == ProgramKind::kSetup) {
          if (!effects.count_jump()) return 0;
        }
        p = code + *p;
        break;
      case kJumpIfZero:
        p = *top-- ? p + 1 : code + *p;
        break;
      case kJumpIfZeroOrPop:
        if (*top) {
          --top;
          ++p;
        } else {
          p = code + *p;
        }
        break;
      case kJumpIfNonzeroOrPop:
        if (!*top) {
          --top;
          ++p;
        } else {
          p = code + *p;
        }
        break;
      case kSelect:
      case kSoftReset:
      case kAct:
      case kRand:
      case kFail:
        if constexpr (Effects::kKind == ProgramKind::kSetup) {
          if (op == kSelect && !effects.select(*top--)) return 0;
          if (op == kSoftReset && !effects.soft_reset()) return 0;
          if (op == kAct && !effects.act(*top--)) return 0;
          if (op == kRand) *++top = effects.draw();
          if (op == kFail) {
            effects.fail(*p);
            return 0;
          }
          break;
        }
        return 0;
      case kEmit:
      case kTable:
      case kRow:
        if constexpr (Effects::kKind == ProgramKind::kObjects) {
          if (op == kEmit) {
            effects.emit(u32(*p++), *top--);
          } else if (op == kRow) {
            effects.begin(u32(*p), p + 1);
            p += 1 + kRowWords;
          } else {
            const i32 last = *p++ - 1;
            const i32 at = *top < 0 ? 0 : *top > last ? last : *top;
            *top = p[at];
            p += last + 1;
          }
          break;
        }
        return 0;
      case kPoke:
      case kRandBelow:
        if constexpr (Effects::kKind == ProgramKind::kModification) {
          if (op == kPoke) {
            effects.poke(top[-1], *top);
            top -= 2;
          } else {
            *top = effects.draw_below(*top);
          }
          break;
        }
        return 0;
      default: {
        if (op >= kWithCell) *++top = memory.read(u32(*p++));
        const i32 right = op >= kWithConstant ? *p++ : *top--;
        *top = apply_binary(op & (kWithConstant - 1), *top, right);
        break;
      }
    }
  }
}

// What run_program relies on: known opcodes, operands in range, jumps to opcode boundaries, no loop
// but a counted one, a stack that neither overflows nor underflows, an end. Returns the index of
// the first bad word, or -1. num_rows: of objects that it may begin.
CULE_HD inline i32 find_program_error(const i32* code, u32 size, ProgramKind kind,
                                      u32 num_rows = 0) {
  const bool is_setup = kind == ProgramKind::kSetup;
  constexpr u32 kMaxWords = 8192;
  if (size > kMaxWords) return kMaxWords;
  // Depth of the stack before each word; -1: not an opcode boundary reached so far.
  i16 depth[kMaxWords + 1];
  for (u32 i = 0; i <= size; ++i) depth[i] = -1;
  if (size == 0) return 0;
  depth[0] = 0;
  // Forward order visits every opcode before its forward jumps; backward jumps are checked against
  // it.
  for (u32 i = 0; i < size;) {
    const i32 op = code[i];
    const bool has_cell = is_binary(i32(u32(op) - kWithCell));
    const bool has_constant = is_binary(i32(u32(op) - kWithConstant));
    const bool has_operand = has_constant || (op >= kConst && op <= kStore) || op == kRamAt ||
                             op == kBcd1At || (op >= kJump && op <= kJumpIfNonzeroOrPop) ||
                             (op >= kFail && op <= kTable);
    const u32 num_operands = has_cell ? 2 : op == kRow ? 1 + kRowWords : has_operand;
    if (i + num_operands >= size) return i32(i);
    const i32 operand = num_operands > 0 ? code[i + 1] : 0;
    if (op == kTable && (operand < 1 || operand > i32(kMaxTable))) return i32(i);
    const u32 next = i + 1 + num_operands + (op == kTable ? u32(operand) : 0);
    if (next > size) return i32(i);
    i32 d = depth[i];
    i32 change = 0, needs = 0;
    if (op == kEnd || op == kSoftReset || op == kFail || op == kJump || op == kRow) {
      change = 0;
    } else if (op == kConst || op == kLoad || op == kRamAt || op == kBcd1At || op == kRand ||
               has_cell) {
      change = 1;
    } else if (op == kStore || op == kJumpIfZero || op == kSelect || op == kAct || op == kEmit ||
               op == kJumpIfZeroOrPop || op == kJumpIfNonzeroOrPop) {
      change = -1;
      needs = 1;
    } else if (op == kPoke) {
      change = -2;
      needs = 2;
    } else if (op == kRam || op == kCartRam || op == kBcd1 || op == kTable || op == kRandBelow ||
               (op >= kNeg && op <= kNot) || has_constant) {
      needs = 1;
    } else if (is_binary(op)) {
      change = -1;
      needs = 2;
    } else {
      return i32(i);
    }
    if (op >= kSelect && op <= kFail && !is_setup) return i32(i);
    if ((op == kEmit || op == kTable || op == kRow) && kind != ProgramKind::kObjects) return i32(i);
    if ((op == kPoke || op == kRandBelow) && kind != ProgramKind::kModification) return i32(i);
    if (op == kEmit && u32(operand) >= kObjectColumns) return i32(i);
    if (op == kRow && u32(operand) >= num_rows) return i32(i);
    if ((op == kLoad || op == kStore) && u32(operand) >= kMaxSlots) return i32(i);
    if ((op == kRamAt || op == kBcd1At || has_cell) && u32(operand) >= 128) return i32(i);
    const bool is_reached = d >= 0;
    if (is_reached && (d < needs || d + change > i32(kMaxStack))) return i32(i);
    if (op >= kJump && op <= kJumpIfNonzeroOrPop) {
      if (u32(operand) >= size) return i32(i);
      // Loops only where an Effects object counts their jumps.
      if (u32(operand) <= i && !(op == kJump && is_setup)) return i32(i);
      const i16 at_target =
          i16(op == kJump || op == kJumpIfZeroOrPop || op == kJumpIfNonzeroOrPop ? d : d + change);
      if (is_reached) {
        if (u32(operand) <= i && depth[operand] != at_target) return i32(i);
        if (depth[operand] >= 0 && depth[operand] != at_target) return i32(i);
        depth[operand] = at_target;
      }
    }
    const bool falls_through = op != kEnd && op != kJump && op != kFail;
    if (falls_through && is_reached) {
      if (next >= size) return i32(i);
      if (depth[next] >= 0 && depth[next] != d + change) return i32(i);
      depth[next] = i16(d + change);
    }
    for (u32 inside = i + 1; inside < next; ++inside) {
      if (depth[inside] >= 0) return i32(i);  // a jump into an operand
    }
    i = next;
  }
  return -1;
}

}  // namespace cule
