// cuda/device_batch.hpp: a batch as kernels see it: sizes, and where everything lies on the device.
//
// All of it is one block of device memory that the caller owns (cuda/device_layout.hpp lays it
// out). Consoles are numbered as the user numbers them; the arrays of a console are found by its
// number. Kernels never change what is marked constant.
#pragma once

#include <cuda_runtime.h>

#include "batch/options.hpp"
#include "batch/snapshot.hpp"
#include "batch/state.hpp"
#include "obs/resize.hpp"
#include "tia/lines.hpp"

namespace cule {

// A game of the batch. Constant.
struct DeviceGame {
  Cart cart;
  ConsoleProperties properties;
  GameFacts facts;
  AleSettings ale;
  AgentOptions agent;
  const i32* actions;  // the action set
  i32 num_actions;
  const u8* gray;              // 256 levels
  const u8* rgb;               // 256 x 3
  const AreaResizer* resizer;  // null with RAM observations
  SnapshotLayout snapshot;
  u64 key;
};

// Cached reset states of one game, mode and difficulty, as rows. Constant.
struct ResetSet {
  const u8* rows;
  u32 count;
};

// How a console was set up. Constant.
struct ConsoleSetup {
  u32 game;
  u32 reset_set;
  i32 mode;
  i32 difficulty;
};

// Consoles of one game that share a warp: `count` from number `first` on. Constant.
struct Tile {
  u32 game;
  u32 first;
  u32 count;
};

// What a step leaves for the drawing of a console. Bits of DeviceBatch::captures.
enum Capture : u8 {
  kCaptureNewest = 1,    // the last frame of the skip is on the screen
  kCapturePrevious = 2,  // the last but one was
  kCaptureHeld = 4,      // that one was put aside as pixels
  kCaptureStepped = 8,   // the console took part
};

// Bits of DeviceBatch::faults: what went wrong in a kernel, for the next call that looks.
enum DeviceFault : u32 {
  kFaultAction = 1,  // an action outside the set; taken as the set's first
  kFaultEnded = 2,   // a console whose episode has ended was stepped, and stood still
};

// What the pooled picture of a console is made of: the maximum of logs that are kept for it, the
// pooled picture of the cached reset state its episode began with, or pixels.
enum class PooledKind : u8 { kBlank, kPixels, kLogs, kCached };

// Most logs of a pooled picture: two of a step, one more of a step that ended on its last frame.
constexpr u32 kMaxPooledLogs = 3;

struct PooledPicture {
  SharedFramebuffers shared;  // borrowed: from the reset state; lent: the logs that are named here
  PooledKind kind;
  u8 num_logs;
  u8 log_slot[kMaxPooledLogs];
};

// Lines of a picture that are gone over together when their starts are looked for (cuda/draw.hpp).
constexpr u32 kBandLines = 16;
constexpr u32 kMaxBands = (kMaxRows + kBandLines - 1) / kBandLines;

struct DeviceBatch {
  // Constant.
  i32 size;
  i32 stack_num;
  u32 frame_bytes;
  u32 channels;
  u32 layout;  // code of the rows
  u32 snapshot_bytes;
  u32 num_logs;         // a console
  u32 picture_bytes;    // of the tallest game; between the pictures of a console
  u32 spill_bytes;      // a console
  u32 spill_pooled_at;  // in these
  float continuous_action_threshold;
  u8 grayscale;
  u8 maxpool;
  u8 ram_obs;
  Autoreset autoreset;
  const DeviceGame* games;
  const ResetSet* reset_sets;
  const ConsoleSetup* setups;  // [size]
  const u32* micro_ops;        // [256]
  const u8* identity;          // [256], a map that changes nothing
  // Changing.
  SlotState* states;       // [size]
  TiaWriteLog* logs;       // [size][num_logs]
  PooledPicture* pooled;   // [size]
  u8* stack;               // [size][stack_num][frame_bytes]
  u8* captures;            // [size]
  LineStart* bands;        // [size][2][kMaxBands], of the newest picture and the one before
  LineStart* line_starts;  // [blocks][kMaxPooledLogs][kMaxRows], scratch
  u8* canvases;            // [blocks][picture_bytes * channels], scratch
  u32* faults;             // [1]
  // Written where a picture cannot stay a log, which most consoles never need: two frame buffers
  // and the last but one picture where it would be drawn over, as palette indices, and the pooled
  // picture. In memory that takes no place before.
  u8* spill;  // [size][spill_bytes]

  __device__ LineStart* bands_of(u32 i, u32 n) const {
    return bands + (size_t(i) * 2 + n) * kMaxBands;
  }
  __device__ const ConsoleSetup& setup(u32 i) const { return setups[i]; }
  __device__ const DeviceGame& game(u32 i) const { return games[setups[i].game]; }
  __device__ FrameMemory memory(u32 i) const {
    FrameMemory m{logs + size_t(i) * num_logs, spill_memory(i), picture_bytes};
    m.shared = &pooled[i].shared;
    return m;
  }
  __device__ u8* spill_memory(u32 i) const { return spill + size_t(i) * spill_bytes; }
  __device__ u8* held_picture(u32 i) const { return spill_memory(i) + 2 * picture_bytes; }
  __device__ u8* spill_pooled(u32 i) const { return spill_memory(i) + spill_pooled_at; }
  __device__ u8* frames(u32 i) const { return stack + size_t(i) * stack_num * frame_bytes; }
  __device__ Console console(u32 i) const {
    const DeviceGame& g = game(i);
    return {states[i].console, memory(i), g.cart, g.properties};
  }
};

// Where the actions of a step come from: one of the pointers, or the counter-based generator.
struct StepActions {
  const i32* indices;      // [size], into the action sets
  const float* joysticks;  // [size][4]: x, y, button value, paddle strength
  u64 random_seed;         // of both pointers null: decorrelation
  i32 random_step;         // which step of it this is
  i32 random_max_steps;
};

// Where results go (batch/state.hpp); obs may be null where nobody wants them.
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
