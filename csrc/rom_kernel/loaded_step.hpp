// rom_kernel/loaded_step.hpp: a ROM's own state-update kernel, compiled at run time.
//
// The process loads a module once for a device: batches with the same code share it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "cuda/launchers.hpp"
#include "rom_kernel/driver_api.hpp"

namespace cule {

class LoadedStep {
 public:
  // `code`: what the driver loads: machine code, or PTX. For the current device, whose
  // local memory is enlarged if need be.
  cudaError_t load(const std::string& code);
  // The last batch that has a module unloads it. No stream may be running the kernel, and no CUDA
  // graph that holds it may be launched again. A LoadedStep that is destroyed instead leaves the
  // module in place.
  void unload();
  cudaError_t launch(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                     cudaStream_t stream) const;

 private:
  struct Module {
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    size_t local_bytes = 0;  // a thread
    u32 users = 0;
  };
  using Modules = std::map<std::pair<std::string, int>, Module>;  // by code and device

  static Modules& modules();
  cudaError_t load_module(const std::string& code, Module& module) const;

  DriverApi driver_{};
  Modules::value_type* entry_ = nullptr;
};

}  // namespace cule
