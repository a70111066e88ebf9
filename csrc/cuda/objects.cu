// cuda/objects.cu: the newest objects of each console, for observations of objects.
#include "cuda/launch.hpp"
#include "cuda/launchers.hpp"
#include "game/objects.hpp"

namespace cule {
namespace {

constexpr u32 kObjectThreads = 128;

// A thread a console; those that the step left alone keep their stack.
__global__ void push_objects_kernel(const DeviceBatch b) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= u32(b.size) || !(b.draw_bits[i] & kStepped)) return;
  SlotState& s = b.states[i];
  s.newest_frame = (s.newest_frame + 1) % u32(b.stack_num);
  u8* frame = b.frames(i) + size_t(s.newest_frame) * b.frame_bytes;
  write_objects(b.game(i).objects, s.console.ram, s.console.cart.ram,
                b.frame_bytes / u32(kObjectBytes), reinterpret_cast<i16*>(frame));
}

}  // namespace

cudaError_t launch_push_objects(const DeviceBatch& b, cudaStream_t stream) {
  const u32 blocks = (u32(b.size) + kObjectThreads - 1) / kObjectThreads;
  return launch_kernel(push_objects_kernel, dim3(blocks), dim3(kObjectThreads), 0, stream, b);
}

}  // namespace cule
