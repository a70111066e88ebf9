// host/incremental/latch_watch.hpp: recording only the collision latches that a program reads.
//
// Most programs read a few of the 15 latches and clear all of them once a frame. The host records
// those that have been read lately (LatchWatch) and marks the others as missing
// (TiaState::are_latches_partial). Missing latches can be computed at any time, because the log
// that holds the last CXCLR is kept until then:
//
//   while a frame runs, the last CXCLR is in its log or in the previous one, and both are kept;
//   a frame that ends without a CXCLR, without a log, or before its picture does is completed.
//
// So every read and every snapshot shows what recording all latches would have given. Where a
// program writes no CXCLR, latches only accumulate: all are recorded, and soon most are set, which
// costs less than completing frames.
#pragma once

#include "console/picture.hpp"
#include "tia/collisions.hpp"

namespace cule {

// Which latches a program reads. A prediction that affects speed only; not part of the state.
class LatchWatch {
 public:
  // The latches that a frame step begins to record.
  u32 wanted() const { return full_frames_ != 0 ? kAllLatches : watched_; }

  void note_read(u32 latches) {
    recent_ = u16(recent_ | latches);
    watched_ = u16(watched_ | latches);
  }

  // A frame step is over. was_partial: it recorded some latches only. is_whole: nothing had to be
  // completed, or would have had to be.
  void end_step(bool was_partial, bool is_whole) {
    if (was_partial && !is_whole) {
      full_frames_ = penalty_ =
          u8(penalty_ < kMostFullFrames / 2 ? 2 * penalty_ + 1 : kMostFullFrames);
    } else if (was_partial) {
      penalty_ = 0;
    } else if (full_frames_ != 0 && is_whole) {
      --full_frames_;
    }
    if (++frames_ < kWatchFrames) return;
    frames_ = 0;
    watched_ = recent_;
    recent_ = 0;
  }

 private:
  static constexpr u32 kWatchFrames = 64;     // a latch that is not read for so long is dropped
  static constexpr u32 kMostFullFrames = 31;  // longest stretch of recording all latches

  u16 watched_;     // latches read lately: these are recorded
  u16 recent_;      // those read in the present stretch of kWatchFrames
  u8 frames_;       // of that stretch
  u8 full_frames_;  // all latches are recorded until so many frame steps were whole
  u8 penalty_;      // what the last full_frames_ began with
};

constexpr u32 latches_of_register(u32 reg) { return 3u << (2 * reg) & kAllLatches; }

// All latches after `log`, which begins with these.
inline u16 find_latches(const Console& c, const TiaWriteLog& log, u16 start) {
  TiaState tia = log.start;
  tia.collisions = start;
  CollisionSink sink;
  return render_log(c, log, tia, sink).collisions;
}

// All latches after what the running frame's log holds.
inline u16 all_latches(const Console& c, const TiaWriteLog& log) {
  u16 start = log.start.collisions;
  if (log.start.are_latches_partial) {
    const PictureState& p = c.s.picture;
    const TiaWriteLog& previous = c.memory.log(p.log_slot[p.current ^ 1u]);
    start = find_latches(c, previous, previous.start.collisions);  // a CXCLR follows
  }
  return find_latches(c, log, start);
}

// Computes what is missing between frame steps.
inline void complete_latches(const Console& c) {
  ConsoleState& s = c.s;
  if (!s.tia.are_latches_partial) return;
  const TiaWriteLog& log = c.memory.log(s.picture.log_slot[s.picture.current]);
  s.tia.collisions = find_latches(c, log, log.start.collisions);  // a CXCLR follows
  s.tia.are_latches_partial = 0;
}

}  // namespace cule
