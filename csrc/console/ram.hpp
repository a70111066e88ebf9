// console/ram.hpp: where the running machine's 128 bytes of RAM lie, and what else depends on who
// runs it.
//
// FlatRam         one byte after the other: the host, and a console at rest
// InterleavedRam  word w of lane l at word 32 w + l: the lanes of a warp never meet in a memory
// bank
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

constexpr u32 kRamBytes = 128;
constexpr u32 kWarpLanes = 32;
constexpr u32 kWordBytes = 4;

struct FlatRam {
  u8* base;

  CULE_HD CULE_INLINE u8& operator[](u32 i) const { return base[i]; }
};

struct InterleavedRam {
  u8* base;  // of the lane's word 0

  CULE_HD CULE_INLINE u8& operator[](u32 i) const {
    return base[(i / kWordBytes) * kWordBytes * kWarpLanes + i % kWordBytes];
  }
};

// A machine run by a host thread: draws while it replays.
struct HostAccess {
  using Ram = FlatRam;
  static constexpr bool kObserves = true;
};

// A machine run by a lane of a warp: pictures are drawn later, by other threads.
struct LaneAccess {
  using Ram = InterleavedRam;
  static constexpr bool kObserves = false;
};

}  // namespace cule
