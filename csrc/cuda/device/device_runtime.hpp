// device_runtime.hpp: what kernels need from the machine that runs them.
//
// Found by include path: this folder for nvcc and NVRTC, tests/shim for the lockstep shim.
#pragma once

namespace cule {

// The dynamic shared memory of the running block, 16-byte aligned.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  return shared_bytes;
}

// Called for every instruction of a lane; the shim counts here.
__device__ inline void note_instruction(bool /*is_slow*/) {}

}  // namespace cule
