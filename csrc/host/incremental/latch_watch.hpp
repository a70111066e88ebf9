// host/incremental/latch_watch.hpp: which collision latches a program reads.
//
// The host records those that have been read lately, and finds the others where one is needed
// (console/latches.hpp). Where a program writes no CXCLR, latches only accumulate: all are
// recorded, and soon most are set, which costs less than completing frames.
#pragma once

#include "console/latches.hpp"

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

}  // namespace cule
