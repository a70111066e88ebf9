// tia/collisions.hpp: the sink of a replay that only records collisions (NOTES.md 8.4).
#pragma once

#include "tia/shapes.hpp"

namespace cule {

// The two objects of each latch bit, four bits a latch (bit 12 is no latch). Bits 2r and 2r + 1 are
// read as bits 6 and 7 of register r: CXM0P CXM1P CXP0FB CXP1FB CXM0FB CXM1FB CXBLPF CXPPMM.
constexpr u64 kLatchFirst = 0x0240'3322'1100'3322ULL;
constexpr u64 kLatchSecond = 0x1350'5454'5454'0110ULL;

constexpr bool are_latch_objects_known() {
  for (u32 bit = 0; bit < 16; ++bit) {
    if (bit == 12) continue;
    const u32 first = u32(kLatchFirst >> (4 * bit)) & 0xF;
    const u32 second = u32(kLatchSecond >> (4 * bit)) & 0xF;
    if (!(latches_of(first) & latches_of(second) & 1u << bit)) return false;
  }
  return true;
}
static_assert(are_latch_objects_known());

struct CollisionSink {
  static constexpr bool kPaints = false;
  static constexpr bool kExact = false;

  u32 full_line_version = 0;  // shapes whose whole line has been recorded already

  CULE_HD void line_start(const TiaState&, u32, u32, u32) {}
  CULE_HD void colors_changed() {}
  CULE_HD void control_changed() {}
  CULE_HD void latches_cleared() { full_line_version = 0; }
  CULE_HD void blank_left(u32, u32, u32) {}

  CULE_HD CULE_INLINE void segment(TiaState& s, Shapes& shapes, u32 /*line*/, u32 x0, u32 x1) {
    if (s.vblank) return;
    shapes.refresh_active(s);
    if (!(shapes.possible_latches & ~u32(s.collisions))) return;  // nothing new can be recorded
    shapes.refresh(s);
    if (full_line_version == shapes.version) return;
    if (x0 == 0 && x1 == kScreenWidth) full_line_version = shapes.version;
    record(s, shapes, x0, x1);
  }

 private:
  // Looks only at pairs of active objects that have not been recorded yet.
  CULE_HD static void record(TiaState& s, const Shapes& shapes, u32 x0, u32 x1) {
    const u64 range[kMaskWords] = {range_bits(0, x0, x1), range_bits(1, x0, x1),
                                   range_bits(2, x0, x1)};
    for (u32 left = shapes.possible_latches & ~u32(s.collisions); left; left &= left - 1) {
      const u32 bit = lowest_bit(left);
      const Mask& a = shapes.mask[kLatchFirst >> (4 * bit) & 0xF];
      const Mask& b = shapes.mask[kLatchSecond >> (4 * bit) & 0xF];
      const u64 both = (a.word[0] & b.word[0] & range[0]) | (a.word[1] & b.word[1] & range[1]) |
                       (a.word[2] & b.word[2] & range[2]);
      if (both) s.collisions = u16(s.collisions | 1u << bit);
    }
  }
};

}  // namespace cule
