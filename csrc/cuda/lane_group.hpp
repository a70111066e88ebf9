// cuda/lane_group.hpp: lanes of one warp that act together (Lanes of console/lanes.hpp).
#pragma once

#include "base/int.hpp"
#include "cuda/launch.hpp"

namespace cule {

struct LaneGroup {
  u32 mask;

  __device__ u32 ballot(bool vote) const { return __ballot_sync(mask, vote); }
  __device__ bool any(bool vote) const { return __any_sync(mask, vote); }
  __device__ LaneGroup only(u32 lanes) const { return {lanes}; }
};

}  // namespace cule
