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

// All latches after what the running frame's log holds.
CULE_HD inline u16 all_latches(const Console& c, const TiaWriteLog& log) {
  u16 start = log.start.collisions;
  if (log.start.missing_latches != 0) {
    const TiaWriteLog& previous = previous_log(c);
    start = find_latches(c, previous, previous.start.collisions);  // a CXCLR follows
  }
  return find_latches(c, log, start);
}

// Finds what is missing between frame steps.
CULE_HD inline void complete_latches(const Console& c) {
  ConsoleState& s = c.s;
  if (s.tia.missing_latches == 0) return;
  const TiaWriteLog& log = c.memory.log(s.picture.log_slot[s.picture.current]);
  s.tia.collisions = find_latches(c, log, log.start.collisions);  // a CXCLR follows
  s.tia.missing_latches = 0;
}

}  // namespace cule
