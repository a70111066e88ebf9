// cuda/line_view.hpp: a scanline's LineState as the rules see it (tia/rules.hpp).
//
// The star field is not known here: such a log has another renderer. What derives from it adds
// moves_at_once(), blank_left() and clear_latches().
#pragma once

#include "cuda/line_state.hpp"
#include "tia/rules.hpp"

namespace cule {

struct LineView {
  const LineState s;
  i32 last_hmove;  // frame clock

  __device__ CULE_INLINE u32 mode(u32 n) const { return s[NUSIZ0 + n] & 7; }
  __device__ CULE_INLINE u32 position(u32 object) const { return s[kLinePosition + object]; }
  __device__ CULE_INLINE u32 motion(u32 object) const { return s[HMP0 + object] >> 4; }
  __device__ CULE_INLINE i32 hmove_clock() const { return last_hmove; }
  __device__ CULE_INLINE bool is_locked(u32 n) const { return s[RESMP0 + n] & 2; }

  __device__ CULE_INLINE void keep(u32 reg, u32 v) const { s[reg] = u8(v); }
  __device__ CULE_INLINE void set_graphics(u32 n, u32 v) const { s[GRP0 + n] = u8(v); }
  __device__ CULE_INLINE void set_lock(u32 n, u32 v) const { s[RESMP0 + n] = u8(v); }
  __device__ CULE_INLINE void set_copies(u32 n, u32 v) const {
    s[NUSIZ0 + n] = u8(v);
    s[kLineSkip + n] = 0;
  }
  __device__ CULE_INLINE void set_control(u32 v) const { s[CTRLPF] = u8(v); }
  __device__ CULE_INLINE void set_mirror(u32 value) const { s[kLineMirror] = u8(value); }
  __device__ CULE_INLINE void set_skip(u32 n, bool skip) const { s[kLineSkip + n] = skip; }
  __device__ CULE_INLINE void place(u32 object, u32 x) const { s[kLinePosition + object] = u8(x); }
  __device__ CULE_INLINE void copy_graphics(u32 n) const { s[kLineOldGraphics + n] = s[GRP0 + n]; }
  __device__ CULE_INLINE void copy_ball() const { s[kLineOldBall] = s[ENABL]; }
  __device__ CULE_INLINE void clear_motion() const {
    for (u32 n = 0; n < kPlayfield; ++n) s[HMP0 + n] = 0;
  }
  __device__ CULE_INLINE void set_hmove_clock(u32 clock) { last_hmove = i32(clock); }

  __device__ CULE_INLINE void draw_until(u32 /*clock*/) const {}  // find_change() has
  __device__ CULE_INLINE void show_normal_missile0() const {}
  __device__ CULE_INLINE bool begins_stars(u32, u32) const { return false; }
  __device__ CULE_INLINE void start_stars(u32) const {}
  __device__ CULE_INLINE void stop_stars() const {}

  // What an object shows.
  __device__ CULE_INLINE u32 shown_player(u32 n) const {
    return s[VDELP0 + n] & 1 ? s[kLineOldGraphics + n] : s[GRP0 + n];
  }
  __device__ CULE_INLINE u32 shown_ball_bit() const {
    return (s[VDELBL] & 1 ? s[kLineOldBall] : s[ENABL]) & 2;
  }
  __device__ CULE_INLINE bool is_missile_shown(u32 n) const {
    return (s[ENAM0 + n] & ~s[RESMP0 + n] & 2) != 0;
  }
};

}  // namespace cule
