// tests/shim/loaded_kernel.hpp: what the source of a ROM's own kernel needs at its end to be a
// module that the shim can load.
#pragma once

#include <cuda.h>

#include "cuda/step_kernel.hpp"

extern "C" void cule_step(cule::DeviceBatch, const cule::Tile*, cule::u32, cule::StepActions);

extern "C" __attribute__((visibility("default"))) const CuleLoadedKernel cule_step_loaded{
    [](dim3 grid, dim3 block, std::size_t shared_bytes, void** arguments) {
      return cudaLaunchKernel(cule_step, grid, block, arguments, shared_bytes, nullptr);
    }};
