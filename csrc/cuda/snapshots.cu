// cuda/snapshots.cu: snapshots of consoles (batch/snapshot.hpp), and their full-size screens.
//
// One block a console. check_snapshots_kernel checks a snapshot before it is restored.
#include "console/latches.hpp"
#include "cuda/launch.hpp"
#include "cuda/launchers.hpp"
#include "cuda/maxpool.hpp"

namespace cule {
namespace {

// Both pictures of a console as pixels: drawn in scratch, because a snapshot's parts begin at
// multiples of 8 bytes.
__device__ void draw_both(const DeviceBatch& b, const Console& c, u8* pixels_out) {
  draw_rows(c, picture_of(c, threadIdx.x / kWarpLanes), b.identity,
            plane_of(b, threadIdx.x / kWarpLanes));
  __syncthreads();
  const size_t bytes = size_t(c.properties.height) * kScreenWidth;
  for (u32 n = 0; n < kDrawWarps; ++n) copy_block(pixels_out + n * bytes, plane_of(b, n), bytes);
  __syncthreads();
}

__global__ void gather_snapshots_kernel(const DeviceBatch b, const i64* consoles, u32 n,
                                        u8* snapshots_out) {
  for (u32 k = blockIdx.x; k < n; k += gridDim.x) {
    const u32 i = u32(consoles[k]);
    const DeviceGame& g = b.game(i);
    const Console c = b.console(i);
    u8* snapshot = snapshots_out + size_t(k) * b.snapshot_bytes;
    if (threadIdx.x == 0) {
      complete_latches(c);
      SlotState& saved = *reinterpret_cast<SlotState*>(snapshot + sizeof(SnapshotHeader));
      saved = b.states[i];
      forget_logs(saved.console.picture, PictureKind::kPixels);
    }
    draw_both(b, c, snapshot + g.snapshot.pictures);
    copy_block(snapshot + g.snapshot.pending, reinterpret_cast<const u8*>(b.pending_of(i)),
               g.snapshot.pooled - g.snapshot.pending);
    if (b.draws()) {
      draw_maxpool(b, g, c, i, canvas_of(b));
      copy_block(snapshot + g.snapshot.pooled, canvas_of(b), g.snapshot.stack - g.snapshot.pooled);
    }
    copy_block(snapshot + g.snapshot.stack, b.frames(i), g.snapshot.stack_end - g.snapshot.stack);
    for (size_t at = g.snapshot.stack_end + threadIdx.x; at < b.snapshot_bytes; at += blockDim.x)
      snapshot[at] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
      const SnapshotHeader h{kSnapshotMagic, b.layout, g.key,
                             checksum_of(snapshot + sizeof h, g.snapshot.end - sizeof h)};
      memcpy(snapshot, &h, sizeof h);
    }
  }
}

__global__ void check_snapshots_kernel(const DeviceBatch b, const i64* consoles, u32 n,
                                       const u8* snapshots, u8* errors_out) {
  const u32 k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  const DeviceGame& g = b.game(u32(consoles[k]));
  const SnapshotOwner owner{b.layout,          g.key,
                            g.snapshot,        g.cart.type,
                            u32(b.stack_num),  count_modifications(g.facts.modifications),
                            b.max_action_delay};
  errors_out[k] =
      u8(find_snapshot_error(snapshots + size_t(k) * b.snapshot_bytes, owner, g.properties));
}

__global__ void scatter_snapshots_kernel(const DeviceBatch b, const i64* consoles,
                                         const u8* snapshots) {
  const u32 i = u32(consoles[blockIdx.x]);
  const u8* snapshot = snapshots + size_t(blockIdx.x) * b.snapshot_bytes;
  const DeviceGame& g = b.game(i);
  const FrameMemory memory = b.memory(i);
  const size_t picture = size_t(g.properties.height) * kScreenWidth;
  copy_block(reinterpret_cast<u8*>(&b.states[i]), snapshot + sizeof(SnapshotHeader),
             sizeof(SlotState));
  if (threadIdx.x == 0) {
    b.begin_maxpool(i, b.draws() ? MaxpoolKind::kPixels : MaxpoolKind::kBlank, nullptr);
    take_pixels(b.console(i));
  }
  __syncthreads();
  for (u32 buffer = 0; buffer < 2; ++buffer) {
    copy_block(memory.picture(buffer), snapshot + g.snapshot.pictures + buffer * picture, picture);
  }
  restore_pending(b, g, i, snapshot);
  copy_block(b.maxpool_pixels(i), snapshot + g.snapshot.pooled,
             g.snapshot.stack - g.snapshot.pooled);
  copy_block(b.frames(i), snapshot + g.snapshot.stack, g.snapshot.stack_end - g.snapshot.stack);
}

__global__ void draw_screens_kernel(const DeviceBatch b, const i64* consoles, u32 n, u8* pixels_out,
                                    u64 stride) {
  for (u32 k = blockIdx.x; k < n; k += gridDim.x) {
    const Console c = b.console(u32(consoles[k]));
    if (threadIdx.x < kWarpLanes) {
      draw_rows(c, picture_of(c, c.s.picture.current), b.identity, pixels_out + k * stride);
    }
  }
}

constexpr u32 kCheckThreads = 32;

}  // namespace

cudaError_t launch_gather_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                    u8* snapshots_out, u32 blocks, cudaStream_t stream) {
  return launch_kernel(gather_snapshots_kernel, dim3(n < blocks ? n : blocks), dim3(kDrawThreads),
                       kDrawSharedBytes, stream, b, consoles, n, snapshots_out);
}

cudaError_t launch_check_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                   const u8* snapshots, u8* errors_out, cudaStream_t stream) {
  return launch_kernel(check_snapshots_kernel, dim3((n + kCheckThreads - 1) / kCheckThreads),
                       dim3(kCheckThreads), 0, stream, b, consoles, n, snapshots, errors_out);
}

cudaError_t launch_scatter_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                     const u8* snapshots, cudaStream_t stream) {
  return launch_kernel(scatter_snapshots_kernel, dim3(n), dim3(kDrawThreads), 0, stream, b,
                       consoles, snapshots);
}

cudaError_t launch_draw_screens(const DeviceBatch& b, const i64* consoles, u32 n, u8* pixels_out,
                                u64 stride, u32 blocks, cudaStream_t stream) {
  return launch_kernel(draw_screens_kernel, dim3(n < blocks ? n : blocks), dim3(kDrawThreads),
                       kDrawSharedBytes, stream, b, consoles, n, pixels_out, stride);
}

}  // namespace cule
