// tests/shim/cuda/lane_group.hpp: in place of csrc/cuda/lane_group.hpp; counts what lanes execute.
//
// Between two meetings of a warp each lane executes a list of opcodes. A warp takes the k-th ones
// together and needs a step for every different opcode among them: how well a schedule keeps lanes
// together is the number of such steps an instruction of a lane. Opcodes that do not part the lanes
// are reported as one (kCommonOpcode of console/lanes.hpp).
#pragma once

#include <array>
#include <vector>

#include "base/int.hpp"
#include "cuda/launch.hpp"

namespace cule {

struct StepCounts {
  u64 instructions;  // of all lanes; iterations of idle loops that are skipped are none
  u64 slow;          // of these, executed with every access through the decoder
  u64 warp_steps;
  u64 meetings;
  u64 launches;  // of kernels, whatever they do
};

struct WarpCounts {
  struct Lane {
    std::vector<u16> opcodes;  // since the last meeting
    u64 meetings;
  };
  std::array<Lane, 32> lanes;
  u64 counted;  // meetings

  void count();
};

inline StepCounts step_counts{};
inline std::array<WarpCounts, 8> warp_counts{};  // of the running block

inline void WarpCounts::count() {
  size_t longest = 0;
  for (const Lane& lane : lanes) {
    longest = lane.opcodes.size() > longest ? lane.opcodes.size() : longest;
  }
  for (size_t k = 0; k < longest; ++k) {
    std::array<bool, 258> is_known{};
    for (const Lane& lane : lanes) {
      if (k >= lane.opcodes.size()) continue;
      step_counts.warp_steps += !is_known[lane.opcodes[k]];
      is_known[lane.opcodes[k]] = true;
      ++step_counts.instructions;
      step_counts.slow += lane.opcodes[k] == 0x100;
    }
  }
  for (Lane& lane : lanes) lane.opcodes.clear();
  ++step_counts.meetings;
}

struct LaneGroup {
  u32 mask;

  u32 ballot(bool vote) const { return __ballot_sync(mask, vote); }
  bool any(bool vote) const {
    const bool result = __any_sync(mask, vote) != 0;
    note_meeting();
    return result;
  }
  u32 lowest(u32 value) const {
    const u32 result = __reduce_min_sync(mask, value);
    note_meeting();
    return result;
  }
  void executes(u32 opcode) const { here().lanes[lane()].opcodes.push_back(u16(opcode)); }

  // Makes a group that meets for the first time.
  LaneGroup only(u32 lanes) const {
    WarpCounts& warp = here();
    warp.lanes[lane()] = {};
    warp.counted = 0;
    return {lanes};
  }
  LaneGroup part(u32 lanes) const { return {lanes}; }
  u32 everyone() const { return mask; }
  void sync() const { __syncwarp(mask); }

 private:
  static u32 lane() { return threadIdx.x % 32; }
  static WarpCounts& here() { return warp_counts[threadIdx.x / 32]; }

  // The first lane that leaves a meeting counts for all: the others have executed nothing since.
  void note_meeting() const {
    WarpCounts& warp = here();
    if (++warp.lanes[lane()].meetings <= warp.counted) return;
    warp.counted = warp.lanes[lane()].meetings;
    warp.count();
  }
};

}  // namespace cule
