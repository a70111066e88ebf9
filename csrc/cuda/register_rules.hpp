// cuda/register_rules.hpp: what a write to the TIA does to a scanline, a LineRule a register.
//
// Everything derives from the table of tia/registers.hpp; for a scan's shared memory it is
// packed in one word.
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

// How a write to a register changes a scanline.
struct LineRule {
  u32 seen;           // bits of the value that may show
  u32 groups;         // that look different, a bit each
  u32 delay_clocks;   // until the picture changes; of the playfield it depends on the clock
  u32 objects;        // that may look different, a bit each
  u32 shows;          // object_shown_by()
  bool is_playfield;  // PF0 to PF2
  bool is_ordered;    // it does more than keep the value
  bool is_moving;     // of kMovingRegisters
  bool is_painted;    // of kPaintedRegisters
  bool is_in_order;   // of kOrderedRegisters
  bool is_noted;      // of kNotedRegisters
};
CULE_HD constexpr LineRule line_rule(u32 reg) {
  const Register& r = kRegisters.of[reg];
  const u32 objects = r.shows & kAllObjects;
  return {r.seen,
          groups_of(objects),
          delay_clocks(r, 0),
          objects,
          object_shown_by(r),
          r.kind == RegisterKind::kPlayfield,
          r.kind > RegisterKind::kStarMotion,
          bool(kMovingRegisters >> reg & 1),
          bool(kPaintedRegisters >> reg & 1),
          bool(kOrderedRegisters >> reg & 1),
          bool(kNotedRegisters >> reg & 1)};
}

// A LineRule in one word, whose low byte is `seen`.
struct PackedRule {
  u32 word;

  CULE_HD static constexpr PackedRule of(const LineRule& r) {
    return {r.seen | r.groups << kGroupsAt | r.delay_clocks << kDelayAt | r.objects << kObjectsAt |
            r.shows << kShowsAt | (r.is_playfield ? kIsPlayfield : 0) |
            (r.is_ordered ? kOrdered : 0) | (r.is_moving ? kMoving : 0) |
            (r.is_painted ? kPainted : 0) | (r.is_in_order ? kInOrder : 0) |
            (r.is_noted ? kNoted : 0)};
  }
  CULE_HD CULE_INLINE u32 seen(u32 value) const { return value & word & 0xFF; }
  CULE_HD CULE_INLINE u32 groups() const { return word >> kGroupsAt & ((1u << kGroups) - 1); }
  CULE_HD CULE_INLINE u32 objects() const { return word >> kObjectsAt & kAllObjects; }
  CULE_HD CULE_INLINE u32 shows() const { return word >> kShowsAt; }
  CULE_HD CULE_INLINE u32 is_ordered() const { return word & kOrdered; }
  CULE_HD CULE_INLINE u32 is_moving() const { return word & kMoving; }
  CULE_HD CULE_INLINE u32 is_painted() const { return word & kPainted; }
  CULE_HD CULE_INLINE u32 is_in_order() const { return word & kInOrder; }
  CULE_HD CULE_INLINE u32 is_noted() const { return word & kNoted; }
  // Clocks until the picture changes. RESPn may delay it too.
  CULE_HD CULE_INLINE u32 delay(u32 cycle) const {
    return word & kIsPlayfield ? playfield_delay_clocks(cycle) : word >> kDelayAt & 0xF;
  }

 private:
  static constexpr u32 kGroupsAt = 8;  // the place of the groups, and so on
  static constexpr u32 kDelayAt = 12;
  static constexpr u32 kIsPlayfield = 1u << 16;
  static constexpr u32 kOrdered = 1u << 17;
  static constexpr u32 kMoving = 1u << 18;
  static constexpr u32 kPainted = 1u << 19;
  static constexpr u32 kObjectsAt = 20;
  static constexpr u32 kInOrder = 1u << 26;
  static constexpr u32 kNoted = 1u << 27;
  static constexpr u32 kShowsAt = 28;
};

// The rules of all registers and the selectors, as a scan has them in shared memory.
struct alignas(16) RuleTable {
  u32 rules[kNumRegisters];
  u32 selectors[kNumSelectors];
};
CULE_HD constexpr RuleTable make_rule_table() {
  RuleTable t{};
  for (u32 reg = 0; reg < kNumRegisters; ++reg) t.rules[reg] = PackedRule::of(line_rule(reg)).word;
  for (u32 mask = 0; mask < kNumSelectors; ++mask) t.selectors[mask] = last_before_selector(mask);
  return t;
}
static __device__ const RuleTable kRuleTable = make_rule_table();

}  // namespace cule
