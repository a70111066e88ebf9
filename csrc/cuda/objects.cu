// cuda/objects.cu: the objects or sprites of each console, for observations of them and `info`.
#include "console/sprites.hpp"
#include "cuda/launch.hpp"
#include "cuda/launchers.hpp"
#include "game/objects.hpp"

namespace cule {
namespace {

constexpr u32 kObjectThreads = 128;

// As many sinks fit into the shared memory of a block.
constexpr u32 kSpriteThreads = 8;

// Where the rows of the thread's console go; null: there is none, or the step left it alone, so
// that it keeps its stack.
__device__ i16* next_rows(const DeviceBatch& b, u32 i) {
  if (i >= u32(b.size) || !(b.draw_bits[i] & kStepped)) return nullptr;
  SlotState& s = b.states[i];
  s.newest_frame = (s.newest_frame + 1) % u32(b.stack_num);
  return reinterpret_cast<i16*>(b.frames(i) + size_t(s.newest_frame) * b.frame_bytes);
}

// A thread a console.
__global__ void push_objects_kernel(const DeviceBatch b) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  i16* const rows = next_rows(b, i);
  if (rows == nullptr) return;
  const SlotState& s = b.states[i];
  write_objects(b.game(i).objects, s.console.ram, s.console.cart.ram,
                b.frame_bytes / u32(kObjectBytes), rows);
}

// A thread a console: its objects as they are, whatever is observed.
__global__ void write_objects_kernel(const DeviceBatch b, u32 num_rows, i16* rows_out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= u32(b.size)) return;
  const SlotState& s = b.states[i];
  write_objects(b.game(i).objects, s.console.ram, s.console.cart.ram, num_rows,
                rows_out + size_t(i) * num_rows * kObjectColumns);
}

// A thread a console.
__global__ void push_sprites_kernel(const DeviceBatch b) {
  __shared__ SpriteMemory memory[kSpriteThreads];
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  i16* const rows = next_rows(b, i);
  if (rows == nullptr) return;
  write_sprites(b.console(i), memory[threadIdx.x], b.frame_bytes / u32(kSpriteBytes), rows);
}

}  // namespace

cudaError_t launch_push_rows(const DeviceBatch& b, cudaStream_t stream) {
  const bool are_sprites = b.obs == ObsKind::kSprites;
  const u32 threads = are_sprites ? kSpriteThreads : kObjectThreads;
  const dim3 blocks((u32(b.size) + threads - 1) / threads);
  return launch_kernel(are_sprites ? push_sprites_kernel : push_objects_kernel, blocks,
                       dim3(threads), 0, stream, b);
}

cudaError_t launch_write_objects(const DeviceBatch& b, u32 num_rows, i16* rows_out,
                                 cudaStream_t stream) {
  const dim3 blocks((u32(b.size) + kObjectThreads - 1) / kObjectThreads);
  return launch_kernel(write_objects_kernel, blocks, dim3(kObjectThreads), 0, stream, b, num_rows,
                       rows_out);
}

}  // namespace cule
