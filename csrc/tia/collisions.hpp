// tia/collisions.hpp: the sink of a replay that only records collisions (NOTES.md 8.4).
#pragma once

#include "tia/shapes.hpp"

namespace cule {

// Latch bits as read: register r of CXM0P CXM1P CXP0FB CXP1FB CXM0FB CXM1FB CXBLPF CXPPMM.
CULE_HD CULE_INLINE u32 collision_bits(u32 reg, bool bit7, bool bit6) {
  return (u32(bit7) << 1 | u32(bit6)) << (2 * reg);
}

struct CollisionSink {
  static constexpr bool kPaints = false;
  static constexpr bool kExact = false;

  u32 full_line_version = 0;  // shapes whose whole line has been recorded already

  CULE_HD void line_start(const TiaState&, u32, u32, u32) {}
  CULE_HD void colors_changed() {}
  CULE_HD void latches_cleared() { full_line_version = 0; }
  CULE_HD void blank_left(u32, u32, u32) {}

  CULE_HD CULE_INLINE void segment(TiaState& s, Shapes& shapes, u32 /*line*/, u32 x0, u32 x1) {
    if (s.vblank) return;
    shapes.refresh_active(s);
    if (!(shapes.possible_latches & ~s.collisions)) return;  // nothing new can be recorded
    shapes.refresh(s);
    if (full_line_version == shapes.version) return;
    if (x0 == 0 && x1 == kScreenWidth) full_line_version = shapes.version;
    record(s, shapes, x0, x1);
  }

 private:
  CULE_HD static void record(TiaState& s, const Shapes& shapes, u32 x0, u32 x1) {
    for (u32 w = x0 >> 6; w <= (x1 - 1) >> 6; ++w) {
      const u64 range = range_bits(w, x0, x1);
      u64 any = 0;
      u64 twice = 0;
      for (u32 object = 0; object < kObjects; ++object) {
        const u64 m = shapes.mask[object].word[w];
        twice |= any & m;
        any |= m;
      }
      if (twice & range) s.collisions = u16(s.collisions | overlaps(shapes, w, range));
    }
  }

  CULE_HD static u32 overlaps(const Shapes& shapes, u32 w, u64 range) {
    const u64 p0 = shapes.mask[kPlayer0].word[w] & range;
    const u64 p1 = shapes.mask[kPlayer1].word[w] & range;
    const u64 m0 = shapes.mask[kMissile0].word[w] & range;
    const u64 m1 = shapes.mask[kMissile1].word[w] & range;
    const u64 bl = shapes.mask[kBall].word[w] & range;
    const u64 pf = shapes.mask[kPlayfield].word[w] & range;
    return collision_bits(0, m0 & p1, m0 & p0) | collision_bits(1, m1 & p0, m1 & p1) |
           collision_bits(2, p0 & pf, p0 & bl) | collision_bits(3, p1 & pf, p1 & bl) |
           collision_bits(4, m0 & pf, m0 & bl) | collision_bits(5, m1 & pf, m1 & bl) |
           collision_bits(6, bl & pf, false) | collision_bits(7, p0 & p1, m0 & m1);
  }
};

}  // namespace cule
