// tests/shim/intrinsics.hpp: CUDA's built-in functions, for a fiber of grid.hpp.
//
// Every intrinsic that waits takes the place it is called from as two more arguments, which are
// left to their defaults: lanes that meet must have come from the same line. Overloads are those of
// CUDA, so that what is ambiguous there is ambiguous here.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "grid.hpp"

#define CULE_SHIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace cule::shim {

template <class T>
u64 bits_of(T value) {
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T value_of(u64 bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Sets the result of all lanes in mask to one value.
inline void give_all(Warp& warp, u32 mask, u64 result) {
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

inline void finish_match(Warp& warp, u32 mask) {
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    u32 same = 0;
    for (u32 others = mask; others != 0; others &= others - 1) {
      if (warp.lanes[lowest(others)].value == warp.lanes[lowest(rest)].value) {
        same |= 1u << lowest(others);
      }
    }
    warp.lanes[lowest(rest)].result = same;
  }
}

// Source lanes of the four shuffles: PTX ISA, shfl.sync. Beyond the segment a lane keeps its own.
struct FromIndex {
  static u32 source(u32 lane, u32 index, u32 width) {
    return (lane & ~(width - 1)) | (index & (width - 1));
  }
};
struct FromBelow {
  static u32 source(u32 lane, u32 distance, u32 width) {
    return (lane & (width - 1)) < distance ? lane : lane - distance;
  }
};
struct FromAbove {
  static u32 source(u32 lane, u32 distance, u32 width) {
    return (lane & (width - 1)) + distance >= width ? lane : lane + distance;
  }
};
struct FromXor {
  static u32 source(u32 lane, u32 bits, u32 width) {
    return (lane ^ bits) > (lane | (width - 1)) ? lane : lane ^ bits;
  }
};

template <class From>
void finish_shuffle(Warp& warp, u32 mask) {
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    const u32 lane = lowest(rest);
    Wait& wait = warp.lanes[lane];
    const u32 source = From::source(lane, wait.extra & (kLanes - 1), wait.width);
    if ((mask >> source & 1u) == 0) {
      grid().fail("lane " + std::to_string(lane) + " reads from lane " + std::to_string(source) +
                      ", which the mask does not name",
                  &wait);
    }
    wait.result = warp.lanes[source].value;
  }
}

template <class T, class Operation>
void finish_reduce(Warp& warp, u32 mask) {
  T total = value_of<T>(warp.lanes[lowest(mask)].value);
  for (u32 rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
    total = Operation::of(total, value_of<T>(warp.lanes[lowest(rest)].value));
  }
  give_all(warp, mask, bits_of(total));
}

struct Add {
  static u32 of(u32 a, u32 b) { return a + b; }
};
struct Min {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};
struct And {
  static u32 of(u32 a, u32 b) { return a & b; }
};
struct Or {
  static u32 of(u32 a, u32 b) { return a | b; }
};
struct Xor {
  static u32 of(u32 a, u32 b) { return a ^ b; }
};

inline constexpr Call kSyncthreads{"__syncthreads", nullptr};
inline constexpr Call kSyncthreadsCount{"__syncthreads_count", nullptr};
inline constexpr Call kSyncthreadsOr{"__syncthreads_or", nullptr};
inline constexpr Call kSyncthreadsAnd{"__syncthreads_and", nullptr};
inline constexpr Call kSyncwarp{"__syncwarp", finish_nothing};
inline constexpr Call kBallot{"__ballot_sync", finish_ballot};
inline constexpr Call kAny{"__any_sync", finish_ballot};
inline constexpr Call kAll{"__all_sync", finish_ballot};
inline constexpr Call kMatchAny{"__match_any_sync", finish_match};
inline constexpr Call kShuffle{"__shfl_sync", finish_shuffle<FromIndex>};
inline constexpr Call kShuffleUp{"__shfl_up_sync", finish_shuffle<FromBelow>};
inline constexpr Call kShuffleDown{"__shfl_down_sync", finish_shuffle<FromAbove>};
inline constexpr Call kShuffleXor{"__shfl_xor_sync", finish_shuffle<FromXor>};
template <class T>
inline constexpr Call kReduceAdd{"__reduce_add_sync", finish_reduce<u32, Add>};
template <class T>
inline constexpr Call kReduceMin{"__reduce_min_sync", finish_reduce<T, Min>};
template <class T>
inline constexpr Call kReduceMax{"__reduce_max_sync", finish_reduce<T, Max>};
inline constexpr Call kReduceAnd{"__reduce_and_sync", finish_reduce<u32, And>};
inline constexpr Call kReduceOr{"__reduce_or_sync", finish_reduce<u32, Or>};
inline constexpr Call kReduceXor{"__reduce_xor_sync", finish_reduce<u32, Xor>};

template <class T>
T shuffle(const Call& call, unsigned mask, T value, u32 from, int width, const char* file,
          int line) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    grid().fail(std::string(call.name) + ": width is no power of two up to 32");
  }
  return value_of<T>(
      grid().collect(call, mask, bits_of(value), from, static_cast<u32>(width), file, line));
}

