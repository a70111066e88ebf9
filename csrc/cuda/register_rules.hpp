// cuda/register_rules.hpp: what a write to the TIA does to a scanline, in one word a register.
#pragma once

#include "tia/registers.hpp"

namespace cule {

CULE_HD constexpr u64 register_bits(u32 first, u32 last) {
  return (2ULL << last) - (1ULL << first);
}

// Registers that a state holds as they were written.
constexpr u64 kLineRegisters =
    kEffectiveRegisters & ~registers_of(RegisterKind::kSound, RegisterKind::kPlacePlayer,
                                        RegisterKind::kPlaceSmall, RegisterKind::kMove,
                                        RegisterKind::kClearMotion, RegisterKind::kClearLatches);
constexpr u64 kColorRegisters = registers_of(RegisterKind::kBlank, RegisterKind::kColor);

// What moves or changes an object, and is more than a colour.
constexpr u64 kMovingRegisters =
    kEffectiveRegisters & ~registers_of(RegisterKind::kColor, RegisterKind::kSound);

// What HMOVE depends on.
constexpr u64 kMotionRegisters =
    registers_of(RegisterKind::kMotion, RegisterKind::kStarMotion, RegisterKind::kClearMotion);

// What puts an object at a place.
constexpr u64 kPlacingRegisters =
    registers_of(RegisterKind::kPlacePlayer, RegisterKind::kPlaceSmall, RegisterKind::kLock);

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

// As the table has them.
static_assert(kLineRegisters == (register_bits(VBLANK, VBLANK) | register_bits(NUSIZ0, PF2) |
                                 register_bits(GRP0, RESMP1)));
static_assert(kColorRegisters == (register_bits(VBLANK, VBLANK) | register_bits(COLUP0, COLUBK)));
static_assert(kMovingRegisters == (register_bits(VBLANK, VBLANK) | register_bits(NUSIZ0, NUSIZ1) |
                                   register_bits(CTRLPF, RESBL) | register_bits(GRP0, CXCLR)));
static_assert(kOrderedRegisters == (register_bits(NUSIZ0, NUSIZ1) | register_bits(CTRLPF, CTRLPF) |
                                    register_bits(RESP0, RESBL) | register_bits(HMP0, HMBL) |
                                    register_bits(RESMP0, HMCLR)));
static_assert(kPlacingRegisters == (register_bits(RESP0, RESBL) | register_bits(RESMP0, RESMP1)));
static_assert(kMotionRegisters == (register_bits(HMP0, HMBL) | register_bits(HMCLR, HMCLR)));
static_assert(kPaintedRegisters ==
              ((kMovingRegisters & ~kMotionRegisters & ~register_bits(CXCLR, CXCLR)) |
               kColorRegisters));
static_assert(kNotedRegisters == (register_bits(GRP0, GRP1) | register_bits(HMM0, HMM0) |
                                  register_bits(HMOVE, HMCLR)));

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

// Objects that a write may make look different, a bit each.
CULE_HD constexpr u32 written_objects(u32 reg) {
  constexpr u32 players = 1u << kPlayer0 | 1u << kPlayer1;
  switch (reg) {
    case NUSIZ0:
    case NUSIZ1:
      return (1u << kPlayer0 | 1u << kMissile0) << (reg - NUSIZ0);
    case REFP0:
    case REFP1:
      return 1u << (reg - REFP0);
    case RESP0:
    case RESP1:
      return 1u << (reg - RESP0);
    case VDELP0:
    case VDELP1:
      return 1u << (reg - VDELP0);
    case RESM0:
    case RESM1:
      return 1u << (kMissile0 + reg - RESM0);
    case ENAM0:
    case ENAM1:
      return 1u << (kMissile0 + reg - ENAM0);
    case RESMP0:
    case RESMP1:
      return 1u << (kMissile0 + reg - RESMP0);
    case GRP0:
      return players;
    case GRP1:
      return players | 1u << kBall;
    case RESBL:
    case ENABL:
    case VDELBL:
      return 1u << kBall;
    case CTRLPF:
      return 1u << kBall | 1u << kPlayfield;
    case PF0:
    case PF1:
    case PF2:
      return 1u << kPlayfield;
    case HMOVE:
      return (1u << kPlayfield) - 1;
    default:
      return 0;
  }
}

// 1 + the object that shows where the register's bits are set; 0 if it shows none by itself.
CULE_HD constexpr u32 shown_object(u32 reg) {
  switch (reg) {
    case GRP0:
    case GRP1:
      return 1 + kPlayer0 + (reg - GRP0);
    case ENAM0:
    case ENAM1:
      return 1 + kMissile0 + (reg - ENAM0);
    case ENABL:
      return 1 + kBall;
    case PF0:
    case PF1:
    case PF2:
      return 1 + kPlayfield;
    default:
      return 0;
  }
}

CULE_HD constexpr u32 old_register_rule(u32 reg) {
  constexpr u32 first = 1u << kFirst, second = 1u << kSecond;
  constexpr u32 field = 1u << kField, ball = 1u << kBallGroup;
  u32 bits = 0, groups = 0, flags = 0;
  if (kLineRegisters >> reg & 1) flags |= kIsStored;
  if (kMovingRegisters >> reg & 1) flags |= kIsMoving;
  if (kPaintedRegisters >> reg & 1) flags |= kIsPainted;
  if (kOrderedRegisters >> reg & 1) flags |= kIsInOrder;
  if (kNotedRegisters >> reg & 1) flags |= kIsNoted;
  switch (reg) {
    case VBLANK:
      bits = 2;
      break;
    case COLUP0:
    case COLUP1:
    case COLUPF:
    case COLUBK:
      bits = 0xFE;
      break;
    case NUSIZ0:
    case RESP0:
    case RESM0:
      bits = reg == NUSIZ0 ? 0x37 : 0;
      groups = first;
      flags |= kIsOrdered;
      break;
    case NUSIZ1:
    case RESP1:
    case RESM1:
      bits = reg == NUSIZ1 ? 0x37 : 0;
      groups = second;
      flags |= kIsOrdered;
      break;
    case REFP0:
    case REFP1:
      bits = 8;
      groups = first << (reg - REFP0);
      break;
    case ENAM0:
    case ENAM1:
      bits = 2;
      groups = first << (reg - ENAM0);
      break;
    case VDELP0:
    case VDELP1:
      bits = 1;
      groups = first << (reg - VDELP0);
      break;
    case RESMP0:
    case RESMP1:
      bits = 2;
      groups = first << (reg - RESMP0);
      flags |= kIsOrdered;
      break;
    case GRP0:
      bits = 0xFF;
      groups = first | second;
      flags |= kIsOrdered;
      break;
    case GRP1:
    case HMOVE:
      bits = reg == GRP1 ? 0xFF : 0;
      groups = first | second | ball;
      flags |= kIsOrdered;
      break;
    case RESBL:
      groups = ball;
      flags |= kIsOrdered;
      break;
    case CTRLPF:
      bits = 0x37;
      groups = field | ball;
      flags |= kIsOrdered;
      break;
    case HMCLR:
    case CXCLR:
      flags |= kIsOrdered;
      break;
    case ENABL:
    case VDELBL:
      bits = reg == ENABL ? 2 : 1;
      groups = ball;
      break;
    case PF0:
    case PF1:
    case PF2:
      bits = reg == PF0 ? 0xF0 : 0xFF;
      groups = field;
      flags |= kIsPlayfield;
      break;
    default:
      break;
  }
  return bits | groups << kRuleStale | write_delay_clocks(reg, 0) << kRuleDelay | flags |
         written_objects(reg) << kRuleObjects | shown_object(reg) << kRuleShows;
}

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

constexpr bool are_rules_equal() {
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    if (register_rule(reg) != old_register_rule(reg)) return false;
  }
  return true;
}
static_assert(are_rules_equal());

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
