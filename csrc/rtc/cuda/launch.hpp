// In place of csrc/cuda/launch.hpp: nothing is launched from device code.
#pragma once

#include <cuda_runtime.h>

template <class... Parameters, class... Arguments>
cudaError_t cule_launch(void (*kernel)(Parameters...), dim3, dim3, size_t, cudaStream_t,
                        const Arguments&...);

// The dynamic shared memory of the running block, 16-byte aligned.
__device__ inline unsigned char* cule_dynamic_shared() {
  extern __shared__ __align__(16) unsigned char cule_shared_bytes[];
  return cule_shared_bytes;
}
