// cuda/describe.hpp: what the runtime says a kernel takes of the device.
#pragma once

#include "cuda/launchers.hpp"

namespace cule {

template <class... Parameters>
cudaError_t describe(const char* name, void (*kernel)(Parameters...), KernelResources& out) {
  cudaFuncAttributes a{};
  const cudaError_t error = cudaFuncGetAttributes(&a, kernel);
  out = {name, a.numRegs, a.localSizeBytes, a.sharedSizeBytes, a.maxThreadsPerBlock};
  return error;
}

}  // namespace cule
