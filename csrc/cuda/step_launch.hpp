// cuda/step_launch.hpp: the launch geometry of a state-update kernel.
#pragma once

#include "cuda/launchers.hpp"

namespace cule {

// Shared memory of a block: RAM of each warp, then `table_bytes`. Kernel: a function of this
// module, or a cudaKernel_t.
template <class Kernel>
cudaError_t launch_step_kernel(Kernel kernel, u32 table_bytes, const DeviceBatch& b,
                               const TileList& tiles, const StepActions& actions,
                               cudaStream_t stream) {
  const u32 warps = tiles.warps_per_block;
  const u32 blocks = (tiles.size + warps - 1) / warps;
  const void* const addresses[] = {&b, &tiles.tiles, &tiles.size, &actions};
  return cudaLaunchKernel(kernel, dim3(blocks), dim3(warps * kWarpLanes),
                          const_cast<void**>(addresses), warps * kWarpRamBytes + table_bytes,
                          stream);
}

}  // namespace cule
