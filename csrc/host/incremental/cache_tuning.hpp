// host/incremental/cache_tuning.hpp: which frame the line cache compares the running one with.
//
// Most pictures resemble the frame drawn last; those that flicker, the last but one. The other
// choice is tried from time to time, less often each time it was worse, and the cache rests where
// neither finds much. A prediction that affects speed only; not part of the state.
#pragma once

#include "base/int.hpp"

namespace cule {

struct CacheTuning {
  u8 alternates;  // 1: compared with the last frame but one
  u8 rest;        // frame steps for which the cache is not used

  // A frame step is over.
  void note(u32 accesses_reused, u32 accesses) {
    reused_ += accesses_reused;
    accesses_ += accesses;
    if (++steps_ < kStretch) return;
    const u32 share = accesses_ == 0 ? kAll : u32(u64(reused_) * kAll / accesses_);
    reused_ = accesses_ = steps_ = 0;
    if (trial_ == Trial::kCold) {
      trial_ = Trial::kWarm;
      return;
    }
    if (trial_ == Trial::kWarm) {
      end_trial(share);
    } else if (share < kGoodShare && patience_-- == 0) {
      begin_trial(share);
      return;
    }
    choose_rest(share);
  }

 private:
  static constexpr u8 kStretch = 8;  // frame steps that are judged together
  static constexpr u8 kLongestWait = 63;
  static constexpr u8 kLongestRest = 127;
  // Shares, in 65,536ths.
  static constexpr u32 kAll = 1u << 16;
  static constexpr u32 kGoodShare = kAll * 7 / 8;  // nothing else is tried
  static constexpr u32 kGain = kAll / 16;          // a trial has to be better by more
  static constexpr u32 kLeastShare = kAll / 8;     // with less, the cache rests

  // In the first stretch of a trial frames are compared with some that were drawn before it.
  enum class Trial : u8 { kNone, kCold, kWarm };

  void begin_trial(u32 share) {
    share_before_ = share;
    alternates ^= 1;
    trial_ = Trial::kCold;
  }

  void end_trial(u32 share) {
    trial_ = Trial::kNone;
    if (share > share_before_ + kGain) {
      wait_ = 0;
    } else {
      alternates ^= 1;
      if (wait_ < kLongestWait) wait_ = u8(2 * wait_ + 1);
    }
    patience_ = wait_;
  }

  void choose_rest(u32 share) {
    if (share >= kLeastShare) {
      penalty_ = 0;
    } else if (penalty_ < kLongestRest) {
      penalty_ = u8(2 * penalty_ + 1);
    }
    rest = penalty_;
  }

  u8 steps_;     // of this stretch
  u8 patience_;  // stretches until the next trial
  u8 wait_;      // the last patience began with this
  u8 penalty_;   // the last rest began with this
  Trial trial_;
  u32 reused_;  // in this stretch
  u32 accesses_;
  u32 share_before_;  // the trial
};

}  // namespace cule
