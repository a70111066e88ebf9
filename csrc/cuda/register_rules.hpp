// cuda/register_rules.hpp: what a write to the TIA does to a scanline, in one word a register.
#pragma once

#include "tia/state.hpp"

namespace cule {

constexpr u32 kNumRegisters = 64;

CULE_HD constexpr u64 register_bits(u32 first, u32 last) {
  return (2ULL << last) - (1ULL << first);
}

// Registers that a state holds as they were written.
constexpr u64 kLineRegisters =
    register_bits(VBLANK, VBLANK) | register_bits(NUSIZ0, PF2) | register_bits(GRP0, RESMP1);
constexpr u64 kColorRegisters = register_bits(VBLANK, VBLANK) | register_bits(COLUP0, COLUBK);

// Objects whose pixels change together: player 0 and missile 0, player 1 and missile 1, and two
// more.
enum ObjectGroup : u32 { kFirst, kSecond, kField, kBallGroup, kGroups };

// What a write does, in one word: the bits of the register that show (0: others decide, or none),
// the groups that look different, the delay in clocks, and flags.
enum RegisterRule : u32 {
  kRuleStale = 8,
  kRuleDelay = 12,
  kIsPlayfield = 1u << 16,  // the delay depends on the clock
  kIsStored = 1u << 17,     // kept as it was written
  kIsOrdered = 1u << 18,    // does more than that
};

CULE_HD CULE_INLINE u32 register_rule(u32 reg) {
  constexpr u32 first = 1u << kFirst, second = 1u << kSecond;
  constexpr u32 field = 1u << kField, ball = 1u << kBallGroup;
  u32 bits = 0, groups = 0, flags = kLineRegisters >> reg & 1 ? u32(kIsStored) : 0;
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
      groups = first;
      flags |= kIsOrdered;
      break;
    case NUSIZ1:
    case RESP1:
    case RESM1:
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
      groups = first | second;
      flags |= kIsOrdered;
      break;
    case GRP1:
    case HMOVE:
      groups = first | second | ball;
      flags |= kIsOrdered;
      break;
    case RESBL:
      groups = ball;
      flags |= kIsOrdered;
      break;
    case CTRLPF:
      groups = field | ball;
      flags |= kIsOrdered;
      break;
    case HMCLR:
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
  return bits | groups << kRuleStale | write_delay_clocks(reg, 0) << kRuleDelay | flags;
}

}  // namespace cule
