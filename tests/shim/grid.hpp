// tests/shim/grid.hpp: runs the threads of a grid one by one and holds them to CUDA's rules.
//
// Blocks run one after the other. A thread runs until it waits in a warp intrinsic or a barrier,
// then the next one runs: the lanes of one warp as far as they come, then the next warp. The last
// lane to arrive computes the result for all lanes named in the mask. What CUDA leaves undefined
// ends the launch with a std::runtime_error: the fibers are abandoned where they stand.
// CULE_SHIM_ORDER=forward|reverse|random:<seed> chooses who runs next; no result may depend on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "vector_types.hpp"

// Bounds of the section that holds static shared memory; absent where no kernel has any.
extern "C" {
extern unsigned char __start_cule_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_cule_shared[] __attribute__((weak, visibility("hidden")));
}

namespace cule::shim {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u32 kLanes = 32;
inline constexpr u32 kMaxThreads = 1024;
inline constexpr std::size_t kGuardBytes = 4096;
inline constexpr unsigned char kPoison = 0xCD;

inline u32 lowest(u32 bits) { return static_cast<u32>(__builtin_ctz(bits)); }
inline u32 highest(u32 bits) { return 31u - static_cast<u32>(__builtin_clz(bits)); }

struct Warp;

// An intrinsic that waits for other lanes. Its address is its identity.
struct Call {
  const char* name;
  void (*finish)(Warp&, u32 mask);  // fills `result` of every lane in mask; null for barriers
};

// The call in which a lane waits, its place and its operands.
struct Wait {
  const Call* call = nullptr;
  const char* file = nullptr;
  int line = 0;
  u32 mask = 0;    // lanes that must come; all threads of the block at a barrier
  u32 value = 0;   // the lane's operand
  u32 source = 0;  // the lane that a shuffle reads from
  u32 result = 0;
};

struct Warp {
  u32 index = 0;
  u32 exited = 0;      // lanes that returned or were never there
  u32 ready = 0;       // lanes that can run
  u32 collective = 0;  // lanes waiting in a warp intrinsic
  u32 barrier = 0;     // lanes waiting in a barrier of the block
  Wait lanes[kLanes];
};

// Counters of one launch.
struct Counters {
  u64 launches = 0;
  u64 blocks = 0;
  u64 threads = 0;
  u64 warp_syncs = 0;   // warp intrinsics completed, counted once for all lanes in the mask
  u64 lane_waits = 0;   // the same, counted once a lane
  u64 block_syncs = 0;  // barriers completed
  u64 switches = 0;     // changes from one thread to another
};

enum class Order { kForward, kReverse, kRandom };

// The built-in variables of kernels.
inline uint3 thread_index{}, block_index{};
inline dim3 block_size, grid_size;

class Grid {
 public:
  // Runs body(argument) in every thread. `last` holds the counters of this launch.
  void run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* argument);

  // Waits until all lanes of `mask` wait in the same call; returns this lane's result.
  u32 collect(const Call& call, u32 mask, u32 value, const char* file, int line, u32 source = 0) {
    Warp& warp = *warp_;
    const u32 bit = 1u << lane_;
    Wait& wait = note_wait(call, mask, value, file, line);
    wait.source = source;
    if ((mask & bit) == 0) fail("the mask does not name the calling lane", &wait);
    if ((mask & warp.exited) != 0) fail("the mask names lanes that have exited", &wait);
    warp.collective |= bit;
    if ((warp.collective & mask) == mask) complete(warp, mask);
    yield(false);
    return wait.result;
  }

  // A barrier of the block.
  void barrier(const Call& call, const char* file, int line) {
    note_wait(call, ~0u, 0, file, line);
    warp_->barrier |= 1u << lane_;
    if (++at_barrier_ == live_) release();
    yield(at_barrier_ == 0);
  }

  // Ends the launch with an error that names the running thread, `what` and, if given, the call.
  [[noreturn]] void fail(const std::string& what, const Wait* at = nullptr);

  // How a waiting lane is described in messages.
  static std::string describe(const Wait& wait);

  unsigned char* dynamic_shared() { return shared_; }
  const Counters& last() const { return last_; }

  std::mutex mutex;  // held during a launch

 private:
  // Marks the running lane as waiting, and notes why.
  Wait& note_wait(const Call& call, u32 mask, u32 value, const char* file, int line) {
    warp_->ready &= ~(1u << lane_);
    Wait& wait = warp_->lanes[lane_];
    wait.call = &call;
    wait.file = file;
    wait.line = line;
    wait.mask = mask;
    wait.value = value;
    return wait;
  }

