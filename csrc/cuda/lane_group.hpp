// cuda/lane_group.hpp: lanes of one warp that act together (Lanes of warp/lane_engine.hpp).
#pragma once

#include <device_runtime.hpp>

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

struct LaneGroup {
  static constexpr bool kIsLone = false;
  u32 mask;

  __device__ u32 ballot(bool vote) const { return __ballot_sync(mask, vote); }
  __device__ bool any(bool vote) const { return __any_sync(mask, vote); }
  __device__ u32 lowest(u32 value) const {
#if defined(CULE_HAS_REDUCE)
    return __reduce_min_sync(mask, value);
#else
    // Bit by bit from the top: lanes with a 0 stay, if there are any.
    u32 found = 0;
    bool is_least = true;
    for (u32 bit = 1u << 31; bit != 0; bit >>= 1) {
      const bool is_lower = is_least && !(value & bit);
      if (any(is_lower)) {
        is_least = is_lower;
      } else {
        found |= bit;
      }
    }
    return found;
#endif
  }
  // The bits of all numbers passed.
  __device__ u32 any_bits(u32 value) const {
#if defined(CULE_HAS_REDUCE)
    return __reduce_or_sync(mask, value);
#else
    u32 found = 0;
    for (u32 bit = 1; bit != 0; bit <<= 1) found |= any(value & bit) ? bit : 0;
    return found;
#endif
  }
  __device__ void sync() const { __syncwarp(mask); }
  __device__ u32 all() const { return mask; }
  __device__ LaneGroup only(u32 lanes) const { return {lanes}; }
  __device__ void note_instruction(bool is_slow) const { cule::note_instruction(is_slow); }
};

}  // namespace cule
