// cuda/line_state.hpp: the states of a warp's scanlines in shared memory.
#pragma once

#include <device_runtime.hpp>

#include "cuda/line_memory.hpp"

namespace cule {

__device__ CULE_INLINE u32& shared_word(u32 at) {
  return *reinterpret_cast<u32*>(dynamic_shared() + at);
}

// In the block's shared memory: byte i of lane l at 32 i + l.
struct LineState {
  u32 at;  // of the lane's byte 0

  __device__ CULE_INLINE u8& operator[](u32 i) const {
    return dynamic_shared()[at + i * kWarpLanes];
  }
  __device__ CULE_INLINE LineState of(u32 lane, u32 other) const { return {at + other - lane}; }
};

}  // namespace cule