  static void enter();
  void run_block();
  void exit_thread();
  void complete(Warp& warp, u32 mask);
  void release();
  void yield(bool is_any_warp);
  Warp* choose_warp();
  u32 choose_lane(u32 ready);
  void read_order();
  void check_guard() const;
  [[noreturn]] void fail_stuck();
  std::string waiting_lanes() const;

  u32 random(u32 bound) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<u32>((random_ >> 32) * bound >> 32);
  }

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  Stacks stacks_;
  std::vector<Fiber> fibers_ = std::vector<Fiber>(kMaxThreads);
  std::vector<uint3> thread_indices_;
  std::vector<Warp> warps_ = std::vector<Warp>(kMaxThreads / kLanes);
  Fiber launcher_;
  Warp* warp_ = nullptr;  // of the running thread
  u32 lane_ = 0;          // of the running thread
  u32 threads_ = 0;       // of a block
  u32 live_ = 0;          // threads of the block that have not exited
  u32 at_barrier_ = 0;    // threads of the block that wait in a barrier
  Order order_ = Order::kForward;
  u64 random_ = 1;
  std::vector<unsigned char> shared_memory_;
  unsigned char* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  std::string error_;
  Counters last_;
};

inline Grid& grid() {
  static Grid* const one = new Grid;  // never destroyed: kernels may run while a process ends
  return *one;
}

// ---- who runs next -----------------------------------------------------------------------------

inline u32 Grid::choose_lane(u32 ready) {
  if (order_ == Order::kForward) return lowest(ready);
  if (order_ == Order::kReverse) return highest(ready);
  for (u32 skip = random(static_cast<u32>(__builtin_popcount(ready))); skip != 0; --skip) {
    ready &= ready - 1;
  }
  return lowest(ready);
}

// A warp with a lane that can run, or null.
inline Warp* Grid::choose_warp() {
  const u32 warps = (threads_ + kLanes - 1) / kLanes;
  const u32 first = order_ == Order::kRandom ? random(warps) : 0;
  for (u32 i = 0; i < warps; ++i) {
    const u32 index = order_ == Order::kReverse ? warps - 1 - i : (first + i) % warps;
    if (warps_[index].ready != 0) return &warps_[index];
  }
  return nullptr;
}

// Continues in the next thread to run, which may be the same one: a thread of this warp if one
// can run and it is not any warp's turn.
inline void Grid::yield(bool is_any_warp) {
  Warp& from = *warp_;
  const u32 from_lane = lane_;
  if (order_ == Order::kRandom && random(kLanes) == 0) is_any_warp = true;
  if (from.ready == 0 || is_any_warp) {
    Warp* const next = choose_warp();
    if (next == nullptr) {
      if (live_ != 0) fail_stuck();
      switch_fiber(fibers_[from.index * kLanes + from_lane], launcher_);  // the block is done
    }
    warp_ = next;
  }
  lane_ = choose_lane(warp_->ready);
  if (warp_ == &from && lane_ == from_lane) return;
  ++last_.switches;
  const u32 to = warp_->index * kLanes + lane_;
  thread_index = thread_indices_[to];
  switch_fiber(fibers_[from.index * kLanes + from_lane], fibers_[to]);
}

// ---- meeting -----------------------------------------------------------------------------------

