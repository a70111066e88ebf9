// cuda/loaded_step.hpp: a state-update kernel that was compiled while the program ran
// (jit/lane_source.hpp).
#pragma once

#include <string>

#include "cuda/launchers.hpp"

namespace cule {

// The module stays loaded as long as the process lives: the kernel may be running, or be part of a
// graph, whoever has let go of it.
struct LoadedStep {
  cudaKernel_t kernel = nullptr;

  cudaError_t load(const std::string& path);
  cudaError_t launch(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                     cudaStream_t stream) const;
};

}  // namespace cule
