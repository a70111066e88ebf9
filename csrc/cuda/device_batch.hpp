// cuda/device_batch.hpp: a batch as kernels see it: sizes and device addresses.
//
// The arrays are in one block of device memory that the caller owns (cuda/device_layout.hpp lays it
// out). Consoles have the numbers that the user gives them, and an array is indexed by this number.
// Kernels never change what is marked constant.
#pragma once

#include <cuda_runtime.h>

#include "batch/options.hpp"
#include "batch/snapshot.hpp"
#include "batch/state.hpp"
#include "console/state.hpp"
#include "cuda/dot_resize.hpp"

namespace cule {

struct LaneOpcode;  // warp/lane_opcodes.hpp

// A game of the batch. Constant.
struct DeviceGame {
  Cart cart;
  ConsoleProperties properties;
  GameFacts facts;
  AleSettings ale;
  AgentOptions agent;
  const i32* objects;  // words of game/objects.hpp
  const i32* actions;  // the action set
  i32 num_actions;
  const u8* gray;                 // 256 levels
  const u8* rgb;                  // 256 x 3
  const AreaResizer* resizer;     // null with RAM observations
  const DotResizer* dot_resizer;  // likewise
  SnapshotLayout snapshot;
  u64 key;
};

// Cached reset states of one game, mode and difficulty, as snapshots. Constant.
struct ResetSet {
  const u8* snapshots;
  u32 count;
};

// The options of one console. Constant.
struct ConsoleSetup {
  u32 game;
  u32 reset_set;          // of its first modification
  u32 num_modifications;  // one of which an episode has; each has a set, in order
  i32 mode;
  i32 difficulty;
  i32 action_delay;
};

// Consoles of one game that share a warp: `count` from number `first` on. Constant.
struct Tile {
  u32 game;
  u32 first;
  u32 count;
};

constexpr u32 kMaxStepWarps = 4;  // of a block of the state-update kernel

// Which frames of a step the render kernel draws. Bits of DeviceBatch::draw_bits.
enum DrawBits : u8 {
  kDrawNewest = 1,    // the last frame of the skip
  kDrawPrevious = 2,  // the last but one
  kPreviousHeld = 4,  // the latter was put aside as pixels
  kStepped = 8,       // the console took part in the step
};

// Bits of DeviceBatch::faults: errors found in a kernel; the next call raises them.
enum DeviceFault : u32 {
  kFaultAction = 1,  // an action outside the set; taken as the set's first
  kFaultEnded = 2,   // a console whose episode has ended was stepped; it did not change
};

// What the maxpool picture of a console is made of: the maximum of logs that are kept for it, the
// maxpool picture of the cached reset state its episode began with, or pixels.
enum class MaxpoolKind : u8 { kBlank, kPixels, kLogs, kResetState };

// At most two logs of a step, and one more of a step that ended on its last frame.
constexpr u32 kMaxpoolLogs = 3;

struct MaxpoolSource {
  SharedFramebuffers shared;  // borrowed: from the reset state; lent: the logs named here
  MaxpoolKind kind;
  u8 num_logs;
  u8 log_slot[kMaxpoolLogs];
};

// Pixels for pictures that cannot stay logs (cuda/pixel_pool.hpp). Constant. A slot holds two frame
// buffers and the picture put aside (kPreviousHeld) as palette indices, and the maxpool picture.
struct PixelPool {
  u8* slots;      // [num_slots][slot_bytes]
  u8* reserve;    // [size][slot_bytes] on the host; null with a slot for every console
  u32* is_taken;  // [num_slots]
  u32 num_slots;
  u32 slot_bytes;
};

struct DeviceBatch {
  // Constant.
  i32 size;
  i32 stack_num;
  u32 frame_bytes;
  u32 channels;
  u32 layout;  // code of the snapshots' layout
  u32 snapshot_bytes;
  u32 num_logs;        // a console
  u32 log_capacity;    // entries
  u32 picture_bytes;   // of the tallest game; between the pictures of a console
  u32 maxpool_at;      // of the maxpool picture in a slot of the pool
  u32 lanes_per_warp;  // consoles that share a warp, a power of two
  float continuous_action_threshold;
  u8 grayscale;
  u8 maxpool;
  ObsKind obs;
  Autoreset autoreset;
  u32 num_players;
  i32 max_action_delay;
  const DeviceGame* games;
  const ResetSet* reset_sets;
  const ConsoleSetup* setups;  // [size]
  const LaneOpcode* opcodes;   // [kNumOpcodes]
  const u8* identity;          // [256], a map that changes nothing
  const PixelPool* pool;
  // Changing.
  SlotState* states;               // [size]
  u8* logs;                        // [size][num_logs][log_bytes(log_capacity)]
  MaxpoolSource* maxpool_sources;  // [size]
  Command* pending;                // [size][max_action_delay][num_players], delayed actions
  u8* stack;                       // [size][stack_num][frame_bytes]
  u8* draw_bits;                   // [size]
  u8* planes;                      // [blocks][2][picture_bytes], scratch
  u8* canvases;                    // [blocks][picture_bytes * channels], scratch
  u32* faults;                     // [1]

  CULE_HD bool draws() const { return obs == ObsKind::kImage; }
  __device__ const ConsoleSetup& setup(u32 i) const { return setups[i]; }
  __device__ const DeviceGame& game(u32 i) const { return games[setups[i].game]; }
  __device__ FrameMemory memory(u32 i) const {
    u8* const own_logs = logs + size_t(i) * num_logs * log_bytes(log_capacity);
    return {reinterpret_cast<TiaWriteLog*>(own_logs), nullptr, picture_bytes,
            &maxpool_sources[i].shared, log_capacity};
  }
  // Where console i has pixels.
  __device__ u8* held_picture(u32 i) const { return memory(i).picture(2); }
  __device__ u8* maxpool_pixels(u32 i) const {
    return maxpool_sources[i].shared.pixels + maxpool_at;
  }
  // A maxpool picture that is made of no logs.
  __device__ void begin_maxpool(u32 i, MaxpoolKind kind, const u8* borrowed) const {
    MaxpoolSource source{};
    source.shared = maxpool_sources[i].shared;
    source.shared.borrowed = borrowed;
    source.shared.pool = pool;
    source.shared.console = i;
    source.shared.num_logs = u8(num_logs);
    source.shared.lent_logs = 0;
    source.kind = kind;
    maxpool_sources[i] = source;
  }
  __device__ Command* pending_of(u32 i) const {
    return pending + size_t(i) * u32(max_action_delay) * num_players;
  }
  __device__ u8* frames(u32 i) const { return stack + size_t(i) * stack_num * frame_bytes; }
  __device__ Console console(u32 i) const {
    const DeviceGame& g = game(i);
    return {states[i].console, memory(i), g.cart, g.properties};
  }
};

// The actions of a step: one of the pointers, or the counter-based generator.
struct StepActions {
  const i32* indices;      // [size][num_players], into the action sets
  const float* joysticks;  // [size][4]: x, y, button value, paddle strength
  u64 random_seed;         // both pointers null: decorrelation
  i32 random_step;         // number of the step in it
  i32 random_max_steps;
};

// Memory for the results (batch/state.hpp). obs is null if no observations are wanted.
struct StepOutputs {
  u8* obs;
  u64 obs_stride;  // bytes between consoles
  i32* ints;
  u8* flags;
  u8* final_obs;  // may be null
  u64 final_obs_stride;
  i32* final_ints;  // may be null
  u32 width;
  u8 stacked;
};

}  // namespace cule