inline bool same_site(const Wait& a, const Wait& b) {
  return a.call == b.call && a.line == b.line &&
         (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// All lanes of the mask wait, but a lane may still wait elsewhere for others, and come later. Only
// two lanes that wait for each other in different ways never will.
inline void Grid::complete(Warp& warp, u32 mask) {
  const Wait& here = warp.lanes[lane_];
  for (u32 rest = mask; rest != 0; rest &= rest - 1) {
    const Wait& there = warp.lanes[lowest(rest)];
    const bool is_same = same_site(there, here);
    if (is_same && there.mask == mask) continue;
    if ((there.mask >> lane_ & 1) == 0) return;
    fail(is_same ? "lanes wait in the same call with differing masks"
                 : "lanes named in the mask wait at different calls",
         &here);
  }
  here.call->finish(warp, mask);
  warp.collective &= ~mask;
  warp.ready |= mask;
  ++last_.warp_syncs;
  last_.lane_waits += static_cast<u32>(__builtin_popcount(mask));
}

// All threads that have not exited wait in a barrier: it must be the same one.
inline void Grid::release() {
  const Wait* first = nullptr;
  for (Warp& warp : warps_) {
    for (u32 rest = warp.barrier; rest != 0; rest &= rest - 1) {
      const Wait& wait = warp.lanes[lowest(rest)];
      if (first == nullptr) first = &wait;
      if (!same_site(wait, *first)) fail("threads of the block wait at different barriers", &wait);
    }
  }
  for (Warp& warp : warps_) {
    warp.ready |= warp.barrier;
    warp.barrier = 0;
  }
  at_barrier_ = 0;
  ++last_.block_syncs;
}

inline void Grid::exit_thread() {
  Warp& warp = *warp_;
  const u32 bit = 1u << lane_;
  for (u32 rest = warp.collective; rest != 0; rest &= rest - 1) {
    const Wait& wait = warp.lanes[lowest(rest)];
    if ((wait.mask & bit) != 0)
      fail("this lane exits, but the mask of a waiting one names it", &wait);
  }
  warp.exited |= bit;
  warp.ready &= ~bit;
  --live_;
  const bool is_last = live_ != 0 && at_barrier_ == live_;
  if (is_last) release();
  yield(is_last);
}

// ---- errors ------------------------------------------------------------------------------------

inline std::string hex(u32 value) {
  char text[11] = "0x";
  for (int i = 0; i < 8; ++i) text[2 + i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
  return text;
}

inline std::string triple(uint3 of) {
  return "(" + std::to_string(of.x) + ", " + std::to_string(of.y) + ", " + std::to_string(of.z) +
         ")";
}

inline std::string Grid::describe(const Wait& wait) {
  std::string text = wait.call->name;
  if (wait.call->finish != nullptr) text += " with mask " + hex(wait.mask);
  return text + " at " + wait.file + ":" + std::to_string(wait.line);
}

// Every call that lanes of the block wait in, with the lanes.
inline std::string Grid::waiting_lanes() const {
  std::string text;
  for (const Warp& warp : warps_) {
    u32 rest = warp.collective | warp.barrier;
    if (warp.index * kLanes < threads_ && warp.exited != 0 && (rest | warp.ready) != 0) {
      text += "\n  warp " + std::to_string(warp.index) + " lanes " + hex(warp.exited) + " exited";
    }
    while (rest != 0) {
      const Wait& first = warp.lanes[lowest(rest)];
      u32 group = 0;
      for (u32 lanes = rest; lanes != 0; lanes &= lanes - 1) {
        const Wait& wait = warp.lanes[lowest(lanes)];
        if (same_site(wait, first) && wait.mask == first.mask) group |= 1u << lowest(lanes);
      }
      text += "\n  warp " + std::to_string(warp.index) + " lanes " + hex(group) + " wait in " +
              describe(first);
      rest &= ~group;
    }
  }
  return text;
}

inline void Grid::fail(const std::string& what, const Wait* at) {
  error_ = "cule shim: " + what + "\n  block " + triple(block_index) + " thread " +
           triple(thread_index) + ", warp " + std::to_string(warp_->index) + " lane " +
           std::to_string(lane_);
  if (at != nullptr) error_ += ": " + describe(*at);
  error_ += waiting_lanes();
  Fiber abandoned;
  switch_fiber(abandoned, launcher_);
  std::abort();  // no switch returns to an abandoned fiber
}

// No thread can run. The pairs of lanes that wait for each other show why.
inline void Grid::fail_stuck() {
  for (const Warp& warp : warps_) {
    for (u32 a = 0; a < kLanes; ++a) {
      for (u32 b = 0; b < a; ++b) {
        const u32 pair = 1u << a | 1u << b;
        const Wait& wait = warp.lanes[a];
        const Wait& other = warp.lanes[b];
        if ((warp.collective & pair) != pair || (wait.mask & other.mask & pair) != pair) continue;
        if (!same_site(wait, other)) fail("deadlock: lanes wait for each other at different calls");
        if (wait.mask != other.mask) fail("deadlock: lanes wait with differing masks");
      }
    }
  }
  fail(at_barrier_ != 0 ? "deadlock: not all threads of the block come to the barrier"
                        : "deadlock: no thread can run");
}

// ---- a launch ----------------------------------------------------------------------------------

// Neighbouring bytes differ, so a shifted copy shows as well.
inline const std::vector<unsigned char>& guard_pattern() {
  static const std::vector<unsigned char> pattern = [] {
    std::vector<unsigned char> bytes(kGuardBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<unsigned char>(i * 37 + 0xA5);
    }
    return bytes;
  }();
  return pattern;
}

inline void Grid::check_guard() const {
  const unsigned char* const pattern = guard_pattern().data();
  const unsigned char* const below = shared_ - kGuardBytes;
  const unsigned char* const above = shared_ + shared_bytes_;
  if (std::memcmp(below, pattern, kGuardBytes) == 0 &&
      std::memcmp(above, pattern, kGuardBytes) == 0) {
    return;
  }
  std::size_t i = 0;
  while (i < kGuardBytes && above[i] == pattern[i]) ++i;
  throw std::runtime_error("cule shim: a block wrote " +
                           (i < kGuardBytes ? "offset " + std::to_string(shared_bytes_ + i)
                                            : std::string("below the start")) +
                           " of its " + std::to_string(shared_bytes_) +
                           " bytes of dynamic shared memory\n  block " + triple(block_index));
}

inline void Grid::read_order() {
  const char* const text = std::getenv("CULE_SHIM_ORDER");
  const std::string order = text == nullptr || *text == '\0' ? "forward" : text;
  if (order == "forward") {
    order_ = Order::kForward;
  } else if (order == "reverse") {
    order_ = Order::kReverse;
  } else if (order.size() > 7 && order.compare(0, 7, "random:") == 0 &&
             order.find_first_not_of("0123456789", 7) == std::string::npos) {
    order_ = Order::kRandom;
    random_ = std::strtoull(order.c_str() + 7, nullptr, 10) * 0x9E3779B97F4A7C15u + 1;
    if (random_ == 0) random_ = 1;
  } else {
    throw std::runtime_error("cule shim: CULE_SHIM_ORDER is \"" + order +
                             "\", not forward, reverse or random:<seed>");
  }
}

// First and only frame of a thread's stack; a thread that has ended never continues.
inline void Grid::enter() {
  Grid& self = grid();
  try {
    self.body_(self.argument_);
  } catch (const std::exception& error) {
    self.error_ = error.what();
  } catch (...) {
    self.error_ = "cule shim: a kernel threw something that is no std::exception";
  }
  if (!self.error_.empty()) self.fail("a kernel threw: " + std::string(self.error_));
  self.exit_thread();
}

inline void Grid::run_block() {
  if (__start_cule_shared != nullptr) {
    std::memset(__start_cule_shared, kPoison,
                static_cast<std::size_t>(__stop_cule_shared - __start_cule_shared));
  }
  std::memset(shared_, kPoison, shared_bytes_);
  live_ = threads_;
  at_barrier_ = 0;
  for (Warp& warp : warps_) {
    warp.index = static_cast<u32>(&warp - warps_.data());
    const u32 first = warp.index * kLanes;
    const u32 lanes = first < threads_ ? std::min(threads_ - first, kLanes) : 0;
    warp.ready = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    warp.exited = ~warp.ready;
    warp.collective = warp.barrier = 0;
  }
  for (u32 i = 0; i < threads_; ++i) prepare_fiber(fibers_[i], stacks_.top(i), &Grid::enter);
  warp_ = choose_warp();
  lane_ = choose_lane(warp_->ready);
  thread_index = thread_indices_[warp_->index * kLanes + lane_];
  switch_fiber(launcher_, fibers_[warp_->index * kLanes + lane_]);
  if (!error_.empty()) {
    stacks_.forget_frames();
    throw std::runtime_error(error_);
  }
  check_guard();
}

inline void Grid::run(dim3 grid_in, dim3 block_in, std::size_t shared_bytes, void (*body)(void*),
                      void* argument) {
  read_order();
  grid_size = grid_in;
  block_size = block_in;
  body_ = body;
  argument_ = argument;
  error_.clear();
  last_ = Counters{};
  last_.launches = 1;
  threads_ = block_in.x * block_in.y * block_in.z;
  thread_indices_.clear();
  for (u32 i = 0; i < threads_; ++i) {
    thread_indices_.push_back(
        {i % block_in.x, i / block_in.x % block_in.y, i / block_in.x / block_in.y});
  }
  shared_bytes_ = shared_bytes;
  shared_memory_.resize(2 * kGuardBytes + shared_bytes + 128);
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(shared_memory_.data());
  shared_ = shared_memory_.data() + kGuardBytes + (128 - start % 128) % 128;

  std::memcpy(shared_ - kGuardBytes, guard_pattern().data(), kGuardBytes);
  std::memcpy(shared_ + shared_bytes_, guard_pattern().data(), kGuardBytes);

  std::vector<u64> blocks(u64{grid_in.x} * grid_in.y * grid_in.z);
  std::iota(blocks.begin(), blocks.end(), u64{0});
  if (order_ == Order::kReverse) std::reverse(blocks.begin(), blocks.end());
  if (order_ == Order::kRandom) {
    for (std::size_t i = blocks.size(); i > 1; --i) {
      std::swap(blocks[i - 1], blocks[random(static_cast<u32>(i))]);
    }
  }
  for (const u64 i : blocks) {
    block_index = {static_cast<u32>(i % grid_in.x), static_cast<u32>(i / grid_in.x % grid_in.y),
                   static_cast<u32>(i / grid_in.x / grid_in.y)};
    run_block();
    ++last_.blocks;
    last_.threads += threads_;
  }
}

}  // namespace cule::shim
