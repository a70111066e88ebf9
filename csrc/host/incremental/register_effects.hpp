// host/incremental/register_effects.hpp: what a write to each TIA register reads and changes of
// TiaState, as a table.
//
// LogRenderer::write() is the rule; tests/cpp/register_effects.cpp holds the table to it.
#pragma once

#include "host/incremental/tia_bytes.hpp"
#include "tia/rules.hpp"

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
    case K::kPlaceMissile:
    case K::kPlaceBall:
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

inline constexpr RegisterEffects kRegisterEffects = make_register_effects();

inline const RegisterEffect& effect_of(u32 reg, u32 value) {
  return kRegisterEffects.of[reg == HMM0 && value >> 4 == kStarNibble ? kStarStart : reg];
}

}  // namespace cule
