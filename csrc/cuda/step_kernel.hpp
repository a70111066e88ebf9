// cuda/step_kernel.hpp: the state-update kernel: every frame of one agent step, no pixels.
//
// One warp a tile, one lane or one team of lanes a console; lanes beyond the tile's count are idle.
// In: actions and the states of the batch. Out: states, logs of the last frames,
// DeviceBatch::draw_bits. RAM is in shared memory while a frame runs. finish_step_kernel, which
// follows, makes pictures, results and resets.
#pragma once

#include "cuda/line_collisions.hpp"
#include "cuda/pixel_pool.hpp"
#include "cuda/step_memory.hpp"
#include "env/agent.hpp"
#include "warp/lane_engine.hpp"

namespace cule {

// Marks the frames that the render kernel draws (ObservationSink of env/agent.hpp). Copies pixels
// only where the next frame would draw over them.
struct FrameMarker {
  const DeviceBatch& b;
  const u32 console_number;
  const Console& console;
  u8 draw_bits = kStepped;

  __device__ void begin_frame(i32) {}
  __device__ void previous() {
    if (!b.maxpool || b.ram_obs) return;
    draw_bits |= kDrawPrevious;
    // The next frame step continues in the same buffer.
    if (console.s.is_unfinished) hold();
  }
  __device__ void newest() {
    if (!b.ram_obs) draw_bits |= kDrawNewest;
  }
  __device__ void restart() { draw_bits = kStepped; }

 private:
  __device__ CULE_NOINLINE void hold() {
    const u8* from = console.memory.picture(console.s.picture.current);
    u8* to = b.held_picture(console_number);
    for (u32 i = 0; i < console.properties.height * kScreenWidth; ++i) to[i] = from[i];
    draw_bits |= kPreviousHeld;
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

// Three blocks of four warps on a multiprocessor; the registers spilled for that are spilled
// outside the instruction loop.
constexpr u32 kStepBlocks = 3;

// All lanes of a team call it together; the request is that of the lane with the console.
__device__ CULE_NOINLINE Served serve(const RenderTeam& team, const Console& c, u32 request) {
  const Team<WholeWarp> lanes;
  lanes.sync();
  const u32 from = lanes.take_from(request, 0);
  if (from == kGo) return Served::kGone;
  const TiaWriteLog& log = c.memory.log(c.s.picture.recording_slot);
  return render_together(lanes, c, log, from, team.memory) ? Served::kRendered
                                                           : Served::kCannotRender;
}

// The step of console i, in the lane that has it. `lead` are the lanes of the warp that have one.
template <class Program, class Lanes>
__device__ CULE_INLINE void step_console(const Program& program, const DeviceBatch& b, u32 i,
                                         const StepActions& actions, const LaneGroup& lead,
                                         const RenderTeam& team, u8* ram) {
  const DeviceGame& g = b.game(i);
  SlotState& s = b.states[i];
  const LaneAction action = read_action(b, g, actions, i);
  const bool steps = action.is_given && !s.is_ended;
  // An ended console is reset afterwards; without autoreset, the caller must reset it.
  if (s.is_ended && b.autoreset == Autoreset::kDisabled) {
    atomicOr(b.faults, u32(kFaultEnded));
  }
  const u32 stepping = lead.ballot(steps);
  if (!steps) {
    b.draw_bits[i] = 0;
    return;
  }
  const Lanes all{stepping};
  using Engine = LaneEngine<Program, Lanes>;
  BasicAle<Engine> ale{{s.console, b.memory(i), g.cart, g.properties},
                       s.env,
                       nullptr,
                       g.facts,
                       g.ale,
                       {false, s.seed, 0},
                       Engine{{ram}, team, program, all, all}};
  FrameMarker marker{b, i, ale.console};
  step_agent(ale, s.agent, g.agent, action.action, action.strength, marker);
  s.is_ended = is_ended(s.agent, g.agent);
  s.reported = s.agent;
  b.draw_bits[i] = marker.draw_bits;
}

// The body of the kernel. Program executes instructions (LaneEngine); Lanes is how those of a warp
// vote.
template <class Program, class Lanes>
__device__ inline void step_consoles(const Program& program, const DeviceBatch& b,
                                     const Tile* tiles, u32 num_tiles, const StepActions& actions) {
  const u32 warps = blockDim.x / kWarpLanes;
  const u32 warp = threadIdx.x / kWarpLanes;
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 t = blockIdx.x * warps + warp;
  if (t >= num_tiles) return;
  const Tile tile = tiles[t];
  const u32 size = b.team_lanes;
  const RenderTeam team{lane - lane % size, size, warps * kWarpRamBytes + warp * kLineScanBytes};
  if (size > 1) make_line_rules(team.memory);
  if (lane >= tile.count * size) return;
  // One lane in `size` leads.
  const u32 in_tile = ~0u >> (kWarpLanes - tile.count * size);
  const LaneGroup lead{(size == kWarpLanes ? 1 : ~0u / ((1u << size) - 1)) & in_tile};

  const u32 i = tile.first + lane / size;
  if (lane == team.first) {
    u8* ram = dynamic_shared() + warp * kWarpRamBytes + lane * kWordBytes;
    step_console<Program, Lanes>(program, b, i, actions, lead, team, ram);
    if (size > 1) serve(team, b.console(i), kGo);
  } else {
    const Console c = b.console(i);
    while (serve(team, c, 0) != Served::kGone) {
    }
  }
}

}  // namespace cule
