// cuda/local_memory.hpp: the driver's pool of local memory, which holds stacks and spilled
// registers.
//
// The pool has room for every thread that the device can hold at once. The first launch of a kernel
// that needs more bytes a thread than any before enlarges it, for which it waits for the device;
// the pool never shrinks. So it is enlarged before the first launch: then no step waits, none is
// refused for lack of memory, and what is free afterwards is free. The limit of the stack takes
// effect at once (CUDA Driver API, cuCtxSetLimit); an empty launch would do the same, but needs
// device memory that can be read first.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace cule {

// Makes room for kernels of the current device that need this many bytes a thread. May wait for the
// device; not allowed under capture. pool_out: bytes of the pool.
inline cudaError_t reserve_local_memory(size_t bytes, size_t& pool_out) {
  int device = 0;
  int processors = 0;
  int threads = 0;
  size_t limit = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  if (error == cudaSuccess) error = cudaDeviceGetLimit(&limit, cudaLimitStackSize);
  if (error == cudaSuccess && bytes > limit) {
    error = cudaDeviceSetLimit(cudaLimitStackSize, bytes);
    if (error == cudaSuccess) limit = bytes;
  }
  pool_out = limit * size_t(threads) * size_t(processors);
  return error;
}

}  // namespace cule
