// rom_kernel/loaded_step.hpp: a ROM's own state-update kernel, compiled at run time.
#pragma once

#include <string>

#include "cuda/launchers.hpp"
#include "rom_kernel/driver_api.hpp"

namespace cule {

// The module stays loaded until the process ends: the kernel may be running, or be part of a CUDA
// graph.
struct LoadedStep {
  CUfunction kernel = nullptr;
  int device = 0;
  size_t local_bytes = 0;  // a thread
  DriverApi driver{};

  // For the current device.
  cudaError_t load(const std::string& path);
  cudaError_t launch(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                     cudaStream_t stream) const;
};

}  // namespace cule
