// tia/collisions.hpp: the sink that records collisions, and draws nothing (NOTES.md 8.4).
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

constexpr u32 kAllLatches = 0xEFFF;  // bit 12 does not exist

// Objects that take part in any of some latches, one bit each.
CULE_HD CULE_INLINE u32 objects_of_latches(u32 latches) {
  u32 objects = 0;
  for (u32 object = 0; object < kObjects; ++object) {
    objects |= u32((latches & latches_of(object)) != 0) << object;
  }
  return objects;
}

struct CollisionSink {
  static constexpr bool kPaints = false;
  static constexpr bool kExact = false;

  u32 wanted = kAllLatches;     // latches to record; the others keep any value
  u32 full_line_version = 0;    // shapes whose whole line has been recorded already
  bool has_seen_clear = false;  // CXCLR was rendered

  CULE_HD void colors_changed() {}
  CULE_HD void control_changed() {}
  CULE_HD void latches_cleared() {
    full_line_version = 0;
    has_seen_clear = true;
  }
  CULE_HD void state_changed() { full_line_version = 0; }
  CULE_HD void blank_left(u32, u32, u32) {}

  // Latches to record that are not set.
  CULE_HD CULE_INLINE u32 open(const TiaState& s) const { return wanted & ~u32(s.collisions); }

  // Whether what these objects show until now or from now on can matter to a latch that is still
  // open. Where it cannot, pixels before the change may be looked at after it: until both objects
  // of a latch are active, nothing they do sets it, and the write that makes the second one so
  // concerns it.
  CULE_HD CULE_INLINE bool concerns(const TiaState& s, Shapes& shapes, u32 changed) const {
    CULE_ASSUME_LOCAL(this);
    CULE_ASSUME_LOCAL(&shapes);
    if (open(s) == 0 || changed == 0) return false;
    shapes.refresh_active(s);
    const u32 of_others = latches_among(~changed & ((1u << kObjects) - 1));
    return (latches_among(shapes.active | changed) & ~of_others & open(s)) != 0;
  }

  // Whether pixels drawn in this state could set a latch.
  CULE_HD CULE_INLINE bool needs_pixels(const TiaState& s, Shapes& shapes) const {
    CULE_ASSUME_LOCAL(this);
    CULE_ASSUME_LOCAL(&shapes);
    if (s.vblank || !open(s)) return false;
    shapes.refresh_active(s);
    return (shapes.possible_latches & open(s)) != 0;
  }

  // The same where no latch were set.
  CULE_HD CULE_INLINE bool could_set_any(const TiaState& s, Shapes& shapes) const {
    shapes.refresh_active(s);
    return !s.vblank && (shapes.possible_latches & wanted) != 0;
  }

  CULE_HD CULE_INLINE void segment(TiaState& s, Shapes& shapes, u32 /*line*/, u32 x0, u32 x1) {
    if (!needs_pixels(s, shapes)) return;
    shapes.refresh(s);
    record(s, shapes, x0, x1);
  }

  // Looks only at pairs of active objects that have not been recorded yet. The shapes are those of
  // the state, in which the picture is not blank.
  CULE_HD CULE_INLINE void record(TiaState& s, const Shapes& shapes, u32 x0, u32 x1) {
    CULE_ASSUME_LOCAL(this);
    CULE_ASSUME_LOCAL(&shapes);
    if (full_line_version == shapes.version) return;
    Mask range = {{~0ULL, ~0ULL, ~0ULL}};
    if (x0 == 0 && x1 == kScreenWidth) {
      full_line_version = shapes.version;
    } else {
      for (u32 w = 0; w < kMaskWords; ++w) range.word[w] = range_bits(w, x0, x1);
    }
    for (u32 left = shapes.possible_latches & open(s); left; left &= left - 1) {
      const u32 bit = lowest_bit(left);
      const Mask& a = shapes.mask[kLatchFirst >> (4 * bit) & 0xF];
      const Mask& b = shapes.mask[kLatchSecond >> (4 * bit) & 0xF];
      const u64 both = (a.word[0] & b.word[0] & range.word[0]) |
                       (a.word[1] & b.word[1] & range.word[1]) |
                       (a.word[2] & b.word[2] & range.word[2]);
      if (both) s.collisions = u16(s.collisions | 1u << bit);
    }
  }
};

}  // namespace cule
