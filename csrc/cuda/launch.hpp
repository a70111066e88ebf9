// cuda/launch.hpp: how kernels are launched.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

namespace cule {

// The runtime copies the arguments before the call returns.
template <class... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, const std::decay_t<Parameters>&... arguments) {
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernel(kernel, grid, block, addresses, shared_bytes, stream);
}

}  // namespace cule