template <class T>
T reduce(const Call& call, unsigned mask, T value, const char* file, int line) {
  return value_of<T>(grid().collect(call, mask, bits_of(value), 0, kLanes, file, line));
}

inline u32 vote(const Call& call, unsigned mask, int predicate, const char* file, int line) {
  return static_cast<u32>(grid().collect(call, mask, predicate != 0, 0, kLanes, file, line));
}

inline unsigned long long clock_ticks = 0;

}  // namespace cule::shim

// ---- barriers and votes ------------------------------------------------------------------------

inline void __syncthreads(CULE_SHIM_HERE) {
  cule::shim::grid().barrier(cule::shim::kSyncthreads, false, file, line);
}
inline int __syncthreads_count(int predicate, CULE_SHIM_HERE) {
  return static_cast<int>(
      cule::shim::grid().barrier(cule::shim::kSyncthreadsCount, predicate != 0, file, line));
}
inline int __syncthreads_or(int predicate, CULE_SHIM_HERE) {
  return cule::shim::grid().barrier(cule::shim::kSyncthreadsOr, predicate != 0, file, line) != 0;
}
inline int __syncthreads_and(int predicate, CULE_SHIM_HERE) {
  return cule::shim::grid().barrier(cule::shim::kSyncthreadsAnd, predicate == 0, file, line) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CULE_SHIM_HERE) {
  cule::shim::vote(cule::shim::kSyncwarp, mask, 0, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CULE_SHIM_HERE) {
  return cule::shim::vote(cule::shim::kBallot, mask, predicate, file, line);
}
inline int __any_sync(unsigned mask, int predicate, CULE_SHIM_HERE) {
  return cule::shim::vote(cule::shim::kAny, mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CULE_SHIM_HERE) {
  return cule::shim::vote(cule::shim::kAll, mask, predicate, file, line) == mask;
}

// Which lanes are active is nothing a kernel may rely on: it does not compile here.
unsigned __activemask() = delete;

// ---- shuffles, matches and reductions
// ------------------------------------------------------------

#define CULE_SHIM_SHUFFLES(T)                                                                     \
  inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, CULE_SHIM_HERE) {        \
    return cule::shim::shuffle(cule::shim::kShuffle, mask, value, static_cast<unsigned>(from),    \
                               width, file, line);                                                \
  }                                                                                               \
  inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,              \
                          CULE_SHIM_HERE) {                                                       \
    return cule::shim::shuffle(cule::shim::kShuffleUp, mask, value, distance, width, file, line); \
  }                                                                                               \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,            \
                            CULE_SHIM_HERE) {                                                     \
    return cule::shim::shuffle(cule::shim::kShuffleDown, mask, value, distance, width, file,      \
                               line);                                                             \
  }                                                                                               \
  inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, CULE_SHIM_HERE) {    \
    return cule::shim::shuffle(cule::shim::kShuffleXor, mask, value, static_cast<unsigned>(bits), \
                               width, file, line);                                                \
  }                                                                                               \
  inline unsigned __match_any_sync(unsigned mask, T value, CULE_SHIM_HERE) {                      \
    return static_cast<unsigned>(cule::shim::grid().collect(                                      \
        cule::shim::kMatchAny, mask, cule::shim::bits_of(value), 0, 32, file, line));             \
  }

