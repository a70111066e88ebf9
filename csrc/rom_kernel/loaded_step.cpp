// rom_kernel/loaded_step.cpp: see rom_kernel/loaded_step.hpp.
#include "rom_kernel/loaded_step.hpp"

#include "cuda/step_launch.hpp"

namespace cule {

cudaError_t LoadedStep::load(const std::string& path) {
  cudaLibrary_t library = nullptr;
  const cudaError_t error =
      cudaLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return error != cudaSuccess ? error : cudaLibraryGetKernel(&kernel, library, "cule_step");
}

cudaError_t LoadedStep::launch(const DeviceBatch& b, const TileList& tiles,
                               const StepActions& actions, cudaStream_t stream) const {
  return launch_step_kernel(kernel, 0, b, tiles, actions, stream);
}

}  // namespace cule
