// console/ram.hpp: views of the running machine's 128 bytes of RAM.
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

}  // namespace cule
