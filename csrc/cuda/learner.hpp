// cuda/learner.hpp: kernels of learners, as functions of plain pointers, sizes and a stream.
//
// They know nothing of environments: what a learner does with what replay stores, where tensor
// operations would go over the same memory several times.
#pragma once

#include <cuda_runtime.h>

#include "base/int.hpp"

namespace cule {

// Pixels of a side of a block, whose pixels become channels: the stride of the first convolution.
inline constexpr u32 kBlockSide = 4;
inline constexpr u32 kBlockPixels = kBlockSide * kBlockSide;

// Stacks of frames to gather.
struct StackShape {
  u32 stacks;
  u32 frames;  // of a stack
  u32 height;  // of a frame, in pixels; a multiple of kBlockSide, as the width
  u32 width;
};

// Gathers stacks of frames as bfloat16 with blocks of pixels as channels, channels last:
// out[b][y][x][16 s + 4 dy + dx] is pixel (4 y + dy, 4 x + dx) of frame index[b][s]. Reads each
// byte once and writes each number once. `frames` is aligned to 4 bytes and `out` to 16.
cudaError_t launch_gather_blocks(const u8* frames, const i64* index, const StackShape& shape,
                                 u16* out, cudaStream_t stream);

// out[t] = added[t] + factors[t] * out[t + 1] for each column of [steps][columns], from 0 after the
// last row. Rounds the product and the sum, as two tensor operations do.
cudaError_t launch_linear_recurrence(const float* added, const float* factors, u32 steps,
                                     u32 columns, float* out, cudaStream_t stream);

}  // namespace cule
