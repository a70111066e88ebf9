// tia/state.hpp: the state of the TIA as the drawing side sees it.
//
// The program only ever writes this state; what flows back to it (WSYNC, frame end, INPTx) is kept
// in console/state.hpp, and the collision latches here are brought up to date when a CX register is
// read. All times are frame clocks (tia/clocks.hpp). Facts: tia/NOTES.md.
#pragma once

#include <type_traits>

#include "base/bits.hpp"
#include "tia/clocks.hpp"

namespace cule {

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
  u8 hmove_blank;  // next drawn pixels 0..7 are black
  u8 pf[3];        // PF0, PF1, PF2
  u8 audio[6];     // AUDC0 to AUDV1, for the sound generator alone; survive a reset
  u8 reserved[2];
  u16 collisions;       // bits 2r and 2r+1 are bits 6 and 7 of read register r
  u16 missing_latches;  // of `collisions`: not recorded; console/latches.hpp finds them
  i32 hmove_clock;      // most recent HMOVE; rebased at frame starts
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
CULE_HD CULE_INLINE u32 active_players(const TiaState& s) {
  return u32(shown_graphics(s, 0) != 0) << kPlayer0 | u32(shown_graphics(s, 1) != 0) << kPlayer1;
}
CULE_HD CULE_INLINE u32 active_playfield(const TiaState& s) {
  return u32(((s.pf[0] & 0xF0) | s.pf[1] | s.pf[2]) != 0) << kPlayfield;
}
// A missile or the ball.
CULE_HD CULE_INLINE bool is_active_small(const TiaState& s, u32 object) {
  if (object == kBall) return shown_ball(s) != 0;
  return s.enam[object - kMissile0] && !s.resmp[object - kMissile0];
}
CULE_HD CULE_INLINE u32 active_objects(const TiaState& s) {
  return active_players(s) | u32(is_active_small(s, kMissile0)) << kMissile0 |
         u32(is_active_small(s, kMissile1)) << kMissile1 | u32(is_active_small(s, kBall)) << kBall |
         active_playfield(s);
}

// Whether any pixel may have colour n of TiaState.
CULE_HD CULE_INLINE bool is_color_shown(const TiaState& s, u32 n) {
  if (n == 3) return true;
  if (n == 2) return (active_playfield(s) | shown_ball(s)) != 0;
  const bool has_playfield = (s.ctrlpf & 2) && active_playfield(s);
  return (shown_graphics(s, n) | s.enam[n]) != 0 || has_playfield;
}

CULE_HD CULE_INLINE u32 wrap_position(i32 x) {
  if (x >= i32(kScreenWidth)) x -= kScreenWidth;
  if (x < 0) x += kScreenWidth;
  return u32(x);
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

}  // namespace cule
