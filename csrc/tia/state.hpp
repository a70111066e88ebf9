// tia/state.hpp: the registers and object state of the TIA as the drawing side sees them.
//
// The program only ever writes this state; what flows back to it (WSYNC, frame end, INPTx) is kept
// in console/state.hpp, and the collision latches here are brought up to date when a CX register is
// read. All times are frame clocks (tia/clocks.hpp). Facts: tia/NOTES.md.
#pragma once

#include <type_traits>

#include "base/bits.hpp"
#include "tia/clocks.hpp"

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

// Objects, in the order of the position and motion arrays; the playfield has neither.
enum Object : u32 { kPlayer0, kPlayer1, kMissile0, kMissile1, kBall, kPlayfield, kObjects };

enum class Missile0Look : u8 { kNormal, kWide, kHidden };  // star field, NOTES.md 10

constexpr i32 kNoVsyncFinish = 2147483647;

struct TiaState {
  u8 color[4];    // COLUP0, COLUP1, COLUPF, COLUBK as shown
  u8 color_loss;  // PAL: bit 0 of all colours, set while the last frame had an odd number of lines
  u8 vblank;      // 1: picture blanked
  u8 ctrlpf;
  u8 pf_mirror;  // latched playfield reflection (not CTRLPF itself)
  u8 nusiz[2];
  u8 refp[2];  // 0 or 1
  u8 grp[2];
  u8 old_grp[2];  // delayed copies
  u8 vdelp[2];
  u8 enam[2];
  u8 resmp[2];
  u8 enabl;
  u8 old_enabl;
  u8 vdelbl;
  u8 hm[5];        // motion nibbles, 0..15
  u8 position[5];  // 0..159
  u8 skip[2];      // first copy of the player is not shown
  Missile0Look missile0_look;
  u8 stars;  // star field running
  u8 star_count;
  u8 hmove_blank;          // next drawn pixels 0..7 are black
  u8 pf[3];                // PF0, PF1, PF2
  u8 audio[6];             // AUDC0 to AUDV1, for the sound generator alone; survive a reset
  u8 are_latches_partial;  // `collisions` lacks some latches, which the Renderer can complete
  u16 collisions;          // bits 2r and 2r+1 are bits 6 and 7 of read register r
  i32 hmove_clock;         // most recent HMOVE; rebased at frame starts
};

static_assert(std::is_trivially_copyable_v<TiaState> && sizeof(TiaState) == 60);

// How far the picture has got.
struct Beam {
  u32 mark;        // frame clock: everything before is settled
  u32 drawn;       // frame clock: everything before has been given to the sink; <= mark
  u32 line_begin;  // frame clock of the start of the line `drawn` is in
  u32 first;       // frame clock of the first pixel of this frame (no line end before it)

  CULE_HD CULE_INLINE bool operator==(const Beam& o) const {
    return ((mark ^ o.mark) | (drawn ^ o.drawn) | (line_begin ^ o.line_begin) |
            (first ^ o.first)) == 0;
  }
};

CULE_HD CULE_INLINE constexpr Beam make_beam(u32 clock) { return {clock, clock, clock, clock}; }

CULE_HD CULE_INLINE void reset_tia(TiaState& s) {
  TiaState fresh{};
  for (u32 i = 0; i < sizeof s.audio; ++i) fresh.audio[i] = s.audio[i];
  s = fresh;
}

CULE_HD CULE_INLINE u32 shown_graphics(const TiaState& s, u32 n) {
  return s.vdelp[n] ? s.old_grp[n] : s.grp[n];
}
CULE_HD CULE_INLINE u32 shown_ball(const TiaState& s) { return s.vdelbl ? s.old_enabl : s.enabl; }

// Bit per object: takes part in drawing and collisions at all.
CULE_HD CULE_INLINE u32 active_objects(const TiaState& s) {
  return u32(shown_graphics(s, 0) != 0) << kPlayer0 | u32(shown_graphics(s, 1) != 0) << kPlayer1 |
         u32(s.enam[0] && !s.resmp[0]) << kMissile0 | u32(s.enam[1] && !s.resmp[1]) << kMissile1 |
         u32(shown_ball(s) != 0) << kBall |
         u32(((s.pf[0] & 0xF0) | s.pf[1] | s.pf[2]) != 0) << kPlayfield;
}

CULE_HD CULE_INLINE u32 wrap_position(i32 x) {
  if (x >= i32(kScreenWidth)) x -= kScreenWidth;
  if (x < 0) x += kScreenWidth;
  return u32(x);
}

