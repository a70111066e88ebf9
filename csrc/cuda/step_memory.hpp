// cuda/step_memory.hpp: the dynamic shared memory of a block of the state-update kernel.
//
// For each warp the RAM of 32 consoles, and memory for a scan where its lanes render together
// (warp/lane_access.hpp); then the kernel's table.
#pragma once

#include "cuda/device_batch.hpp"
#include "cuda/line_memory.hpp"

namespace cule {

constexpr u32 kWarpRamBytes = kWarpLanes * kRamBytes;

// Consoles of a warp, at most, whose logs all its lanes render: more render faster each in its own
// lane, at the same time (RESULTS.md 6).
constexpr u32 kMostServed = 8;

// `most`: that, of a kernel.
CULE_HD CULE_INLINE u32 warp_shared_bytes(const DeviceBatch& b, u32 most) {
  return kWarpRamBytes + (b.lanes_per_warp <= most ? kLineScanBytes : 0);
}

}  // namespace cule
