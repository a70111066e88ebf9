// replay/ring.hpp: the ring of time rows of N environments. The native form of
// cule/replay/ring.py, which says how its memory is laid out; rows.hpp says what a row is.
#pragma once

#include "replay/rows.hpp"

namespace cule {

struct Ring {
  Rows rows;
  Finals finals;
  i64* head;  // newest row, counted from 0 and never wrapped
  i64 num_envs;
  i64 num_rows;
  i64 num_slots;       // rows of memory: one more
  bool ignores_first;  // a step that shows the first frame of an episode ignored its action
};

// The window of a row of one environment. Columns go from S-1 rows before it.
struct RingWindow {
  i64 slot;  // of column 0
  i64 num_slots;
  i64 num_envs;
  i64 env;

  i64 operator()(i64 column) const {
    i64 s = slot + column;
    while (s >= num_slots) s -= num_slots;
    return s * num_envs + env;
  }
};

inline RingWindow window_of(const Ring& ring, i64 row, i64 env, i64 stack) {
  const i64 first = i64(u64(row) - u64(stack - 1));
  return {floor_mod(first, ring.num_slots), ring.num_slots, ring.num_envs, env};
}

// Rows that can be sampled are `oldest` to `newest`: those whose whole window is in the ring.
struct ValidRows {
  i64 oldest;
  i64 newest;
  i64 count;  // transitions

  bool contains(i64 row) const { return row >= oldest && row <= newest; }
};

inline ValidRows valid_rows(const Ring& ring, i64 stack, i64 n_step) {
  const i64 first = *ring.head - (ring.num_rows - stack);
  const i64 oldest = first < 0 ? 0 : first;
  const i64 newest = *ring.head - n_step;
  return {oldest, newest, (newest - oldest + 1) * ring.num_envs};
}

// Row of flat memory of a transition's id. It is that of another transition once it has left.
inline i64 cell_of(const Ring& ring, i64 id) {
  const i64 slot = floor_mod(floor_div(id, ring.num_envs), ring.num_slots);
  return slot * ring.num_envs + floor_mod(id, ring.num_envs);
}

// Id of the transition in a row of flat memory: the newest row of its slot.
inline i64 id_of(const Ring& ring, i64 cell) {
  const i64 last = ring.num_slots - 1, wanted = cell / ring.num_envs;
  const i64 slot = wanted < last ? wanted : last;
  const i64 row = *ring.head - floor_mod(*ring.head - slot, ring.num_slots);
  return row * ring.num_envs + cell % ring.num_envs;
}

// Id of any of the transitions that can be sampled, from a number from 0 to below 1.
inline i64 uniform_id(const Ring& ring, const ValidRows& valid, double uniform) {
  const i64 position = i64(uniform * double(valid.count));
  return valid.oldest * ring.num_envs + (position < valid.count ? position : valid.count - 1);
}

// T steps of all environments, [T, N, ...]. Frames that are null are in place already, final
// frames that are null are not kept.
struct StepBlock {
  i64 num_steps;
  const u8* frames;
  const u8* actions;
  const float* rewards;
  const bool* terminated;
  const bool* truncated;
  const bool* life_lost;
  const bool* first;
  const u8* final_frames;
};

// Gives the final frames of truncated episodes places by their running number.
inline void keep_finals(const Ring& ring, const StepBlock& steps) {
  const i64 cells = steps.num_steps * ring.num_envs;
  i64 count = *ring.finals.count;
  for (i64 k = 0; k < cells; ++k) count += steps.truncated[k] && !steps.terminated[k];
  i64 number = *ring.finals.count;
  for (i64 k = 0; k < cells; ++k) {
    const i64 slot = (*ring.head + k / ring.num_envs) % ring.num_slots;
    i32& kept = ring.finals.number[slot * ring.num_envs + k % ring.num_envs];
    kept = -1;
    if (!steps.truncated[k] || steps.terminated[k]) continue;
    kept = i32(number);
    if (number >= count - ring.finals.capacity) {
      const i64 place = ring.finals.first + number % ring.finals.capacity;
      std::memcpy(ring.rows.frames + size_t(place) * ring.rows.frame_bytes,
                  steps.final_frames + size_t(k) * ring.rows.frame_bytes, ring.rows.frame_bytes);
    }
    ++number;
  }
  *ring.finals.count = count;
}

// Completes row `head` and the rows after it, and stores the frames that follow.
inline void write_steps(const Ring& ring, const StepBlock& steps) {
  const i64 n = ring.num_envs;
  const Rows& rows = ring.rows;
  if (ring.finals.capacity && steps.final_frames) keep_finals(ring, steps);
  for (i64 t = 0; t < steps.num_steps; ++t) {
    const i64 slot = (*ring.head + t) % ring.num_slots;
    const i64 next_slot = (*ring.head + t + 1) % ring.num_slots;
    u8* flags = rows.flags + slot * n;
    for (i64 e = 0; e < n; ++e) {
      const i64 k = t * n + e;
      u32 bits = t ? steps.first[k - n] * kFirst : flags[e] & kFirst;
      bits |= steps.terminated[k] * kTerminated | steps.truncated[k] * kTruncated;
      bits |= steps.life_lost[k] * kLifeLost;
      if (ring.ignores_first) bits |= steps.first[k] * kInvalid;
      flags[e] = u8(bits);
    }
    const auto copy_row = [n](void* to, const void* from, i64 row, i64 source, size_t bytes) {
      std::memcpy(static_cast<u8*>(to) + size_t(row * n) * bytes,
                  static_cast<const u8*>(from) + size_t(source * n) * bytes, size_t(n) * bytes);
    };
    copy_row(rows.actions, steps.actions, slot, t, rows.action_bytes);
    copy_row(rows.rewards, steps.rewards, slot, t, sizeof(float));
    if (steps.frames) copy_row(rows.frames, steps.frames, next_slot, t, rows.frame_bytes);
    if (t + 1 == steps.num_steps) {
      for (i64 e = 0; e < n; ++e) rows.flags[next_slot * n + e] = steps.first[t * n + e] * kFirst;
    }
  }
  *ring.head += steps.num_steps;
}

}  // namespace cule
