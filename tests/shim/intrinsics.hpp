// tests/shim/intrinsics.hpp: CUDA's built-in functions that the kernels use, for a fiber of
// grid.hpp.
//
// An intrinsic that waits has its place of call as two more arguments with defaults: lanes that
// meet must have come from the same line.
#pragma once

#include <cstring>
#include <type_traits>

#include "grid.hpp"

#define CULE_SHIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace cule::shim {

// Sets the result of all lanes in mask to one value.
inline void give_all(Warp& warp, u32 mask, u32 result) {
  for (u32 rest = mask; rest != 0; rest &= rest - 1) warp.lanes[lowest(rest)].result = result;
}

inline void finish_nothing(Warp&, u32) {}

// Lanes of the mask that came with a nonzero value.
inline void finish_ballot(Warp& warp, u32 mask) {
  u32 votes = 0;
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    if (warp.lanes[lowest(rest)].value != 0) votes |= 1u << lowest(rest);
  }
  give_all(warp, mask, votes);
}

inline void finish_min(Warp& warp, u32 mask) {
  u32 least = ~0u;
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    least = std::min(least, warp.lanes[lowest(rest)].value);
  }
  give_all(warp, mask, least);
}

inline void finish_shuffle(Warp& warp, u32 mask) {
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    Wait& wait = warp.lanes[lowest(rest)];
    if ((mask >> wait.source & 1) == 0) {
      grid().fail("a shuffle reads from a lane that the mask does not name", &wait);
    }
    wait.result = warp.lanes[wait.source].value;
  }
}

inline void finish_or(Warp& warp, u32 mask) {
  u32 bits = 0;
  for (u32 rest = mask; rest != 0; rest &= rest - 1) bits |= warp.lanes[lowest(rest)].value;
  give_all(warp, mask, bits);
}

inline constexpr Call kSyncthreads{"__syncthreads", nullptr};
inline constexpr Call kSyncwarp{"__syncwarp", finish_nothing};
inline constexpr Call kBallot{"__ballot_sync", finish_ballot};
inline constexpr Call kAny{"__any_sync", finish_ballot};
inline constexpr Call kReduceMin{"__reduce_min_sync", finish_min};
inline constexpr Call kReduceOr{"__reduce_or_sync", finish_or};
inline constexpr Call kShuffle{"__shfl_sync", finish_shuffle};

}  // namespace cule::shim

inline void __syncthreads(CULE_SHIM_HERE) {
  cule::shim::grid().barrier(cule::shim::kSyncthreads, file, line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CULE_SHIM_HERE) {
  cule::shim::grid().collect(cule::shim::kSyncwarp, mask, 0, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CULE_SHIM_HERE) {
  return cule::shim::grid().collect(cule::shim::kBallot, mask, predicate != 0, file, line);
}
inline int __any_sync(unsigned mask, int predicate, CULE_SHIM_HERE) {
  return cule::shim::grid().collect(cule::shim::kAny, mask, predicate != 0, file, line) != 0;
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, CULE_SHIM_HERE) {
  return cule::shim::grid().collect(cule::shim::kReduceMin, mask, value, file, line);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, CULE_SHIM_HERE) {
  return cule::shim::grid().collect(cule::shim::kReduceOr, mask, value, file, line);
}
// A number of 4 or 8 bytes; the latter is two exchanges, as on a GPU.
template <class Value>
Value __shfl_sync(unsigned mask, Value value, int source, CULE_SHIM_HERE) {
  static_assert(std::is_arithmetic_v<Value> && (sizeof value == 4 || sizeof value == 8));
  unsigned words[sizeof value / 4];
  std::memcpy(words, &value, sizeof value);
  for (unsigned& word : words) {
    word = cule::shim::grid().collect(cule::shim::kShuffle, mask, word, file, line,
                                      static_cast<unsigned>(source) % cule::shim::kLanes);
  }
  std::memcpy(&value, words, sizeof value);
  return value;
}
#undef CULE_SHIM_HERE

// A kernel must not rely on which lanes are active: this does not compile here.
unsigned __activemask() = delete;

// One thread runs at a time and none is interrupted: every access is atomic, and seen by all.
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* at, unsigned value) { return std::exchange(*at, *at + value); }
inline unsigned atomicExch(unsigned* at, unsigned value) { return std::exchange(*at, value); }
inline unsigned atomicOr(unsigned* at, unsigned value) { return std::exchange(*at, *at | value); }
