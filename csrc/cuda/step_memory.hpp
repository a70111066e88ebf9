// cuda/step_memory.hpp: the dynamic shared memory of a block of the state-update kernel.
//
// For each warp the RAM of 32 consoles, and memory for a scan where teams of lanes render
// (warp/lane_access.hpp); then the kernel's table.
#pragma once

#include "cuda/device_batch.hpp"
#include "cuda/line_memory.hpp"

namespace cule {

constexpr u32 kWarpRamBytes = kWarpLanes * kRamBytes;

// A console with a warp to itself has all its lanes. Smaller teams of one warp work one after the
// other, which by counts is faster in some games and slower in others (RESULTS.md 6).
CULE_HD CULE_INLINE u32 team_lanes(u32 lanes_per_warp) {
  return lanes_per_warp == 1 ? kWarpLanes : 1;
}

CULE_HD CULE_INLINE u32 warp_shared_bytes(const DeviceBatch& b) {
  return kWarpRamBytes + (b.team_lanes > 1 ? kLineScanBytes : 0);
}

}  // namespace cule
