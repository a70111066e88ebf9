// console/latches.hpp: collision latches that a back end has not recorded.
//
// Most programs read a few of the 15 latches and clear all of them once a frame. A back end records
// those that are read, and notes the others as missing (TiaState::missing_latches). They can be
// found at any time, because the log that holds the last CXCLR is kept until then:
//
//   while a frame runs, the last CXCLR is in its log or in the previous one, and both are kept;
//   a frame that ends without a CXCLR, without a log, or before its picture does is completed.
//
// So every read and every snapshot shows what recording all latches would have given.
#pragma once

#include "console/picture.hpp"
#include "tia/collisions.hpp"

namespace cule {

CULE_HD constexpr u32 latches_of_register(u32 reg) { return 3u << (2 * reg) & kAllLatches; }

// The log of the frame before the running one.
CULE_HD CULE_INLINE const TiaWriteLog& previous_log(const Console& c) {
  const PictureState& p = c.s.picture;
  return c.memory.log(p.log_slot[p.current ^ 1u]);
}

// Those of some latches that are set after `log`, which begins with these.
CULE_HD CULE_DEVICE_NOINLINE inline u16 find_latches(const Console& c, const TiaWriteLog& log,
                                                     u16 start, u32 latches = kAllLatches) {
  TiaState tia = log.start;
  tia.collisions = start;
  CollisionSink sink;
  sink.wanted = latches;
  return render_log(c, log, tia, sink).collisions;
}

// find_latches(), as the `find` of the functions below.
struct FindLatches {
  const Console& c;

  CULE_HD u32 operator()(const TiaWriteLog& log, u32 start, u32 latches) const {
    return find_latches(c, log, u16(start), latches);
  }
};

// All latches after what the running frame's log holds.
template <class Find>
CULE_HD u32 all_latches(const Console& c, const TiaWriteLog& log, const Find& find) {
  u32 start = log.start.collisions;
  if (log.start.missing_latches != 0) {
    const TiaWriteLog& previous = previous_log(c);
    start = find(previous, previous.start.collisions, kAllLatches);  // a CXCLR follows
  }
  return find(log, start, kAllLatches);
}
CULE_HD inline u16 all_latches(const Console& c, const TiaWriteLog& log) {
  return u16(all_latches(c, log, FindLatches{c}));
}

// Finds what is missing between frame steps.
CULE_HD inline void complete_latches(const Console& c) {
  ConsoleState& s = c.s;
  if (s.tia.missing_latches == 0) return;
  const TiaWriteLog& log = c.memory.log(s.picture.log_slot[s.picture.current]);
  s.tia.collisions = find_latches(c, log, log.start.collisions);  // a CXCLR follows
  s.tia.missing_latches = 0;
}

// Latches that are set, and that are not known: what is set is known.
struct Latches {
  u32 set;
  u32 missing;

  // A part of a log has been rendered, recording some latches.
  CULE_HD void note(u32 now_set, u32 recorded, bool has_cleared) {
    set = now_set;
    missing = ((has_cleared ? 0 : missing) | (kAllLatches & ~recorded)) & ~set;
  }
};

// After a part of the running log: finds the recorded latches as they were when the frame began,
// and at the end of a frame step all latches unless they can be found later.
template <class Find>
CULE_HD CULE_INLINE Latches settle_latches(const Console& c, const TiaWriteLog& log, Latches l,
                                           u32 recorded, bool is_end, bool can_wait,
                                           const Find& find) {
  const u32 lacking = l.missing & recorded;
  if (lacking != 0) {
    const TiaWriteLog& previous = previous_log(c);
    l.set |= find(previous, previous.start.collisions, lacking) & lacking;
    l.missing &= ~lacking;
  }
  if (!is_end || l.missing == 0 || can_wait) return l;
  return {all_latches(c, log, find), 0};
}

}  // namespace cule
