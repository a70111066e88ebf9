// cuda/launch.hpp: how kernels are launched, and where a block's shared memory is.
//
// The only file of this room that needs nvcc's own syntax.
#pragma once

#include <cuda_runtime.h>

template <class... Parameters, class... Arguments>
cudaError_t cule_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

// A kernel of a module loaded at run time.
template <class... Arguments>
cudaError_t cule_launch_loaded(cudaKernel_t kernel, dim3 grid, dim3 block, size_t shared_bytes,
                               cudaStream_t stream, const Arguments&... arguments) {
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernel(kernel, grid, block, addresses, shared_bytes, stream);
}

// The dynamic shared memory of the running block, 16-byte aligned.
__device__ inline unsigned char* cule_dynamic_shared() {
  extern __shared__ __align__(16) unsigned char cule_shared_bytes[];
  return cule_shared_bytes;
}
