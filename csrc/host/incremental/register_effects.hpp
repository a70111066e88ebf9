// host/incremental/register_effects.hpp: what a write to each TIA register reads and changes of
// TiaState, as a table.
//
// LogRenderer::write() is the rule; tests/cpp/register_effects.cpp holds the table to it.
#pragma once

#include "host/incremental/tia_bytes.hpp"
#include "tia/log.hpp"

namespace cule {

struct RegisterEffect {
  TiaBytes reads;    // new values of other bytes depend on these
  TiaBytes sets;     // assigned, independently of what they were
  TiaBytes changes;  // may change, each depending on itself and `reads`
};

constexpr u32 kLogRegisters = 64;
constexpr u32 kStarStart = kLogRegisters;  // a write to HMM0 that can start the star field

struct RegisterEffects {
  RegisterEffect of[kLogRegisters + 1];
};

constexpr RegisterEffects make_register_effects() {
  using namespace tia_bytes;
  RegisterEffects e{};
  e.of[VBLANK].sets = kVblank;
  e.of[CTRLPF].sets = kCtrlpf;
  e.of[CTRLPF].changes = kMirror;
  for (u32 n = 0; n < 2; ++n) {
    const u32 player = kPlayer0 + n, missile = kMissile0 + n;
    const TiaBytes look = n == 0 ? kMissile0Look : 0;
    e.of[NUSIZ0 + n].sets = nusiz(n) | skip(n) | look;
    e.of[REFP0 + n].sets = refp(n);
    e.of[RESP0 + n].reads = position(player) | nusiz(n);
    e.of[RESP0 + n].sets = position(player) | skip(n);
    e.of[RESM0 + n].reads = kHmoveClock;
    e.of[RESM0 + n].sets = position(missile) | look;
    e.of[GRP0 + n].reads = grp(1 - n) | (n == 1 ? kEnabl : 0);
    e.of[GRP0 + n].sets = grp(n) | old_grp(1 - n) | (n == 1 ? kOldEnabl : 0);
    e.of[ENAM0 + n].sets = enam(n);
    e.of[VDELP0 + n].sets = vdelp(n);
    e.of[RESMP0 + n].reads = position(player) | nusiz(n) | resmp(n);
    e.of[RESMP0 + n].sets = resmp(n);
    e.of[RESMP0 + n].changes = position(missile) | look;
  }
  for (u32 n = 0; n < 4; ++n) {
    e.of[COLUP0 + n].reads = kColorLoss;
    e.of[COLUP0 + n].sets = color(n);
  }
  for (u32 n = 0; n < 3; ++n) e.of[PF0 + n].sets = pf(n);
  for (u32 n = 0; n < sizeof(TiaState::audio); ++n) e.of[AUDC0 + n].sets = audio(n);
  e.of[RESBL].reads = kHmoveClock;
  e.of[RESBL].sets = position(kBall);
  e.of[ENABL].sets = kEnabl;
  e.of[VDELBL].sets = kVdelbl;
  for (u32 object = 0; object < kPlayfield; ++object) e.of[HMP0 + object].sets = hm(object);
  e.of[kStarStart].reads = hm(kMissile0) | kHmoveClock;
  e.of[kStarStart].sets = hm(kMissile0);
  e.of[kStarStart].changes = kStars;
  e.of[HMOVE].reads = kAllHm;
  e.of[HMOVE].sets =
      kHmoveClock | skip(0) | skip(1) | kMissile0Look | of(offsetof(TiaState, stars));
  e.of[HMOVE].changes = kHmoveBlank | kAllPositions;
  e.of[HMCLR].sets = kAllHm;
  e.of[CXCLR].sets = kCollisions;
  return e;
}

inline constexpr RegisterEffects kRegisterEffects = make_register_effects();

inline const RegisterEffect& effect_of(u32 reg, u32 value) {
  return kRegisterEffects.of[reg == HMM0 && value >> 4 == 6 ? kStarStart : reg];
}

}  // namespace cule
