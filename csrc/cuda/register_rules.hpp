// cuda/register_rules.hpp: what a write to the TIA does to a scanline, in one word a register.
//
// Everything derives from the table of tia/registers.hpp; packed for a scan's shared memory.
#pragma once

#include "tia/registers.hpp"

namespace cule {

CULE_HD constexpr u64 register_bits(u32 first, u32 last) {
  return (2ULL << last) - (1ULL << first);
}

// Registers that a state holds as they were written.
constexpr u64 kLineRegisters =
    kEffectiveRegisters & ~registers_of(RegisterKind::kSound, RegisterKind::kPlacePlayer,
                                        RegisterKind::kPlaceMissile, RegisterKind::kPlaceBall,
                                        RegisterKind::kMove, RegisterKind::kClearMotion,
                                        RegisterKind::kClearLatches);
constexpr u64 kColorRegisters = registers_of(RegisterKind::kBlank, RegisterKind::kColor);

// What moves or changes an object, and is more than a colour.
constexpr u64 kMovingRegisters =
    kEffectiveRegisters & ~registers_of(RegisterKind::kColor, RegisterKind::kSound);

// What HMOVE depends on.
constexpr u64 kMotionRegisters =
    registers_of(RegisterKind::kMotion, RegisterKind::kStarMotion, RegisterKind::kClearMotion);

// What puts an object at a place.
constexpr u64 kPlacingRegisters =
    registers_of(RegisterKind::kPlacePlayer, RegisterKind::kPlaceMissile, RegisterKind::kPlaceBall,
                 RegisterKind::kLock);

// What depends on the order of accesses: positions, and what a scanline's end changes.
constexpr u64 kOrderedRegisters =
    kPlacingRegisters | kMotionRegisters |
    registers_of(RegisterKind::kCopies, RegisterKind::kControl, RegisterKind::kMove);

// What a picture depends on.
constexpr u64 kPaintedRegisters =
    (kMovingRegisters & ~kMotionRegisters & ~registers_of(RegisterKind::kClearLatches)) |
    kColorRegisters;

// Registers whose last value alone is not enough for a scan.
constexpr u64 kNotedRegisters = registers_of(RegisterKind::kGraphics, RegisterKind::kStarMotion,
                                             RegisterKind::kMove, RegisterKind::kClearMotion);

// The registers that a state holds have a slot each, 32 with some unused ones.
CULE_HD CULE_INLINE u32 slots_of(u64 registers) {
  const u32 low = u32(registers), high = u32(registers >> 32);
  return (low & 0xFFF2) | (CULE_FUNNEL_RIGHT(high, low, 11) & 0x7FFF0000);
}
CULE_HD CULE_INLINE u32 register_of_slot(u32 slot) { return slot < 16 ? slot : slot + 11; }

// Selectors for bytes of two words: of four values, of which those in a mask are present, the last
// present one before each, and before a fifth; byte 4 where there is none.
constexpr u32 kNumSelectors = 16;
CULE_HD constexpr u32 last_before_selector(u32 mask) {
  u32 selector = 4, last = 4;
  for (u32 i = 0; i < 4; ++i) {
    if (mask >> i & 1) last = i;
    selector |= last << 4 * (i + 1);
  }
  return selector;
}

// Objects whose pixels change together: player 0 and missile 0, player 1 and missile 1, and two
// more.
enum ObjectGroup : u32 { kFirst, kSecond, kField, kBallGroup, kGroups };

// What a write does, in one word: the bits of the register that may show, the groups and the
// objects that look different, the delay in clocks, and flags.
enum RegisterRule : u32 {
  kRuleStale = 8,
  kRuleDelay = 12,
  kIsPlayfield = 1u << 16,  // the delay depends on the clock
  kIsStored = 1u << 17,     // kept as it was written
  kIsOrdered = 1u << 18,    // does more than that
  kIsMoving = 1u << 19,     // of kMovingRegisters
  kRuleObjects = 20,        // those that may look different, a bit each
  kIsPainted = 1u << 26,    // of kPaintedRegisters
  kIsInOrder = 1u << 27,    // of kOrderedRegisters
  kIsNoted = 1u << 28,      // of kNotedRegisters
  kRuleShows = 29,          // 1 + the object that shows where one of the bits is set; 0: none
};

// The groups of some objects.
CULE_HD constexpr u32 groups_of(u32 objects) {
  constexpr u32 first = 1u << kPlayer0 | 1u << kMissile0, second = 1u << kPlayer1 | 1u << kMissile1;
  return u32((objects & first) != 0) << kFirst | u32((objects & second) != 0) << kSecond |
         (objects >> kPlayfield & 1) << kField | (objects >> kBall & 1) << kBallGroup;
}

// 1 + the object that shows where the register's bits are set; 0 if it shows none by itself.
CULE_HD constexpr u32 object_shown_by(const Register& r) {
  if (r.kind == RegisterKind::kPlayfield) return 1 + kPlayfield;
  return r.kind == RegisterKind::kGraphics || r.kind == RegisterKind::kEnable ? 1u + r.n : 0;
}

CULE_HD constexpr u32 register_rule(u32 reg) {
  const Register& r = kRegisters.of[reg];
  const u32 objects = r.shows & kAllObjects;
  const auto flag = [reg](u64 registers, u32 bit) { return registers >> reg & 1 ? bit : 0; };
  return r.seen | groups_of(objects) << kRuleStale | delay_clocks(r, 0) << kRuleDelay |
         flag(registers_of(RegisterKind::kPlayfield), kIsPlayfield) |
         flag(kLineRegisters, kIsStored) | flag(kMovingRegisters, kIsMoving) |
         flag(kPaintedRegisters, kIsPainted) | flag(kOrderedRegisters, kIsInOrder) |
         flag(kNotedRegisters, kIsNoted) |
         (r.kind > RegisterKind::kStarMotion ? u32(kIsOrdered) : 0) | objects << kRuleObjects |
         object_shown_by(r) << kRuleShows;
}

// Clocks until the picture changes. RESPn may delay it too.
CULE_HD CULE_INLINE u32 delay_of_rule(u32 rule, u32 cycle) {
  return rule & kIsPlayfield ? playfield_delay_clocks(cycle) : rule >> kRuleDelay & 0xF;
}

// The rules of all registers and the selectors, as a scan has them in shared memory.
struct alignas(16) RuleTable {
  u32 rules[kNumRegisters];
  u32 selectors[kNumSelectors];
};
CULE_HD constexpr RuleTable make_rule_table() {
  RuleTable t{};
  for (u32 reg = 0; reg < kNumRegisters; ++reg) t.rules[reg] = register_rule(reg);
  for (u32 mask = 0; mask < kNumSelectors; ++mask) t.selectors[mask] = last_before_selector(mask);
  return t;
}
static __device__ const RuleTable kRuleTable = make_rule_table();

}  // namespace cule
