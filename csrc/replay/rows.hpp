// replay/rows.hpp: rows of steps in flat memory, and what a row means. The native form of
// cule/replay/gather.py, for memory that the processor reads itself: the same numbers, bit for bit.
//
// A row holds the frame shown before an action, then action, reward and flags of the step it led
// to. The rows t-S+1 ... t+n of one environment are the window of the transition that begins in row
// t: S frames of a stack, n steps of a return. A window is anything that maps a column, 0 to S+n-1,
// to a row of flat memory; column S-1 is row t itself.
//
// Memory may be shared with a process that is writing to it. Whatever is read here can change
// between two looks at it: results may be wrong then (and are thrown away by the caller), but no
// row is read that the window does not name.
#pragma once

#include <cmath>
#include <cstring>

#include "base/int.hpp"

namespace cule {

// Flags of a row.
constexpr u8 kFirst = 1;       // its frame starts an episode
constexpr u8 kTerminated = 2;  // by its action
constexpr u8 kTruncated = 4;
constexpr u8 kLifeLost = 8;
constexpr u8 kInvalid = 16;  // nothing happened in it: the environment ignored its action

enum class Clipping { kNone, kClip, kSign };

// How rows are read.
struct ReadRules {
  i64 stack;         // S
  bool pads_repeat;  // before an episode stands its first frame, not zeros
  float gamma;
  Clipping clipping;
  u8 terminal;  // flags after which nothing counts
};

// Flat memory of rows.
struct Rows {
  u8* frames;
  u8* actions;
  float* rewards;
  u8* flags;
  size_t frame_bytes;
  size_t action_bytes;
};

// Final frames of truncated episodes, kept behind the rows of the same memory.
struct Finals {
  i32* number;   // of a row's final frame, counted from the first ever kept; -1: none
  i64* count;    // kept so far
  i64 first;     // row of flat memory that the first place is
  i64 capacity;  // places; 0: final frames are ordinary rows
};

// Where the parts of one transition go.
struct Transition {
  u8* obs;
  u8* action;
  float* returns;
  float* discount;
  u8* next_obs;
};

// What the n steps of a window add up to.
struct NStep {
  float returns;
  float discount;
  i64 num_steps;   // n, or up to the end of the episode
  bool truncated;  // the last of them was truncated, and not terminated
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
NStep n_step_return(const Rows& rows, const ReadRules& rules, i64 n_step, const Window& window) {
  NStep sum{0.0f, 1.0f, 0, false};
  const i64 now = rules.stack - 1;
  u8 flags = rows.flags[window(now)];
  for (i64 k = 0; k < n_step; ++k) {
    const float reward = shaped_reward(rows.rewards[window(now + k)], rules.clipping);
    const bool is_terminal = flags & rules.terminal;
    const float step_discount = is_terminal ? 0.0f : rules.gamma;
    // The first step is taken as it is: 0 + 1 * reward would lose the sign of a zero.
    sum.returns = k ? sum.returns + sum.discount * reward : reward;
    sum.discount = k ? sum.discount * step_discount : step_discount;
    ++sum.num_steps;
    sum.truncated = (flags & kTruncated) && !(flags & kTerminated);
    const bool is_truncated = flags & kTruncated;
    flags = rows.flags[window(now + k + 1)];
    // An episode also ends before a row that was ignored, whether or not anything says why.
    if (is_terminal || is_truncated || (flags & kInvalid)) break;
  }
  return sum;
}

// Copies the stack whose oldest frame is in a column. `final_row` is the row to take the newest
// frame from in place of the window's; -1: none.
template <class Window>
void copy_stack(const Rows& rows, const ReadRules& rules, const Window& window, i64 column,
                i64 final_row, u8* out) {
  const size_t bytes = rows.frame_bytes;
  const i64 stack = rules.stack;
  i64 start = stack - 1;
  if (final_row >= 0 && start > 0) --start;  // a final frame starts no episode
  while (start > 0 && !(rows.flags[window(column + start)] & kFirst)) --start;
  for (i64 k = 0; k < stack; ++k, out += bytes) {
    if (k < start && !rules.pads_repeat) {
      std::memset(out, 0, bytes);
      continue;
    }
    const i64 from = k < start ? start : k;
    const i64 row = from == stack - 1 && final_row >= 0 ? final_row : window(column + from);
    std::memcpy(out, rows.frames + size_t(row) * bytes, bytes);
  }
}

// Reads the transition that begins in column S-1 of a window. Returns whether it can be learnt
// from: the row is a real step, and its final frame, if there is one, has not been overwritten.
template <class Window>
bool read_transition(const Rows& rows, const Finals& finals, const ReadRules& rules, i64 n_step,
                     const Window& window, const Transition& out) {
  const i64 here = window(rules.stack - 1);
  const NStep sum = n_step_return(rows, rules, n_step, window);
  *out.returns = sum.returns;
  *out.discount = sum.discount;
  std::memcpy(out.action, rows.actions + size_t(here) * rows.action_bytes, rows.action_bytes);
  i64 final_row = -1;
  bool is_usable = !(rows.flags[here] & kInvalid);
  if (finals.capacity && sum.truncated) {
    const i64 number = finals.number[window(rules.stack - 2 + sum.num_steps)];
    is_usable &= number >= 0 && number >= *finals.count - finals.capacity;
    final_row = finals.first + (number < 0 ? 0 : number) % finals.capacity;
  }
  copy_stack(rows, rules, window, 0, -1, out.obs);
  copy_stack(rows, rules, window, sum.num_steps, final_row, out.next_obs);
  return is_usable;
}

}  // namespace cule