// To the next playfield cell that is at least two clocks away: 4, 5, 2, 3 by cycle modulo 4 (a line
// is a multiple of 4 cycles, so the cycle of the frame will do).
CULE_HD CULE_INLINE constexpr u32 playfield_delay_clocks(u32 cycle) {
  return (0x3254u >> (4 * (cycle & 3))) & 0xF;
}

// Clocks between a write at a frame clock and its effect on the picture (NOTES.md 5).
CULE_HD CULE_INLINE constexpr u32 write_delay_clocks(u32 reg, u32 clock) {
  switch (reg) {
    case VBLANK:
    case REFP0:
    case REFP1:
    case GRP0:
    case GRP1:
      return 1;
    case NUSIZ0:
    case NUSIZ1:
    case RESM0:
    case RESM1:
      return 8;
    case PF0:
    case PF1:
    case PF2:
      return playfield_delay_clocks(clock / kClocksPerCycle);
    default:
      return 0;
  }
}

static_assert(kCyclesPerLine % 4 == 0);

// A write to CTRLPF from this clock of a line on reflects the playfield only from the next line.
constexpr u32 kLatestMirrorClock = 147;

// Pixels an object moves right when HMOVE is written in `cycle` of a line (NOTES.md 9).
CULE_HD CULE_INLINE i32 hmove_pixels(u32 cycle, u32 nibble) {
  const i32 s = nibble < 8 ? i32(nibble) : i32(nibble) - 16;
  const i32 q = i32((3 * cycle + 1) / 4);
  if (cycle == 75 || cycle <= 3) return -s;
  if (cycle <= 20) return -s > q - 9 ? -s : q - 9;
  const i32 late = 47 - q - s;
  return late < 0 ? late : 0;
}

// Distances of the second and third copy from the first by NUSIZ bits 0-2; 0: no such copy.
struct PlayerCopies {
  u32 second;
  u32 third;
};

CULE_HD CULE_INLINE PlayerCopies player_copies(u32 mode) {
  switch (mode) {
    case 1:
      return {16, 0};
    case 2:
      return {32, 0};
    case 3:
      return {16, 32};
    case 4:
      return {64, 0};
    case 6:
      return {32, 64};
    default:
      return {0, 0};
  }
}

// Where RESPn puts a player, at this clock of a line (NOTES.md 6.2).
CULE_HD CULE_INLINE u32 reset_player_position(u32 h) {
  return h < kHblankClocks ? 3 : (h - kHblankClocks + 5) % kScreenWidth;
}

// Where RESM0, RESM1 or RESBL puts its object. Resets shortly after an HMOVE land elsewhere
// (NOTES.md 6.3).
CULE_HD CULE_INLINE u32 reset_small_position(u32 reg, u32 clock, i32 hmove_clock) {
  const u32 h = clock % kClocksPerLine;
  const i32 gap = i32(clock - u32(hmove_clock));
  if (reg == RESM0 && gap == 60 && h == 69) return 8;
  if (reg == RESBL) {
    if (gap == 54 && (h == 60 || h == 69)) return 10;
    if (gap == 21 && h == 30) return 6;
    if (gap == 18 && h == 27) return 5;
  }
  if (reg != RESM0 && gap == 9 && h == 18) return 3;
  return h < kHblankClocks ? 2 : (h - kHblankClocks + 4) % kScreenWidth;
}

// A missile that RESMPn frees is this far right of its player, by NUSIZ bits 0-2.
CULE_HD CULE_INLINE u32 locked_missile_offset(u32 mode) {
  return mode == 5 ? 8 : mode == 7 ? 16 : 4;
}

// Kind of a RESPn write: how the new position relates to the copies being drawn (NOTES.md 6.2).
enum class PlayerReset { kHideFirst, kDelay, kDisplay };

constexpr u32 kResetDrawClocks = 11;  // kDisplay: the old position is drawn for so long

CULE_HD inline PlayerReset classify_player_reset(u32 mode, u32 distance) {
  const PlayerCopies copies = player_copies(mode);
  const u32 end = mode == 5 ? 20 : mode == 7 ? 36 : 12;
  if (distance < 4) return PlayerReset::kDelay;
  if (distance < end) return PlayerReset::kDisplay;
  for (u32 n = 0; n < 2; ++n) {
    const u32 copy = n == 0 ? copies.second : copies.third;
    if (copy == 0 || distance < copy) continue;
    if (distance < copy + 4) return PlayerReset::kDelay;
    if (distance < copy + 12) return PlayerReset::kDisplay;
  }
  return PlayerReset::kHideFirst;
}

}  // namespace cule
