// cuda/step_bank.cu: the state-update kernel of one cartridge family.
#include "cuda/describe.hpp"
#include "cuda/step_kernel.hpp"

namespace cule {

cudaError_t launch_step_bank(const DeviceBatch& b, const TileList& tiles,
                             const StepActions& actions, cudaStream_t stream) {
  const u32 warps = tiles.warps_per_block;
  const u32 blocks = (tiles.size + warps - 1) / warps;
  return cule_launch(step_consoles_kernel<BankFetch>, dim3(blocks), dim3(warps * kWarpLanes),
                     step_shared_bytes(warps), stream, b, tiles.tiles, tiles.size, actions);
}

cudaError_t describe_step_bank(KernelResources& out) {
  return describe("step_consoles_kernel<BankFetch>", step_consoles_kernel<BankFetch>, out);
}

}  // namespace cule
