// host/incremental/cache_trial.hpp: whether the line cache pays where nothing is drawn.
//
// A scanline that is only rendered for its latches costs little more than looking it up, or less,
// which depends on the program, the latches it reads and the processor's caches. So both ways are
// timed, a stretch of frame steps each, and the slower one is tried again from time to time, less
// often each time it was slower. A prediction that affects speed only; not part of the state.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// Time, in units of at most a few nanoseconds.
inline u64 ticks() {
#if defined(CULE_SSE2)
  return __builtin_ia32_rdtsc();
#else
  return u64(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

class CacheTrial {
 public:
  bool uses_cache() const { return !is_plain_; }

  // A frame step is over that took so many units of time.
  void note(u32 time) {
    if (skipped_ < kSkipped) {
      ++skipped_;
      return;
    }
    times_[steps_] = time;
    if (++steps_ < kStretch) return;
    steps_ = 0;
    // Sixteenths, so that the sum fits; without the longest steps, which interruptions may be.
    std::sort(times_, times_ + kStretch);
    u32 cost = 0;
    for (u32 n = 0; n < kStretch - kLongest; ++n) cost += times_[n] >> 4;
    if (!is_plain_) cost += cost / 32;  // its memory takes that of others from the caches
    if (!is_trial_) {
      cost_ = cost;
      if (wait_left_ != 0) {
        --wait_left_;
      } else {
        change(true);
      }
    } else if (cost < cost_ - cost_ / kGain) {
      cost_ = cost;
      is_trial_ = false;
      wait_ = wait_left_ = 1;
    } else {
      if (wait_ < kLongestWait) wait_ = u8(2 * wait_ + 1);
      wait_left_ = wait_;
      change(false);
    }
  }

 private:
  static constexpr u32 kStretch = 8;  // frame steps that are judged together
  static constexpr u32 kSkipped = 2;  // after a change: the cache knows no frame
  static constexpr u32 kLongest = 2;  // left out of each
  static constexpr u32 kGain = 32;    // the other way has to be faster by more than this part
  static constexpr u8 kLongestWait = 63;

  void change(bool is_trial) {
    is_plain_ = !is_plain_;
    is_trial_ = is_trial;
    skipped_ = 0;
  }

  bool is_plain_;  // without the cache
  bool is_trial_;
  u8 steps_;      // of this stretch
  u8 skipped_;    // since the last change
  u8 wait_;       // stretches between the last two trials
  u8 wait_left_;  // until the next one
  u32 cost_;      // of the way that is used outside trials
  u32 times_[kStretch];
};

}  // namespace cule
