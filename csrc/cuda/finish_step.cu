// cuda/finish_step.cu: the render kernel: pictures of a step to observations, resets, results.
//
// One block a console at a time. In: the results of the state-update kernel. Out: the newest frame
// in the stack, observations, result tables. Each byte of an observation is written once, into the
// caller's memory. Order: draw, final observation, reset, results.
#include "cuda/launch.hpp"
#include "cuda/launchers.hpp"
#include "cuda/maxpool.hpp"

namespace cule {
namespace {

// A picture of console i: 0 the newest, 1 the one before.
__device__ Picture step_picture(const DeviceBatch& b, const Console& c, u32 i, u32 n,
                                u8 draw_bits) {
  Picture p = picture_of(c, c.s.picture.current ^ n);
  if (n == 1 && draw_bits & kPreviousHeld) {
    p.kind = PictureKind::kPixels;
    p.pixels = b.held_picture(i);
  }
  return p;
}

// The maximum of two pictures to a frame of the observation; a warp takes half of the rows. Without
// a dot resizer both are the same picture, and a lane keeps its column.
__device__ CULE_INLINE void resize_levels(const DeviceBatch& b, const DeviceGame& g,
                                          const LevelPair& levels, u8* frame_out) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 warp = threadIdx.x / kWarpLanes;
  const u32 rows = u32(g.resizer->rows.target_size);
  if (g.dot_resizer->is_usable) {
    static_assert(DotRows::kSharedBytes <= kPaintBytes);
    DotRows(*g.dot_resizer, *g.resizer, levels, warp * kPaintBytes, frame_out)
        .run(rows * warp / kDrawWarps, rows * (warp + 1) / kDrawWarps);
    return;
  }
  const u32 row_bytes = u32(g.resizer->columns.target_size) * b.channels;
  for (u32 at = lane; at < row_bytes; at += kWarpLanes) {
    for (u32 row = warp; row < rows; row += kDrawWarps) {
      frame_out[row * row_bytes + at] = resize_pixel(*g.resizer, levels.first, i32(row),
                                                     i32(at / b.channels), i32(at % b.channels));
    }
  }
}

// Draws the pictures of the step and pushes the frame onto the stack.
__device__ void push_frame(const DeviceBatch& b, const DeviceGame& g, const Console& c, u32 i,
                           u8 draw_bits) {
  SlotState& s = b.states[i];
  const u32 slot = (s.newest_frame + 1) % u32(b.stack_num);
  u8* frame = b.frames(i) + size_t(slot) * b.frame_bytes;
  if (draw_bits & (kDrawNewest | kDrawPrevious)) {
    u8* levels = canvas_of(b);
    if (!(draw_bits & kDrawNewest)) draw_maxpool(b, g, c, i, levels);
    const StepPictures step{step_picture(b, c, i, 0, draw_bits),
                            step_picture(b, c, i, 1, draw_bits), draw_bits};
    LevelPair pair = draw_pictures(b, g, c, step.newest_or_null(), step.previous_or_null(), levels);
    if (!g.dot_resizer->is_usable && pair.second != pair.first) {
      max_levels(pair, g.snapshot.stack - g.snapshot.pooled, levels);
      pair = {levels, levels};
    }
    resize_levels(b, g, pair, frame);
    keep_maxpool(b, g, c, i, step, pair);
  } else {
    copy_block(frame, b.frames(i) + size_t(s.newest_frame) * b.frame_bytes, b.frame_bytes);
  }
  __syncthreads();
  if (threadIdx.x == 0) s.newest_frame = slot;
  __syncthreads();
}

// Observation, oldest frame first; or the newest frame alone; or RAM.
__device__ CULE_INLINE void write_obs(const DeviceBatch& b, u32 i, u8* out, bool stacked) {
  const SlotState& s = b.states[i];
  if (b.obs == ObsKind::kRam) {
    copy_block(out, s.console.ram, kRamBytes);
    return;
  }
  const u8* frames = b.frames(i);
  const u32 count = stacked ? u32(b.stack_num) : 1;
  for (u32 k = 0; k < count; ++k) {
    const u32 slot = (s.newest_frame + u32(b.stack_num) - count + 1 + k) % u32(b.stack_num);
    copy_block(out + size_t(k) * b.frame_bytes, frames + size_t(slot) * b.frame_bytes,
               b.frame_bytes);
  }
}

// Restores one of the console's cached reset states. Its pictures stay in the state's snapshot.
// keeps_report: what was reported of the step that ended stays so.
__device__ CULE_NOINLINE void reset_console(const DeviceBatch& b, const DeviceGame& g, u32 i,
                                            bool keeps_report) {
  __shared__ const u8* chosen;
  SlotState& s = b.states[i];
  if (threadIdx.x == 0) {
    const ConsoleSetup& setup = b.setup(i);
    const u32 drawn = choose_modification(s.env, s.seed, setup.num_modifications);
    const ResetSet& set = b.reset_sets[setup.reset_set + drawn];
    chosen = set.snapshots + size_t(choose_reset_state(s, set.count)) * b.snapshot_bytes;
    const AgentState ended = s.reported;
    copy_reset_state(s, *reinterpret_cast<const SlotState*>(chosen + sizeof(SnapshotHeader)));
    if (keeps_report) s.reported = ended;
    forget_logs(s.console.picture, PictureKind::kBorrowed);
    b.begin_maxpool(i, MaxpoolKind::kResetState, chosen + g.snapshot.pictures);
  }
  __syncthreads();
  copy_block(b.frames(i), chosen + g.snapshot.stack, g.snapshot.stack_end - g.snapshot.stack);
  restore_pending(b, g, i, chosen);
  __syncthreads();
}

__device__ void write_results(const DeviceBatch& b, const DeviceGame& g, u32 i,
                              const StepOutputs& out) {
  if (out.obs != nullptr) write_obs(b, i, out.obs + i * out.obs_stride, out.stacked);
  if (threadIdx.x == 0 && out.ints != nullptr) {
    write_ints(b.states[i], g.agent, b.num_players, i32(i), out.ints + i, out.width);
    write_flags(b.states[i], g.agent, b.num_players, out.flags + i, out.width);
  }
}

// As many blocks on a multiprocessor as 128 registers a thread allow.
constexpr u32 kDrawBlocks = 8;

__global__ void __launch_bounds__(kDrawThreads, kDrawBlocks)
    finish_step_kernel(const DeviceBatch b, const StepOutputs out, bool resets_ended) {
  for (u32 i = blockIdx.x; i < u32(b.size); i += gridDim.x) {
    const DeviceGame& g = b.game(i);
    SlotState& s = b.states[i];
    const Console c = b.console(i);
    const u8 draw_bits = b.draw_bits[i];
    const bool has_stepped = draw_bits & kStepped;
    const bool is_ended = s.is_ended;
    if (has_stepped && b.draws()) push_frame(b, g, c, i, draw_bits);
    const bool is_same_step = has_stepped && b.autoreset == Autoreset::kSameStep;
    const bool ends_here = is_ended && is_same_step;
    // A lost life that is reported as termination has a final observation, and no reset follows.
    if (out.final_obs != nullptr && is_same_step && (is_ended || is_terminated(s.agent, g.agent)))
      write_obs(b, i, out.final_obs + i * out.final_obs_stride, out.stacked);
    if (ends_here && out.final_ints != nullptr && threadIdx.x == 0)
      write_ints(s, g.agent, b.num_players, i32(i), out.final_ints + i, out.width);
    const bool starts_over = is_ended && (ends_here || resets_ended ||
                                          (!has_stepped && b.autoreset == Autoreset::kNextStep));
    if (starts_over) {
      __syncthreads();
      reset_console(b, g, i, ends_here);
    }
    write_results(b, g, i, out);
    __syncthreads();
    if (threadIdx.x == 0) return_pixels(b, i);
  }
}

__global__ void reset_consoles_kernel(const DeviceBatch b, const ResetRequest request,
                                      const StepOutputs out) {
  for (u32 i = blockIdx.x; i < u32(b.size); i += gridDim.x) {
    const DeviceGame& g = b.game(i);
    if (request.mask == nullptr || request.mask[i]) {
      if (threadIdx.x == 0 && request.seeds[i] >= 0) {
        SlotState& s = b.states[i];
        s.seed = u64(request.seeds[i]);
        s.env.acted_frames = 0;
        s.env.mode = b.setup(i).mode;
        s.env.difficulty = b.setup(i).difficulty;
        s.env.action_delay = u8(b.setup(i).action_delay);
      }
      __syncthreads();
      reset_console(b, g, i, false);
    }
    write_results(b, g, i, out);
    __syncthreads();
    if (threadIdx.x == 0) return_pixels(b, i);
  }
}

__global__ void observe_consoles_kernel(const DeviceBatch b, const StepOutputs out) {
  for (u32 i = blockIdx.x; i < u32(b.size); i += gridDim.x) write_results(b, b.game(i), i, out);
}

}  // namespace