CULE_SHIM_SHUFFLES(int)
CULE_SHIM_SHUFFLES(unsigned)
CULE_SHIM_SHUFFLES(long)
CULE_SHIM_SHUFFLES(unsigned long)
CULE_SHIM_SHUFFLES(long long)
CULE_SHIM_SHUFFLES(unsigned long long)
CULE_SHIM_SHUFFLES(float)
CULE_SHIM_SHUFFLES(double)
#undef CULE_SHIM_SHUFFLES

#define CULE_SHIM_REDUCE(T, name, call)                                   \
  inline T name(unsigned mask, T value, CULE_SHIM_HERE) {                 \
    return cule::shim::reduce(cule::shim::call, mask, value, file, line); \
  }

CULE_SHIM_REDUCE(int, __reduce_add_sync, kReduceAdd<int>)
CULE_SHIM_REDUCE(int, __reduce_min_sync, kReduceMin<int>)
CULE_SHIM_REDUCE(int, __reduce_max_sync, kReduceMax<int>)
CULE_SHIM_REDUCE(unsigned, __reduce_add_sync, kReduceAdd<unsigned>)
CULE_SHIM_REDUCE(unsigned, __reduce_min_sync, kReduceMin<unsigned>)
CULE_SHIM_REDUCE(unsigned, __reduce_max_sync, kReduceMax<unsigned>)
CULE_SHIM_REDUCE(unsigned, __reduce_and_sync, kReduceAnd)
CULE_SHIM_REDUCE(unsigned, __reduce_or_sync, kReduceOr)
CULE_SHIM_REDUCE(unsigned, __reduce_xor_sync, kReduceXor)
#undef CULE_SHIM_REDUCE
#undef CULE_SHIM_HERE

// ---- integers ----------------------------------------------------------------------------------

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
// PTX ISA, prmt in default mode: bit 3 of a selector replicates the chosen byte's sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned chosen = selector >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (chosen & 7))) & 0xff;
    if ((chosen & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}

// ---- memory ------------------------------------------------------------------------------------

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldca(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return static_cast<long long>(++cule::shim::clock_ticks); }
[[noreturn]] inline void __trap() { cule::shim::grid().fail("__trap"); }

// One thread runs at a time and none is interrupted: every access is atomic as it is.
#define CULE_SHIM_ATOMIC(T, name, result) \
  inline T name(T* at, T value) {         \
    const T old = *at;                    \
    *at = static_cast<T>(result);         \
    return old;                           \
  }
#define CULE_SHIM_ATOMICS(T)                                \
  CULE_SHIM_ATOMIC(T, atomicExch, value)                    \
  CULE_SHIM_ATOMIC(T, atomicMin, value < old ? value : old) \
  CULE_SHIM_ATOMIC(T, atomicMax, old < value ? value : old) \
  CULE_SHIM_ATOMIC(T, atomicAnd, old& value)                \
  CULE_SHIM_ATOMIC(T, atomicOr, old | value)                \
  CULE_SHIM_ATOMIC(T, atomicXor, old ^ value)               \
  inline T atomicCAS(T* at, T compare, T value) {           \
    const T old = *at;                                      \
    if (old == compare) *at = value;                        \
    return old;                                             \
  }

CULE_SHIM_ATOMICS(int)
CULE_SHIM_ATOMICS(unsigned)
CULE_SHIM_ATOMICS(unsigned long long)
CULE_SHIM_ATOMIC(unsigned, atomicAdd, old + value)
CULE_SHIM_ATOMIC(unsigned long long, atomicAdd, old + value)
CULE_SHIM_ATOMIC(int, atomicAdd, static_cast<unsigned>(old) + static_cast<unsigned>(value))
CULE_SHIM_ATOMIC(float, atomicAdd, old + value)
CULE_SHIM_ATOMIC(double, atomicAdd, old + value)
CULE_SHIM_ATOMIC(unsigned, atomicSub, old - value)
CULE_SHIM_ATOMIC(int, atomicSub, static_cast<unsigned>(old) - static_cast<unsigned>(value))
CULE_SHIM_ATOMIC(float, atomicExch, value)
#undef CULE_SHIM_ATOMICS
#undef CULE_SHIM_ATOMIC
