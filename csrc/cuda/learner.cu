// cuda/learner.cu: see learner.hpp.
#include <cstring>

#include "cuda/launch.hpp"
#include "cuda/learner.hpp"

namespace cule {
namespace {

constexpr u32 kThreads = 256;

struct alignas(16) Half {
  u16 numbers[kBlockPixels / 2];
};

// 0 ... 255 has 8 significant bits, which is what bfloat16 has: the upper half of a float.
__device__ u16 bfloat16_of(u32 byte) {
  const float number = float(byte);
  u32 bits;
  memcpy(&bits, &number, sizeof bits);
  return u16(bits >> 16);
}

// A thread a block of pixels of one frame: four words are read, 32 bytes written. Threads of
// neighbouring frames write neighbouring memory.
__global__ void gather_blocks_kernel(const u8* frames, const i64* index, const StackShape shape,
                                     u16* out) {
  const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  const u32 rows = shape.height / kBlockSide, columns = shape.width / kBlockSide;
  const u64 s = thread % shape.frames, place = thread / shape.frames;
  const u64 x = place % columns, y = place / columns % rows, b = place / columns / rows;
  if (b >= shape.stacks) return;
  const u64 frame = u64(index[b * shape.frames + s]);
  const u8* from = frames + (frame * shape.height + y * kBlockSide) * shape.width + x * kBlockSide;
  Half halves[2];
  for (u32 dy = 0; dy < kBlockSide; ++dy) {
    u32 word;
    memcpy(&word, __builtin_assume_aligned(from + u64(dy) * shape.width, sizeof word), sizeof word);
    for (u32 dx = 0; dx < kBlockSide; ++dx) {
      const u32 channel = dy * kBlockSide + dx;
      halves[channel / 8].numbers[channel % 8] = bfloat16_of(word >> 8 * dx & 0xFF);
    }
  }
  Half* to = reinterpret_cast<Half*>(out) + 2 * thread;
  to[0] = halves[0];
  to[1] = halves[1];
}

// A thread a column.
__global__ void linear_recurrence_kernel(const float* added, const float* factors, u32 steps,
                                         u32 columns, float* out) {
  const u32 column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float following = 0;
  for (u32 t = steps; t-- > 0;) {
    const size_t at = size_t(t) * columns + column;
    following = added[at] + factors[at] * following;
    out[at] = following;
  }
}

u32 blocks_for(u64 threads) { return u32((threads + kThreads - 1) / kThreads); }

}  // namespace

cudaError_t launch_gather_blocks(const u8* frames, const i64* index, const StackShape& shape,
                                 u16* out, cudaStream_t stream) {
  const u64 blocks = u64(shape.height / kBlockSide) * (shape.width / kBlockSide);
  if (blocks * shape.stacks * shape.frames == 0) return cudaSuccess;
  return launch_kernel(gather_blocks_kernel, dim3(blocks_for(blocks * shape.stacks * shape.frames)),
                       dim3(kThreads), 0, stream, frames, index, shape, out);
}

cudaError_t launch_linear_recurrence(const float* added, const float* factors, u32 steps,
                                     u32 columns, float* out, cudaStream_t stream) {
  if (columns == 0) return cudaSuccess;
  return launch_kernel(linear_recurrence_kernel, dim3(blocks_for(columns)), dim3(kThreads), 0,
                       stream, added, factors, steps, columns, out);
}

}  // namespace cule
