// cuda/step_kernel.hpp: the state-update kernel: every frame of one agent step, no pixels.
//
// One warp a tile, one console a lane; lanes beyond the tile's count are idle. In: actions and the
// states of the batch. Out: states, logs of the last frames, DeviceBatch::captures. RAM lies in
// shared memory for the time of a frame. Pictures, results and resets are the business of
// finish_step_kernel, which follows.
#pragma once

#include "console/lanes.hpp"
#include "cuda/device_batch.hpp"
#include "cuda/lane_group.hpp"
#include "cuda/launchers.hpp"

namespace cule {

constexpr u32 kWarpRamBytes = kWarpLanes * kRamBytes;

// Shared memory of a block: the tables of opcodes, then the RAM of each warp.
constexpr u32 step_shared_bytes(Schedule schedule, u32 warps) {
  return table_bytes(schedule) + warps * kWarpRamBytes;
}

// Notes what there is to draw; draws only what would not outlast the step.
struct LaneCapture {
  const DeviceBatch& b;
  const u32 console_number;
  const Console& console;
  u8 captures = kCaptureStepped;

  __device__ void begin_frame(i32) {}
  __device__ void previous() {
    if (!b.maxpool || b.ram_obs) return;
    captures |= kCapturePrevious;
    // The next frame step goes on in the same buffer.
    if (console.s.is_unfinished) hold();
  }
  __device__ void newest() {
    if (!b.ram_obs) captures |= kCaptureNewest;
  }

 private:
  __device__ CULE_NOINLINE void hold() {
    const u8* from = console.memory.picture(console.s.picture.current);
    u8* to = b.held_picture(console_number);
    for (u32 i = 0; i < console.properties.height * kScreenWidth; ++i) to[i] = from[i];
    captures |= kCaptureHeld;
  }
};

struct LaneAction {
  i32 action;
  float strength;
  bool is_given;  // decorrelation gives some consoles fewer steps
};

__device__ inline LaneAction read_action(const DeviceBatch& b, const DeviceGame& g,
                                         const StepActions& a, u32 i) {
  if (a.joysticks != nullptr) {
    const float* j = a.joysticks + 4 * i;
    return {action_from_joystick(j[0], j[1], j[2], b.continuous_action_threshold), j[3], true};
  }
  if (a.indices == nullptr) {
    const u32 length = counter_random(a.random_seed, i, 0, Purpose::kDecorrelateLength);
    const i32 steps = i32(u64(length) * u64(a.random_max_steps + 1) >> 32);
    const u32 choice =
        counter_random(a.random_seed, i, u64(a.random_step), Purpose::kDecorrelateAction);
    return {g.actions[u64(choice) * u64(g.num_actions) >> 32], 1.0f, a.random_step < steps};
  }
  i32 index = a.indices[i];
  if (index < 0 || index >= g.num_actions) {
    atomicOr(b.faults, u32(kFaultAction));
    index = 0;
  }
  return {g.actions[index], 1.0f, true};
}

// Three blocks of four warps on a multiprocessor: what is spilled for that lies outside the
// instruction loop.
constexpr u32 kStepBlocks = 3;

// What such a kernel does. Program: who executes instructions (LaneEngine); Lanes: how those of a
// warp agree.
template <class Program, class Lanes = LaneGroup>
__device__ inline void step_consoles(const DeviceBatch& b, const Tile* tiles, u32 num_tiles,
                                     const StepActions& actions) {
  u32* micro_ops = reinterpret_cast<u32*>(cule_dynamic_shared());
  for (u32 k = threadIdx.x; k < kNumMicroOps; k += blockDim.x) {
    micro_ops[k] = b.micro_ops[k];
    if constexpr (Program::kSchedule == Schedule::kBranchFree) {
      reinterpret_cast<Selects*>(micro_ops + kNumMicroOps)[k] = make_selects(k, b.micro_ops[k]);
    }
  }
  __syncthreads();

  const u32 warp = threadIdx.x / kWarpLanes;
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 t = blockIdx.x * (blockDim.x / kWarpLanes) + warp;
  if (t >= num_tiles) return;
  const Tile tile = tiles[t];
  if (lane >= tile.count) return;
  const LaneGroup in_tile{tile.count == kWarpLanes ? ~0u : (1u << tile.count) - 1};

  const u32 i = tile.first + lane;
  const DeviceGame& g = b.games[tile.game];
  SlotState& s = b.states[i];
  const LaneAction action = read_action(b, g, actions, i);
  bool steps = action.is_given && !s.is_ended;
  // An ended console is reset afterwards, or, without autoreset, has to be reset by the caller.
  if (s.is_ended && b.autoreset == Autoreset::kDisabled) {
    atomicOr(b.faults, u32(kFaultEnded));
  }
  const u32 stepping = in_tile.ballot(steps);
  if (!steps) {
    b.captures[i] = 0;
    return;
  }
  u8* ram = cule_dynamic_shared() + table_bytes(Program::kSchedule) + warp * kWarpRamBytes +
            lane * kWordBytes;
  const Lanes all{stepping};
  using Engine = LaneEngine<Program, Lanes>;
  BasicAle<Engine> ale{{s.console, b.memory(i), g.cart, g.properties},
                       s.env,
                       nullptr,
                       g.facts,
                       g.ale,
                       {false, s.seed, 0},
                       Engine{{ram}, micro_ops, all, all}};
  LaneCapture capture{b, i, ale.console};
  step_agent(ale, s.agent, g.agent, action.action, action.strength, capture);
  s.is_ended = is_ended(s.agent, g.agent);
  s.reported = s.agent;
  b.captures[i] = capture.captures;
}

template <class Fetch, Schedule kSchedule>
__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_consoles_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                         const StepActions actions) {
  step_consoles<Interpreted<Fetch, kSchedule>>(b, tiles, num_tiles, actions);
}

template <class Fetch, Schedule kSchedule>
cudaError_t launch_step(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                        cudaStream_t stream) {
  const u32 warps = tiles.warps_per_block;
  const u32 blocks = (tiles.size + warps - 1) / warps;
  return cule_launch(step_consoles_kernel<Fetch, kSchedule>, dim3(blocks), dim3(warps * kWarpLanes),
                     step_shared_bytes(kSchedule, warps), stream, b, tiles.tiles, tiles.size,
                     actions);
}

}  // namespace cule
