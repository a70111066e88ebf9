// cuda/step_memory.hpp: the dynamic shared memory of a block of the state-update kernel.
//
// For each warp the RAM of 32 consoles, and memory for what its lanes do together
// (warp/lane_access.hpp); then the kernel's table.
#pragma once

#include "cuda/device_batch.hpp"
#include "cuda/line_memory.hpp"

namespace cule {

constexpr u32 kWarpRamBytes = kWarpLanes * kRamBytes;

constexpr u32 kWarpSharedBytes = kWarpRamBytes + kLineScanBytes;

// Consoles of a warp, at most, whose latches all its lanes record: more do it faster each in its
// own lane, at the same time (RESULTS.md 6).
constexpr u32 kMostServed = 16;

}  // namespace cule
