// cuda/step_kernel.hpp: the state-update kernel: every frame of one agent step, no pixels.
//
// One warp a tile, one lane a console; lanes beyond the tile's count help to render, or are idle.
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
    if (!b.maxpool || !b.draws()) return;
    draw_bits |= kDrawPrevious;
    // The next frame step continues in the same buffer.
    if (console.s.is_unfinished) hold();
  }
  __device__ void newest() {
    if (b.draws()) draw_bits |= kDrawNewest;
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

// The action of an index from the user.
__device__ inline i32 action_of(const DeviceBatch& b, const DeviceGame& g, i32 index) {
  if (index < 0 || index >= g.num_actions) {
    atomicOr(b.faults, u32(kFaultAction));
    index = 0;
  }
  return g.actions[index];
}

// What the players of a console do.
template <u32 kPlayers>
struct LaneActions {
  Commands<kPlayers> commands;
  bool is_given;  // decorrelation gives some consoles fewer steps
};

template <u32 kPlayers>
__device__ inline LaneActions<kPlayers> read_actions(const DeviceBatch& b, const DeviceGame& g,
                                                     const StepActions& a, u32 i) {
  LaneActions<kPlayers> read{{}, true};
  auto& of = read.commands.of;
  if (a.joysticks != nullptr) {
    const float* j = a.joysticks + 4 * i;
    of[0] = {action_from_joystick(j[0], j[1], j[2], b.continuous_action_threshold), j[3]};
    return read;
  }
  if (a.indices == nullptr) {
    const u32 length = counter_random(a.random_seed, i, 0, Purpose::kDecorrelateLength);
    read.is_given = a.random_step < i32(u64(length) * u64(a.random_max_steps + 1) >> 32);
  }
  const u32 num_players = kPlayers == 1 ? 1 : b.num_players;
  for (u32 player = 0; player < kPlayers; ++player) {
    of[player] = {kNoop, 1.0f};
    if (player >= num_players) continue;
    if (a.indices != nullptr) {
      of[player].action = action_of(b, g, a.indices[size_t(i) * num_players + player]);
    } else {
      const u32 choice = counter_random(a.random_seed, i, u64(a.random_step) * num_players + player,
                                        Purpose::kDecorrelateAction);
      of[player].action = g.actions[u64(choice) * u64(g.num_actions) >> 32];
    }
  }
  return read;
}

// Three blocks of four warps on a multiprocessor; the registers spilled for that are spilled
// outside the instruction loop.
constexpr u32 kStepBlocks = 3;

// All lanes of the warp call it together: callers with a console of their own, helpers with any of
// the same game. Renders what callers ask for, one after the other; a log has the work of all
// lanes.
__device__ CULE_NOINLINE inline Served serve(const RenderTeam& team, const Console& c,
                                             u32 request) {
  const Team<WholeWarp> lanes;
  lanes.sync();
  if (lanes.any(request == kGo)) return Served::kGone;
  Served served = Served::kNotRendered;
  for (u32 askers = lanes.ballot(request != kNothing); askers != 0; askers &= askers - 1) {
    const u32 asker = lowest_bit(askers);
    auto& state = *reinterpret_cast<ConsoleState*>(lanes.take_from64(u64(&c.s), asker));
    FrameMemory memory = c.memory;
    memory.logs = reinterpret_cast<TiaWriteLog*>(lanes.take_from64(u64(memory.logs), asker));
    const Console console{state, memory, c.cart, c.properties};
    const TiaWriteLog& log = memory.log(state.picture.recording_slot);
    const RenderRequest asked{lanes.take_from(request, asker)};
    const Rendered rendered = render_together(lanes, console, log, asked, team.memory);
    if (lanes.lane() == asker && rendered.is_rendered) {
      served = rendered.has_cleared ? Served::kRenderedWithClear : Served::kRendered;
    }
  }
  return served;
}

// Whether console i takes part in the step.
__device__ CULE_INLINE bool begin_step(const DeviceBatch& b, u32 i, bool is_given) {
  const SlotState& s = b.states[i];
  // An ended console is reset afterwards; without autoreset, the caller must reset it.
  if (s.is_ended && b.autoreset == Autoreset::kDisabled) {
    atomicOr(b.faults, u32(kFaultEnded));
  }
  const bool steps = is_given && !s.is_ended;
  if (!steps) b.draw_bits[i] = 0;
  return steps;
}

// The step of console i, in the lane that has it. `all` are the lanes of the warp that step one.
template <class Program, class Lanes, u32 kPlayers>
__device__ CULE_INLINE void step_console(const Program& program, const DeviceBatch& b, u32 i,
                                         const Commands<kPlayers>& commands, const Lanes& all,
                                         bool has_helpers, u32 scan_memory, u8* ram) {
  const DeviceGame& g = b.game(i);
  SlotState& s = b.states[i];
  using Engine = LaneEngine<Program, Lanes>;
  BasicAle<Engine, kPlayers> ale{{s.console, b.memory(i), g.cart, g.properties},
                                 s.env,
                                 nullptr,
                                 g.facts,
                                 g.ale,
                                 {false, s.seed},
                                 Engine{{ram}, has_helpers, scan_memory, program, all, all}};
  ale.pending = b.pending_of(i);
  FrameMarker marker{b, i, ale.console};
  step_agent(ale, s.agent, g.agent, commands, marker);
  s.is_ended = is_ended(s.agent, g.agent);
  s.reported = s.agent;
  b.draw_bits[i] = marker.draw_bits;
}

// The body of the kernel. Program executes instructions (LaneEngine); Lanes is how those of a warp
// vote; with at most `kMost` consoles a warp, all its lanes render their logs. kPlayers: at most,
// in an environment; a single player's kernel contains nothing of the others.
template <class Program, class Lanes, u32 kMost, u32 kPlayers = 1>
__device__ inline void step_consoles(const Program& program, const DeviceBatch& b,
                                     const Tile* tiles, u32 num_tiles, const StepActions& actions) {
  const u32 warps = blockDim.x / kWarpLanes;
  const u32 warp = threadIdx.x / kWarpLanes;
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 t = blockIdx.x * warps + warp;
  if (t >= num_tiles) return;
  const Tile tile = tiles[t];
  const bool has_helpers = kMost != 0 && b.lanes_per_warp <= kMost;
  const u32 memory = warps * kWarpRamBytes + warp * kLineScanBytes;
  const bool has_console = lane < tile.count;
  if (!has_console && !has_helpers) return;
  if (has_helpers) make_line_rules(memory);
  const LaneGroup here{has_helpers ? ~0u : ~0u >> (kWarpLanes - tile.count)};

  const u32 i = tile.first + (has_console ? lane : 0);
  LaneActions<kPlayers> read{};
  bool steps = false;
  if (has_console) {
    read = read_actions<kPlayers>(b, b.game(i), actions, i);
    steps = begin_step(b, i, read.is_given);
  }
  const u32 stepping = here.ballot(steps);
  if (stepping == 0) return;
  const RenderTeam team{kNeverAsks, true, true, memory};
  if (steps) {
    u8* ram = dynamic_shared() + warp * kWarpRamBytes + lane * kWordBytes;
    step_console(program, b, i, read.commands, Lanes{stepping}, has_helpers, memory, ram);
    if (has_helpers) serve(team, b.console(i), kGo);
  } else if (has_helpers) {
    const Console c = b.console(i);
    while (serve(team, c, kNothing) != Served::kGone) {
    }
  }
}

}  // namespace cule
