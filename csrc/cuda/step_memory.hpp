// cuda/step_memory.hpp: the dynamic shared memory of a block of the state-update kernel.
//
// For each warp the RAM of 32 consoles, and memory for a scan where teams of lanes render
// (warp/lane_access.hpp); then the kernel's table.
#pragma once

#include "cuda/device_batch.hpp"
#include "cuda/line_memory.hpp"

namespace cule {

constexpr u32 kWarpRamBytes = kWarpLanes * kRamBytes;

// Smaller teams are slower than a lane.
constexpr u32 kSmallestTeam = 8;

CULE_HD CULE_INLINE u32 team_lanes(u32 lanes_per_warp) {
  u32 lanes = kWarpLanes;
  while (lanes * lanes_per_warp > kWarpLanes) lanes /= 2;
  return lanes < kSmallestTeam ? 1 : lanes;
}

CULE_HD CULE_INLINE u32 warp_shared_bytes(const DeviceBatch& b) {
  return kWarpRamBytes + (b.team_lanes > 1 ? kLineScanBytes : 0);
}

}  // namespace cule
