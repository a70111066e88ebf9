// replay/transitions.hpp: reads transitions from flat memory. The native form of
// cule/replay/transitions.py, which defines cells and windows: the same numbers, bit for bit.
//
// A window is any callable that maps a column, 0 to S+n-1, to a cell; column S-1 is the timestep of
// the transition itself.
//
// Another process may write to the memory during a read. The results may then be wrong, and the
// caller discards them, but only cells that the window names are read.
#pragma once

#include <cmath>
#include <cstring>

#include "base/int.hpp"

namespace cule {

// Flags of a cell.
constexpr u8 kFirst = 1;       // its frame starts an episode
constexpr u8 kTerminated = 2;  // its action terminated the episode
constexpr u8 kTruncated = 4;
constexpr u8 kLifeLost = 8;
constexpr u8 kInvalid = 16;  // the environment ignored its action

enum class Clipping { kNone, kClip, kSign };

struct ReadRules {
  i64 stack;         // S
  bool pads_repeat;  // pad an episode's first stacks with its first frame, not with zeros
  float gamma;
  Clipping clipping;
  u8 terminal;  // flags that set the discount to 0
};

// Flat memory of cells.
struct Cells {
  u8* frames;
  u8* actions;
  float* rewards;
  u8* flags;
  size_t frame_bytes;
  size_t action_bytes;
};

// Final frames of truncated episodes; they follow the cells in the same memory.
struct Finals {
  i32* number;   // of a cell's final frame, counted from the first ever kept; -1: none
  i64* count;    // kept so far
  i64 first;     // index of the first final frame in the memory of frames
  i64 capacity;  // 0: final frames are ordinary cells
};

// Destination of one transition.
struct Transition {
  u8* obs;
  u8* action;
  float* returns;
  float* discount;
  u8* next_obs;
};

struct NStep {
  float returns;
  float discount;
  i64 num_steps;   // n, or fewer where the episode ends
  bool truncated;  // the last step truncated the episode and did not terminate it
};

// Remainder of a division that rounds down.
inline i64 floor_mod(i64 a, i64 b) {
  const i64 r = a % b;
  return r < 0 ? r + b : r;
}

inline i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0 ? 1 : 0); }

inline float shaped_reward(float reward, Clipping clipping) {
  if (clipping == Clipping::kClip) return reward < -1.0f ? -1.0f : reward > 1.0f ? 1.0f : reward;
  if (clipping == Clipping::kSign) return float((reward > 0.0f) - (reward < 0.0f));
  return reward;
}

template <class Window>
NStep n_step_return(const Cells& cells, const ReadRules& rules, i64 n_step, const Window& window) {
  NStep sum{0.0f, 1.0f, 0, false};
  const i64 now = rules.stack - 1;
  u8 flags = cells.flags[window(now)];
  for (i64 k = 0; k < n_step; ++k) {
    const float reward = shaped_reward(cells.rewards[window(now + k)], rules.clipping);
    const bool is_terminal = flags & rules.terminal;
    const float step_discount = is_terminal ? 0.0f : rules.gamma;
    // 0 + 1 * reward would lose the sign of a zero reward in the first step.
    sum.returns = k ? sum.returns + sum.discount * reward : reward;
    sum.discount = k ? sum.discount * step_discount : step_discount;
    ++sum.num_steps;
    sum.truncated = (flags & kTruncated) && !(flags & kTerminated);
    const bool is_truncated = flags & kTruncated;
    flags = cells.flags[window(now + k + 1)];
    // An episode also ends before an ignored timestep, whatever the flags before it say.
    if (is_terminal || is_truncated || (flags & kInvalid)) break;
  }
  return sum;
}

// Copies the stack whose oldest frame is in `column`. If `final_frame` is not -1, it is the index
// of the frame that replaces the newest one.
template <class Window>
void copy_stack(const Cells& cells, const ReadRules& rules, const Window& window, i64 column,
                i64 final_frame, u8* out) {
  const size_t bytes = cells.frame_bytes;
  const i64 stack = rules.stack;
  i64 start = stack - 1;
  if (final_frame >= 0 && start > 0) --start;  // a final frame starts no episode
  while (start > 0 && !(cells.flags[window(column + start)] & kFirst)) --start;
  for (i64 k = 0; k < stack; ++k, out += bytes) {
    if (k < start && !rules.pads_repeat) {
      std::memset(out, 0, bytes);
      continue;
    }
    const i64 from = k < start ? start : k;
    const i64 frame = from == stack - 1 && final_frame >= 0 ? final_frame : window(column + from);
    std::memcpy(out, cells.frames + size_t(frame) * bytes, bytes);
  }
}

// Reads one transition. Returns whether a learner can use it: the environment did not ignore its
// action, and its final frame, if any, is still in memory.
template <class Window>
bool read_transition(const Cells& cells, const Finals& finals, const ReadRules& rules, i64 n_step,
                     const Window& window, const Transition& out) {
  const i64 here = window(rules.stack - 1);
  const NStep sum = n_step_return(cells, rules, n_step, window);
  *out.returns = sum.returns;
  *out.discount = sum.discount;
  std::memcpy(out.action, cells.actions + size_t(here) * cells.action_bytes, cells.action_bytes);
  i64 final_frame = -1;
  bool is_usable = !(cells.flags[here] & kInvalid);
  if (finals.capacity && sum.truncated) {
    const i64 number = finals.number[window(rules.stack - 2 + sum.num_steps)];
    is_usable &= number >= 0 && number >= *finals.count - finals.capacity;
    final_frame = finals.first + (number < 0 ? 0 : number) % finals.capacity;
  }
  copy_stack(cells, rules, window, 0, -1, out.obs);
  copy_stack(cells, rules, window, sum.num_steps, final_frame, out.next_obs);
  return is_usable;
}

}  // namespace cule