cudaError_t launch_finish_step(const DeviceBatch& b, const StepOutputs& out, bool resets_ended,
                               u32 blocks, cudaStream_t stream) {
  return launch_kernel(finish_step_kernel, dim3(blocks), dim3(kDrawThreads), kDrawSharedBytes,
                       stream, b, out, resets_ended);
}

cudaError_t describe_finish_step(KernelResources& out) {
  return describe("finish_step_kernel", finish_step_kernel, out);
}

cudaError_t choose_blocks(int consoles, u32& blocks_out) {
  int device = 0;
  int processors = 0;
  int blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, finish_step_kernel,
                                                          int(kDrawThreads), kDrawSharedBytes);
  const int most = processors * (blocks > 0 ? blocks : 1);
  blocks_out = u32(consoles < most ? consoles : most);
  return error;
}

cudaError_t launch_reset(const DeviceBatch& b, const ResetRequest& request, const StepOutputs& out,
                         u32 blocks, cudaStream_t stream) {
  return launch_kernel(reset_consoles_kernel, dim3(blocks), dim3(kDrawThreads), 0, stream, b,
                       request, out);
}

cudaError_t launch_observe(const DeviceBatch& b, const StepOutputs& out, u32 blocks,
                           cudaStream_t stream) {
  return launch_kernel(observe_consoles_kernel, dim3(blocks), dim3(kDrawThreads), 0, stream, b,
                       out);
}

}  // namespace cule
