// cuda/step_launch.hpp: the launch geometry of a state-update kernel.
#pragma once

#include "cuda/launchers.hpp"
#include "cuda/step_memory.hpp"

namespace cule {

struct StepGeometry {
  u32 blocks;
  u32 threads;       // of a block
  u32 shared_bytes;  // of a block: RAM and scan memory of each warp, then the kernel's table
};

inline StepGeometry step_geometry(const DeviceBatch& b, const TileList& tiles, u32 most,
                                  u32 table_bytes) {
  const u32 warps = tiles.warps_per_block;
  return {(tiles.size + warps - 1) / warps, warps * kWarpLanes,
          warps * warp_shared_bytes(b, most) + table_bytes};
}

}  // namespace cule
