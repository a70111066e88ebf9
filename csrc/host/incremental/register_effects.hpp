// host/incremental/register_effects.hpp: what a write to each TIA register reads and changes of
// TiaState, as a table.
//
// LogRenderer::write() is the rule; tests/cpp/register_effects.cpp holds the table to it.
#pragma once

#include "host/incremental/tia_bytes.hpp"
#include "tia/registers.hpp"

namespace cule {

struct RegisterEffect {
  TiaBytes reads;    // new values of other bytes depend on these
  TiaBytes sets;     // assigned, independently of what they were
  TiaBytes changes;  // may change, each depending on itself and `reads`
};

constexpr u32 kStarStart = kNumRegisters;  // a write to HMM0 that can start the star field

struct RegisterEffects {
  RegisterEffect of[kNumRegisters + 1];
};

constexpr RegisterEffects old_register_effects() {
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

constexpr RegisterEffect make_register_effect(const Register& r) {
  using namespace tia_bytes;
  using K = RegisterKind;
  const TiaBytes field = of(r.field);
  switch (r.kind) {
    case K::kNone:
      return {};
    case K::kColor:
      return {kColorLoss, field, 0};
    case K::kCopies:
      return {0, field | skip(r.n) | missile_look(r.n), 0};
    case K::kControl:
      return {0, field, kMirror};
    case K::kPlacePlayer:
      return {position(r.n) | nusiz(r.n), position(r.n) | skip(r.n), 0};
    case K::kPlaceSmall:
      return {kHmoveClock, position(r.n) | missile_look(r.n - kMissile0), 0};
    case K::kGraphics:
      return {grp(1 - r.n) | (r.n == 1 ? kEnabl : 0),
              field | old_grp(1 - r.n) | (r.n == 1 ? kOldEnabl : 0), 0};
    case K::kLock:
      return {position(kPlayer0 + r.n) | nusiz(r.n) | field, field,
              position(kMissile0 + r.n) | missile_look(r.n)};
    case K::kMove:
      return {kAllHm, kHmoveClock | skip(0) | skip(1) | kMissile0Look | kIsStarField,
              kHmoveBlank | kAllPositions};
    case K::kClearMotion:
      return {0, kAllHm, 0};
    case K::kClearLatches:
      return {0, kCollisions, 0};
    default:
      return {0, field, 0};
  }
}

constexpr RegisterEffects make_register_effects() {
  using namespace tia_bytes;
  RegisterEffects e{};
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    e.of[reg] = make_register_effect(kRegisters.of[reg]);
  }
  e.of[kStarStart] = {hm(kMissile0) | kHmoveClock, hm(kMissile0), kStars};
  return e;
}

constexpr bool are_effects_equal() {
  const RegisterEffects a = old_register_effects();
  const RegisterEffects b = make_register_effects();
  for (u32 i = 0; i <= kStarStart; ++i) {
    if (a.of[i].reads != b.of[i].reads || a.of[i].sets != b.of[i].sets ||
        a.of[i].changes != b.of[i].changes) {
      return false;
    }
  }
  return true;
}
static_assert(are_effects_equal());

inline constexpr RegisterEffects kRegisterEffects = make_register_effects();

inline const RegisterEffect& effect_of(u32 reg, u32 value) {
  return kRegisterEffects.of[reg == HMM0 && value >> 4 == 6 ? kStarStart : reg];
}

}  // namespace cule
