// tia/registers.hpp: the TIA's write registers, one row each.
//
// A row says what a write is: how TiaState keeps the value, when it takes effect and what may look
// different then. What HMOVE, RESPn and others compute is in tia/rules.hpp, the order of events in
// tia/log_renderer.hpp. Facts: NOTES.md 5 and 6.
#pragma once

#include "tia/state.hpp"

namespace cule {

enum TiaRegister : u32 {
  VSYNC = 0x00,
  VBLANK = 0x01,
  WSYNC = 0x02,
  RSYNC = 0x03,
  NUSIZ0 = 0x04,
  NUSIZ1 = 0x05,
  COLUP0 = 0x06,
  COLUP1 = 0x07,
  COLUPF = 0x08,
  COLUBK = 0x09,
  CTRLPF = 0x0A,
  REFP0 = 0x0B,
  REFP1 = 0x0C,
  PF0 = 0x0D,
  PF1 = 0x0E,
  PF2 = 0x0F,
  RESP0 = 0x10,
  RESP1 = 0x11,
  RESM0 = 0x12,
  RESM1 = 0x13,
  RESBL = 0x14,
  AUDC0 = 0x15,
  AUDC1 = 0x16,
  AUDF0 = 0x17,
  AUDF1 = 0x18,
  AUDV0 = 0x19,
  AUDV1 = 0x1A,
  GRP0 = 0x1B,
  GRP1 = 0x1C,
  ENAM0 = 0x1D,
  ENAM1 = 0x1E,
  ENABL = 0x1F,
  HMP0 = 0x20,
  HMP1 = 0x21,
  HMM0 = 0x22,
  HMM1 = 0x23,
  HMBL = 0x24,
  VDELP0 = 0x25,
  VDELP1 = 0x26,
  VDELBL = 0x27,
  RESMP0 = 0x28,
  RESMP1 = 0x29,
  HMOVE = 0x2A,
  HMCLR = 0x2B,
  CXCLR = 0x2C,
  kBeamMark = 0x3F,  // unused by the chip; in a log: an access without an effect
};

constexpr u32 kNumRegisters = 64;

// What a write does. Up to kMotion it replaces a field of TiaState and does nothing else.
enum class RegisterKind : u8 {
  kNone,          // nothing here: VSYNC, WSYNC, RSYNC, unused
  kBlank,         // VBLANK
  kColor,         // COLUxx
  kReflect,       // REFPn
  kPlayfield,     // PFn
  kEnable,        // ENAxx
  kDelay,         // VDELxx
  kSound,         // AUDxx
  kMotion,        // HMxx, but for HMM0:
  kStarMotion,    // which may start the star field too
  kCopies,        // NUSIZn
  kControl,       // CTRLPF
  kPlacePlayer,   // RESPn
  kPlaceMissile,  // RESMn
  kPlaceBall,     // RESBL
  kGraphics,      // GRPn
  kLock,          // RESMPn
  kMove,          // HMOVE
  kClearMotion,   // HMCLR
  kClearLatches   // CXCLR
};

CULE_HD CULE_INLINE constexpr bool is_field(RegisterKind kind) {
  return u32(kind) - u32(RegisterKind::kBlank) <=
         u32(RegisterKind::kMotion) - u32(RegisterKind::kBlank);
}

// What a write shows: one bit an object that may look different from then on, and others. From
// kShowsBlank on, what is before it is drawn first in any case.
enum Shows : u32 {
  kAllObjects = (1u << kObjects) - 1,
  kShowsColor = 1u << kObjects,
  kShowsBlank = 2u << kObjects,
  kShowsAll = 4u << kObjects,
  kShowsSame = 8u << kObjects,     // the write changes nothing
  kHiddenColor = 16u << kObjects,  // the colour of objects that show nothing
};

struct alignas(8) Register {
  RegisterKind kind;
  u8 n;      // which one of its kind: an object, a player or an index
  u8 kept;   // bits of the value that TiaState keeps,
  u8 shift;  // moved right so far
  u8 field;  // offset in TiaState
  u8 seen;   // bits that a picture depends on
  u8 delay;  // clocks until the picture changes; kPlayfieldDelay: by the cycle
  u8 shows;  // Shows
};

constexpr u8 kPlayfieldDelay = 0xFF;

struct RegisterTable {
  Register of[kNumRegisters];
};

CULE_HD constexpr RegisterTable make_register_table() {
  using K = RegisterKind;
  constexpr u8 color = offsetof(TiaState, color), vblank = offsetof(TiaState, vblank);
  constexpr u8 ctrlpf = offsetof(TiaState, ctrlpf), nusiz = offsetof(TiaState, nusiz);
  constexpr u8 refp = offsetof(TiaState, refp), pf = offsetof(TiaState, pf);
  constexpr u8 grp = offsetof(TiaState, grp), enam = offsetof(TiaState, enam);
  constexpr u8 enabl = offsetof(TiaState, enabl), hm = offsetof(TiaState, hm);
  constexpr u8 vdelp = offsetof(TiaState, vdelp), vdelbl = offsetof(TiaState, vdelbl);
  constexpr u8 resmp = offsetof(TiaState, resmp), audio = offsetof(TiaState, audio);
  constexpr u8 p0 = 1 << kPlayer0, p1 = 1 << kPlayer1, m0 = 1 << kMissile0, m1 = 1 << kMissile1;
  constexpr u8 bl = 1 << kBall, field = 1 << kPlayfield, movable = field - 1;
  constexpr u8 cell = kPlayfieldDelay;
  RegisterTable t{};
  // clang-format off
  //              kind             n          kept  shift field     seen  delay shows
  t.of[VBLANK] = {K::kBlank,       0,         0x02, 1, vblank,      0x02, 1,   kShowsBlank};
  t.of[NUSIZ0] = {K::kCopies,      0,         0xFF, 0, nusiz,       0x37, 8,   p0 | m0};
  t.of[NUSIZ1] = {K::kCopies,      1,         0xFF, 0, nusiz + 1,   0x37, 8,   p1 | m1};
  t.of[COLUP0] = {K::kColor,       0,         0xFE, 0, color,       0xFE, 0,   kShowsColor};
  t.of[COLUP1] = {K::kColor,       1,         0xFE, 0, color + 1,   0xFE, 0,   kShowsColor};
  t.of[COLUPF] = {K::kColor,       2,         0xFE, 0, color + 2,   0xFE, 0,   kShowsColor};
  t.of[COLUBK] = {K::kColor,       3,         0xFE, 0, color + 3,   0xFE, 0,   kShowsColor};
  t.of[CTRLPF] = {K::kControl,     0,         0xFF, 0, ctrlpf,      0x37, 0,   bl | field};
  t.of[REFP0]  = {K::kReflect,     0,         0x08, 3, refp,        0x08, 1,   p0};
  t.of[REFP1]  = {K::kReflect,     1,         0x08, 3, refp + 1,    0x08, 1,   p1};
  t.of[PF0]    = {K::kPlayfield,   0,         0xFF, 0, pf,          0xF0, cell, field};
  t.of[PF1]    = {K::kPlayfield,   1,         0xFF, 0, pf + 1,      0xFF, cell, field};
  t.of[PF2]    = {K::kPlayfield,   2,         0xFF, 0, pf + 2,      0xFF, cell, field};
  t.of[RESP0]  = {K::kPlacePlayer, 0,         0x00, 0, 0,           0x00, 0,    p0};
  t.of[RESP1]  = {K::kPlacePlayer, 1,         0x00, 0, 0,           0x00, 0,    p1};
  t.of[RESM0]  = {K::kPlaceMissile, kMissile0, 0x00, 0, 0,           0x00, 8,   m0};
  t.of[RESM1]  = {K::kPlaceMissile, kMissile1, 0x00, 0, 0,           0x00, 8,   m1};
  t.of[RESBL]  = {K::kPlaceBall,   kBall,     0x00, 0, 0,           0x00, 0,   bl};
  t.of[AUDC0]  = {K::kSound,       0,         0xFF, 0, audio,       0x00, 0,   0};
  t.of[AUDC1]  = {K::kSound,       1,         0xFF, 0, audio + 1,   0x00, 0,   0};
  t.of[AUDF0]  = {K::kSound,       2,         0xFF, 0, audio + 2,   0x00, 0,   0};
  t.of[AUDF1]  = {K::kSound,       3,         0xFF, 0, audio + 3,   0x00, 0,   0};
  t.of[AUDV0]  = {K::kSound,       4,         0xFF, 0, audio + 4,   0x00, 0,   0};
  t.of[AUDV1]  = {K::kSound,       5,         0xFF, 0, audio + 5,   0x00, 0,   0};
  t.of[GRP0]   = {K::kGraphics,    0,         0xFF, 0, grp,         0xFF, 1,   p0 | p1};
  t.of[GRP1]   = {K::kGraphics,    1,         0xFF, 0, grp + 1,     0xFF, 1,   p0 | p1 | bl};
  t.of[ENAM0]  = {K::kEnable,      kMissile0, 0x02, 1, enam,        0x02, 0,   m0};
  t.of[ENAM1]  = {K::kEnable,      kMissile1, 0x02, 1, enam + 1,    0x02, 0,   m1};
  t.of[ENABL]  = {K::kEnable,      kBall,     0x02, 1, enabl,       0x02, 0,   bl};
  t.of[HMP0]   = {K::kMotion,      kPlayer0,  0xF0, 4, hm,          0x00, 0,   0};
  t.of[HMP1]   = {K::kMotion,      kPlayer1,  0xF0, 4, hm + 1,      0x00, 0,   0};
  t.of[HMM0]   = {K::kStarMotion,  kMissile0, 0xF0, 4, hm + 2,      0x00, 0,   0};
  t.of[HMM1]   = {K::kMotion,      kMissile1, 0xF0, 4, hm + 3,      0x00, 0,   0};
  t.of[HMBL]   = {K::kMotion,      kBall,     0xF0, 4, hm + 4,      0x00, 0,   0};
  t.of[VDELP0] = {K::kDelay,       kPlayer0,  0x01, 0, vdelp,       0x01, 0,   p0};
  t.of[VDELP1] = {K::kDelay,       kPlayer1,  0x01, 0, vdelp + 1,   0x01, 0,   p1};
  t.of[VDELBL] = {K::kDelay,       kBall,     0x01, 0, vdelbl,      0x01, 0,   bl};
  t.of[RESMP0] = {K::kLock,        0,         0x02, 1, resmp,       0x02, 0,   m0};
  t.of[RESMP1] = {K::kLock,        1,         0x02, 1, resmp + 1,   0x02, 0,   m1};
  t.of[HMOVE]  = {K::kMove,        0,         0x00, 0, 0,           0x00, 0,   movable};
  t.of[HMCLR]  = {K::kClearMotion, 0,         0x00, 0, 0,           0x00, 0,   0};
  t.of[CXCLR]  = {K::kClearLatches, 0,        0x00, 0, 0,           0x00, 0,   0};
  // clang-format on
  return t;
}

CULE_TABLE(RegisterTable, kRegisters, make_register_table());

// The row of a register that is not a constant.
CULE_HD CULE_INLINE const Register& register_row(u32 reg) {
  return CULE_LOOK_UP(kRegisters).of[reg];
}

CULE_HD constexpr u32 first_register(RegisterKind kind) {
  u32 reg = 0;
  while (kRegisters.of[reg].kind != kind) ++reg;
  return reg;
}
// What all registers of a kind have in common: a row but for its n, field, seen and shows.
CULE_HD constexpr Register kind_row(RegisterKind kind) {
  return kRegisters.of[first_register(kind)];
}
CULE_HD constexpr bool are_kinds_uniform() {
  for (const Register& r : kRegisters.of) {
    const Register first = kind_row(r.kind);
    if (r.kept != first.kept || r.shift != first.shift || r.delay != first.delay) return false;
  }
  return true;
}
static_assert(are_kinds_uniform());

CULE_HD constexpr i32 step_of(RegisterKind kind, u8 Register::* column) {
  const u32 first = first_register(kind);
  for (u32 reg = first + 1; reg < kNumRegisters; ++reg) {
    if (kRegisters.of[reg].kind != kind) continue;
    return (kRegisters.of[reg].*column - kRegisters.of[first].*column) / i32(reg - first);
  }
  return 0;
}
CULE_HD constexpr bool is_even(RegisterKind kind, u8 Register::* column) {
  const u32 first = first_register(kind);
  const i32 begin = kRegisters.of[first].*column, step = step_of(kind, column);
  for (u32 reg = first; reg < kNumRegisters; ++reg) {
    const Register& r = kRegisters.of[reg];
    if (r.kind == kind && r.*column != begin + step * i32(reg - first)) return false;
  }
  return true;
}
// A column of the row of a register of this kind; without a look-up where the column grows evenly
// from register to register.
template <RegisterKind kKind, u8 Register::* kColumn>
CULE_HD CULE_INLINE u32 column_of(u32 reg) {
  if constexpr (is_even(kKind, kColumn)) {
    constexpr u32 kFirst = first_register(kKind);
    constexpr u32 kBegin = kRegisters.of[kFirst].*kColumn, kStep = u32(step_of(kKind, kColumn));
    return kBegin + kStep * (reg - kFirst);
  } else {
    return register_row(reg).*kColumn;
  }
}

// Calls f(tag) with tag.kKind, a constant, equal to the kind.
template <RegisterKind kind>
struct KindTag {
  static constexpr RegisterKind kKind = kind;
};
template <class F>
CULE_HD CULE_INLINE auto with_kind(RegisterKind kind, const F& f) {
  using K = RegisterKind;
  switch (kind) {
    case K::kBlank:
      return f(KindTag<K::kBlank>());
    case K::kColor:
      return f(KindTag<K::kColor>());
    case K::kReflect:
      return f(KindTag<K::kReflect>());
    case K::kPlayfield:
      return f(KindTag<K::kPlayfield>());
    case K::kEnable:
      return f(KindTag<K::kEnable>());
    case K::kDelay:
      return f(KindTag<K::kDelay>());
    case K::kSound:
      return f(KindTag<K::kSound>());
    case K::kMotion:
      return f(KindTag<K::kMotion>());
    case K::kStarMotion:
      return f(KindTag<K::kStarMotion>());
    case K::kCopies:
      return f(KindTag<K::kCopies>());
    case K::kControl:
      return f(KindTag<K::kControl>());
    case K::kPlacePlayer:
      return f(KindTag<K::kPlacePlayer>());
    case K::kPlaceMissile:
      return f(KindTag<K::kPlaceMissile>());
    case K::kPlaceBall:
      return f(KindTag<K::kPlaceBall>());
    case K::kGraphics:
      return f(KindTag<K::kGraphics>());
    case K::kLock:
      return f(KindTag<K::kLock>());
    case K::kMove:
      return f(KindTag<K::kMove>());
    case K::kClearMotion:
      return f(KindTag<K::kClearMotion>());
    case K::kClearLatches:
      return f(KindTag<K::kClearLatches>());
    case K::kNone:
      return f(KindTag<K::kNone>());
  }
  CULE_UNREACHABLE();
}

// Calls to.write<reg>(args...), if a write to the register does anything: code of its own for each.
// is_effective: it does.
template <bool is_effective = false, class To, class... Args>
CULE_INLINE void write_by_register(u32 reg, To& to, Args... args) {
  // clang-format off
  switch (reg) {
    case VBLANK: return to.template write<VBLANK>(args...);
    case NUSIZ0: return to.template write<NUSIZ0>(args...);
    case NUSIZ1: return to.template write<NUSIZ1>(args...);
    case COLUP0: return to.template write<COLUP0>(args...);
    case COLUP1: return to.template write<COLUP1>(args...);
    case COLUPF: return to.template write<COLUPF>(args...);
    case COLUBK: return to.template write<COLUBK>(args...);
    case CTRLPF: return to.template write<CTRLPF>(args...);
    case REFP0: return to.template write<REFP0>(args...);
    case REFP1: return to.template write<REFP1>(args...);
    case PF0: return to.template write<PF0>(args...);
    case PF1: return to.template write<PF1>(args...);
    case PF2: return to.template write<PF2>(args...);
    case RESP0: return to.template write<RESP0>(args...);
    case RESP1: return to.template write<RESP1>(args...);
    case RESM0: return to.template write<RESM0>(args...);
    case RESM1: return to.template write<RESM1>(args...);
    case RESBL: return to.template write<RESBL>(args...);
    case AUDC0: return to.template write<AUDC0>(args...);
    case AUDC1: return to.template write<AUDC1>(args...);
    case AUDF0: return to.template write<AUDF0>(args...);
    case AUDF1: return to.template write<AUDF1>(args...);
    case AUDV0: return to.template write<AUDV0>(args...);
    case AUDV1: return to.template write<AUDV1>(args...);
    case GRP0: return to.template write<GRP0>(args...);
    case GRP1: return to.template write<GRP1>(args...);
    case ENAM0: return to.template write<ENAM0>(args...);
    case ENAM1: return to.template write<ENAM1>(args...);
    case ENABL: return to.template write<ENABL>(args...);
    case HMP0: return to.template write<HMP0>(args...);
    case HMP1: return to.template write<HMP1>(args...);
    case HMM0: return to.template write<HMM0>(args...);
    case HMM1: return to.template write<HMM1>(args...);
    case HMBL: return to.template write<HMBL>(args...);
    case VDELP0: return to.template write<VDELP0>(args...);
    case VDELP1: return to.template write<VDELP1>(args...);
    case VDELBL: return to.template write<VDELBL>(args...);
    case RESMP0: return to.template write<RESMP0>(args...);
    case RESMP1: return to.template write<RESMP1>(args...);
    case HMOVE: return to.template write<HMOVE>(args...);
    case HMCLR: return to.template write<HMCLR>(args...);
    case CXCLR: return to.template write<CXCLR>(args...);
    default: if constexpr (is_effective) CULE_UNREACHABLE(); else return;
  }
  // clang-format on
}

// The registers of some kinds, one bit each.
template <class... Kinds>
CULE_HD constexpr u64 registers_of(Kinds... kinds) {
  u64 registers = 0;
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    const bool is_one = (... || (kRegisters.of[reg].kind == kinds));
    registers |= u64(is_one) << reg;
  }
  return registers;
}

// To the next playfield cell that is at least two clocks away: 4, 5, 2, 3 by cycle modulo 4 (a line
// is a multiple of 4 cycles, so the cycle of the frame will do).
CULE_HD CULE_INLINE constexpr u32 playfield_delay_clocks(u32 cycle) {
  return (0x3254u >> (4 * (cycle & 3))) & 0xF;
}
static_assert(kCyclesPerLine % 4 == 0);

// Clocks between a write at a frame clock and its effect on the picture (NOTES.md 5).
CULE_HD CULE_INLINE constexpr u32 delay_clocks(const Register& r, u32 clock) {
  if (r.delay != kPlayfieldDelay) return r.delay;
  return playfield_delay_clocks(clock / kClocksPerCycle);
}

// Registers whose writes replace a field, and do nothing else.
CULE_HD constexpr u64 field_registers() {
  u64 registers = 0;
  for (u32 reg = 0; reg < kNumRegisters; ++reg)
    registers |= u64(is_field(kRegisters.of[reg].kind)) << reg;
  return registers;
}
constexpr u64 kFieldRegisters = field_registers();

// Registers whose writes do anything here.
constexpr u64 kEffectiveRegisters = ~registers_of(RegisterKind::kNone);

}  // namespace cule
