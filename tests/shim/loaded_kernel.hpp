// tests/shim/loaded_kernel.hpp: what a translated game's source needs at its end to be a module
// that the shim can load.
#pragma once

#include "cuda/step_kernel.hpp"

extern "C" void cule_step(cule::DeviceBatch, const cule::Tile*, cule::u32, cule::StepActions);

namespace cule::shim {

inline cudaError_t launch_loaded(dim3 grid, dim3 block, std::size_t shared_bytes,
                                 void** arguments) {
  return cule_launch(cule_step, grid, block, shared_bytes, nullptr,
                     *static_cast<DeviceBatch*>(arguments[0]),
                     *static_cast<const Tile**>(arguments[1]), *static_cast<u32*>(arguments[2]),
                     *static_cast<StepActions*>(arguments[3]));
}

}  // namespace cule::shim

extern "C" __attribute__((visibility("default")))
const CuleLoadedKernel cule_step_loaded{cule::shim::launch_loaded};
