// tia/tia_view.hpp: the state of a LogRenderer as the rules see it (tia/rules.hpp); marks the
// shapes that change.
#pragma once

#include "tia/rules.hpp"
#include "tia/shapes.hpp"

namespace cule {

template <class Renderer>
struct TiaView {
  Renderer& r;
  TiaState& s;
  Shapes& shapes;
  const u32 changed;  // objects that look different after it, if it is to GRPn or RESMPn

  CULE_HD CULE_INLINE u32 mode(u32 n) const { return s.nusiz[n] & 7; }
  CULE_HD CULE_INLINE u32 position(u32 object) const { return s.position[object]; }
  CULE_HD CULE_INLINE u32 motion(u32 object) const { return s.hm[object]; }
  CULE_HD CULE_INLINE i32 hmove_clock() const { return s.hmove_clock; }
  CULE_HD CULE_INLINE bool is_locked(u32 n) const { return s.resmp[n]; }

  CULE_HD CULE_INLINE void set_graphics(u32 n, u32 v) {
    if (changed) shapes.change(changed);
    s.grp[n] = u8(v);
  }
  CULE_HD CULE_INLINE void set_lock(u32 n, u32 v) {
    shapes.change(changed);
    s.resmp[n] = v >> 1 & 1;
  }
  CULE_HD CULE_INLINE void set_copies(u32 n, u32 v) {
    if (s.nusiz[n] != v || s.skip[n]) shapes.stale |= (1u << kPlayer0 | 1u << kMissile0) << n;
    s.nusiz[n] = u8(v);
    s.skip[n] = 0;
  }
  CULE_HD CULE_INLINE void set_control(u32 v) {
    if ((s.ctrlpf ^ v) & 0x30) shapes.invalidate(kBall);
    if ((s.ctrlpf ^ v) & 0x06) r.sink.control_changed();
    s.ctrlpf = u8(v);
  }
  CULE_HD CULE_INLINE void set_mirror(u32 value) {
    if (s.pf_mirror == value) return;
    s.pf_mirror = u8(value);
    shapes.invalidate(kPlayfield);
  }
  CULE_HD CULE_INLINE void set_skip(u32 n, bool skip) {
    if (s.skip[n] != u8(skip)) shapes.invalidate(n);
    s.skip[n] = skip;
  }
  CULE_HD CULE_INLINE void place(u32 object, u32 x) {
    if (s.position[object] != x) shapes.invalidate(object);
    s.position[object] = u8(x);
  }
  CULE_HD CULE_INLINE void show_normal_missile0() {
    if (s.missile0_look != Missile0Look::kNormal) shapes.invalidate(kMissile0);
    s.missile0_look = Missile0Look::kNormal;
  }

  // The delayed copies.
  CULE_HD CULE_INLINE void copy_graphics(u32 n) { s.old_grp[n] = s.grp[n]; }
  CULE_HD CULE_INLINE void copy_ball() { s.old_enabl = s.enabl; }

  CULE_HD CULE_INLINE void draw_until(u32 clock) { r.draw_again_up_to(clock); }

  // HMOVE right after a WSYNC, which is common, moves all at once. Returns whether it is one.
  CULE_HD CULE_INLINE bool moves_at_once(u32 cycle) {
    if (!moves_fully(cycle)) return false;
    u64 nibbles = 0, positions = 0;
    for (u32 i = 0; i < sizeof s.hm; ++i) nibbles |= u64(s.hm[i]) << 8 * i;
    if (nibbles == 0) return true;
    for (u32 i = 0; i < sizeof s.position; ++i) positions |= u64(s.position[i]) << 8 * i;
    positions = moved_fully(positions, nibbles);
    for (u32 i = 0; i < sizeof s.position; ++i) s.position[i] = u8(positions >> 8 * i);
    shapes.stale |= nonzero_nibbles(nibbles);
    return true;
  }
  CULE_HD CULE_INLINE void clear_motion() {
    for (u8& hm : s.hm) hm = 0;
  }
  CULE_HD CULE_INLINE void blank_left() {
    if (r.hmove_blanks) s.hmove_blank = 1;
  }
  CULE_HD CULE_INLINE void set_hmove_clock(u32 clock) { s.hmove_clock = i32(clock); }

  CULE_HD CULE_INLINE bool begins_stars(u32 v, u32 clock) const {
    return cule::begins_stars(v, s.hm[kMissile0], clock, s.hmove_clock);
  }
  CULE_HD CULE_INLINE void start_stars(u32 v) {
    s.hm[kMissile0] = u8(v >> 4);
    s.stars = 1;
    s.star_count = 0;
  }
  CULE_HD CULE_INLINE void stop_stars() {
    show_normal_missile0();
    s.stars = 0;
  }

  CULE_HD CULE_INLINE void clear_latches() {
    s.collisions = 0;
    r.sink.latches_cleared();
  }
};

}  // namespace cule
