// cuda/loaded_step.cu: see cuda/loaded_step.hpp.
#include "cuda/loaded_step.hpp"
#include "cuda/step_kernel.hpp"

namespace cule {

cudaError_t LoadedStep::load(const std::string& path) {
  cudaLibrary_t library = nullptr;
  const cudaError_t error =
      cudaLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return error != cudaSuccess ? error : cudaLibraryGetKernel(&kernel, library, "cule_step");
}

cudaError_t LoadedStep::launch(const DeviceBatch& b, const TileList& tiles,
                               const StepActions& actions, cudaStream_t stream) const {
  constexpr Schedule kLoadedSchedule = Schedule::kBlock;  // as jit/lane_source.cpp has it
  const u32 warps = tiles.warps_per_block;
  const u32 blocks = (tiles.size + warps - 1) / warps;
  return cule_launch_loaded(kernel, dim3(blocks), dim3(warps * kWarpLanes),
                            step_shared_bytes(kLoadedSchedule, warps), stream, b, tiles.tiles,
                            tiles.size, actions);
}

}  // namespace cule
