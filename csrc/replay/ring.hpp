// replay/ring.hpp: the ring of timesteps of N environments. The native form of cule/replay/ring.py,
// which describes the layout of its memory.
#pragma once

#include "replay/transitions.hpp"

namespace cule {

struct Ring {
  Cells cells;
  Finals finals;
  i64* head;  // newest timestep, counted from 0 and never wrapped
  i64 num_envs;
  i64 num_timesteps;
  i64 num_slots;       // num_timesteps + 1
  bool ignores_first;  // a step that shows the first frame of an episode ignored its action
};

// Window of a transition in the ring.
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

inline RingWindow window_of(const Ring& ring, i64 timestep, i64 env, i64 stack) {
  const i64 first = i64(u64(timestep) - u64(stack - 1));
  return {floor_mod(first, ring.num_slots), ring.num_slots, ring.num_envs, env};
}

// Timesteps whose whole window is in the ring.
struct ValidRange {
  i64 oldest;
  i64 newest;
  i64 count;  // transitions

  bool contains(i64 timestep) const { return timestep >= oldest && timestep <= newest; }
};

inline ValidRange valid_range(const Ring& ring, i64 stack, i64 n_step) {
  const i64 first = *ring.head - (ring.num_timesteps - stack);
  const i64 oldest = first < 0 ? 0 : first;
  const i64 newest = *ring.head - n_step;
  return {oldest, newest, (newest - oldest + 1) * ring.num_envs};
}

// Cell of a transition; once the transition has left the ring, another one uses the cell.
inline i64 cell_of(const Ring& ring, i64 id) {
  const i64 slot = floor_mod(floor_div(id, ring.num_envs), ring.num_slots);
  return slot * ring.num_envs + floor_mod(id, ring.num_envs);
}

// Id of the transition in a cell: that of the newest timestep of its slot.
inline i64 id_of(const Ring& ring, i64 cell) {
  const i64 last = ring.num_slots - 1, wanted = cell / ring.num_envs;
  const i64 slot = wanted < last ? wanted : last;
  const i64 timestep = *ring.head - floor_mod(*ring.head - slot, ring.num_slots);
  return timestep * ring.num_envs + cell % ring.num_envs;
}

// Maps a number in [0, 1) to the id of one of the valid transitions.
inline i64 uniform_id(const Ring& ring, const ValidRange& valid, double uniform) {
  const i64 position = i64(uniform * double(valid.count));
  return valid.oldest * ring.num_envs + (position < valid.count ? position : valid.count - 1);
}

// T steps of all environments, [T, N, ...]. If `frames` is null, they are in place already; if
// `final_frames` is null, none are kept.
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

// Whether a first frame of an episode comes where none can: it can come in the step in which an
// episode ended or, where that step shows its last frame, in the next.
inline bool has_misplaced_first(const Ring& ring, const StepBlock& steps) {
  const i64 n = ring.num_envs;
  const u8* before = ring.cells.flags + floor_mod(*ring.head - 1, ring.num_slots) * n;
  for (i64 k = 0; k < steps.num_steps * n; ++k) {
    if (!steps.first[k]) continue;
    const i64 end = ring.ignores_first ? k - n : k;
    const bool ended = end < 0 ? (before[k] & (kTerminated | kTruncated)) != 0
                               : steps.terminated[end] || steps.truncated[end];
    if (!ended) return true;
  }
  return false;
}

// Stores the final frames of truncated episodes, each at its running number.
inline void keep_finals(const Ring& ring, const StepBlock& steps) {
  const i64 size = steps.num_steps * ring.num_envs;
  i64 count = *ring.finals.count;
  for (i64 k = 0; k < size; ++k) count += steps.truncated[k] && !steps.terminated[k];
  i64 number = *ring.finals.count;
  for (i64 k = 0; k < size; ++k) {
    const i64 slot = (*ring.head + k / ring.num_envs) % ring.num_slots;
    i32& kept = ring.finals.number[slot * ring.num_envs + k % ring.num_envs];
    kept = -1;
    if (!steps.truncated[k] || steps.terminated[k]) continue;
    kept = i32(number);
    if (number >= count - ring.finals.capacity) {
      const i64 place = ring.finals.first + number % ring.finals.capacity;
      std::memcpy(ring.cells.frames + size_t(place) * ring.cells.frame_bytes,
                  steps.final_frames + size_t(k) * ring.cells.frame_bytes, ring.cells.frame_bytes);
    }
    ++number;
  }
  *ring.finals.count = count;
}

// Completes timestep `head` and those after it, and stores the frames that follow.
inline void write_steps(const Ring& ring, const StepBlock& steps) {
  const i64 n = ring.num_envs;
  const Cells& cells = ring.cells;
  if (ring.finals.capacity && steps.final_frames) keep_finals(ring, steps);
  for (i64 t = 0; t < steps.num_steps; ++t) {
    const i64 slot = (*ring.head + t) % ring.num_slots;
    const i64 next_slot = (*ring.head + t + 1) % ring.num_slots;
    u8* flags = cells.flags + slot * n;
    for (i64 e = 0; e < n; ++e) {
      const i64 k = t * n + e;
      u32 bits = t ? steps.first[k - n] * kFirst : flags[e] & kFirst;
      bits |= steps.terminated[k] * kTerminated | steps.truncated[k] * kTruncated;
      bits |= steps.life_lost[k] * kLifeLost;
      if (ring.ignores_first) bits |= steps.first[k] * kInvalid;
      flags[e] = u8(bits);
    }
    const auto copy_slot = [n](void* to, const void* from, i64 target, i64 source, size_t bytes) {
      std::memcpy(static_cast<u8*>(to) + size_t(target * n) * bytes,
                  static_cast<const u8*>(from) + size_t(source * n) * bytes, size_t(n) * bytes);
    };
    copy_slot(cells.actions, steps.actions, slot, t, cells.action_bytes);
    copy_slot(cells.rewards, steps.rewards, slot, t, sizeof(float));
    if (steps.frames) copy_slot(cells.frames, steps.frames, next_slot, t, cells.frame_bytes);
    if (t + 1 == steps.num_steps) {
      for (i64 e = 0; e < n; ++e) cells.flags[next_slot * n + e] = steps.first[t * n + e] * kFirst;
    }
  }
  *ring.head += steps.num_steps;
}

}  // namespace cule
