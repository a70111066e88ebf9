// console/pending_latches.hpp: answers reads of latches without rendering.
//
// A latch that is set stays set until CXCLR, and an open one stays open while one of its two
// objects shows nothing. Both follow from the state as of the last entry rendered and from which
// registers have been written since. So the accesses before most reads are rendered later, with
// those after them.
#pragma once

#include "console/latches.hpp"
#include "tia/log_passes.hpp"

namespace cule {

class PendingLatches {
 public:
  // Another log begins.
  CULE_HD CULE_INLINE void forget() { seen_ = 0; }

  // Whether some latches are known after entries [0, size) of a log. s: after [0, rendered).
  CULE_HD CULE_DEVICE_NOINLINE bool know(const TiaState& s, const LogEntry* log, u32 rendered,
                                         u32 size, u32 latches) {
    CULE_ASSUME_LOCAL(this);
    if (seen_ <= rendered) begin(s, rendered);
    if (may_set(latches)) return false;
    const u32 found = objects_shown(log + seen_, size - seen_);
    seen_ = size;
    may_show_ |= found & ((1u << kObjects) - 1);
    if (found & kClears) {
      has_cleared_ = 1;
      set_ = 0;
    }
    return !may_set(latches);
  }

  // Of those that are known: the ones that are set.
  CULE_HD CULE_INLINE u32 set() const { return set_; }
  // CXCLR has been written since the last entry rendered.
  CULE_HD CULE_INLINE bool has_cleared() const { return has_cleared_ != 0; }

 private:
  // Whether any of them may have been set since `rendered`.
  CULE_HD CULE_INLINE bool may_set(u32 latches) const {
    return (latches & ~set_ & latches_among(may_show_)) != 0;
  }

  CULE_HD CULE_INLINE void begin(const TiaState& s, u32 rendered) {
    seen_ = rendered;
    has_cleared_ = 0;
    set_ = s.collisions;
    may_show_ = active_playfield(s) | u32(s.enam[0]) << kMissile0 | u32(s.enam[1]) << kMissile1 |
                u32((s.enabl | s.old_enabl) != 0) << kBall;
    for (u32 n = 0; n < 2; ++n) may_show_ |= u32((s.grp[n] | s.old_grp[n]) != 0) << n;
  }

  u32 seen_ = 0;  // entries of the log
  u32 has_cleared_ = 0;
  u32 set_ = 0;       // latches
  u32 may_show_ = 0;  // objects, one bit each, at some time since `rendered`
};

}  // namespace cule
