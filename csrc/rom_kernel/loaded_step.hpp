// rom_kernel/loaded_step.hpp: a ROM's own state-update kernel, compiled at run time.
#pragma once

#include <string>

#include "cuda/launchers.hpp"

namespace cule {

// The module stays loaded until the process ends: the kernel may be running, or be part of a CUDA
// graph.
struct LoadedStep {
  cudaKernel_t kernel = nullptr;

  cudaError_t load(const std::string& path);
  cudaError_t launch(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                     cudaStream_t stream) const;
};

}  // namespace cule
