// cuda/lane_team.hpp: lanes of a warp that work on one thing together, counted from 0.
//
// A vote has a bit for each lane of the team.
#pragma once

#include "base/bits.hpp"
#include "cuda/lane_group.hpp"

namespace cule {

// All lanes of a warp.
struct WholeWarp {
  __device__ CULE_INLINE static constexpr u32 size() { return kWarpLanes; }
  __device__ CULE_INLINE static constexpr u32 first() { return 0; }
  __device__ CULE_INLINE static constexpr LaneGroup lanes() { return {~0u}; }
};

// `lanes_` lanes from `first_` on; both are powers of two or 0.
struct PartOfWarp {
  u32 first_;
  u32 size_;

  CULE_HD CULE_INLINE u32 size() const { return size_; }
  __device__ CULE_INLINE u32 first() const { return first_; }
  __device__ CULE_INLINE LaneGroup lanes() const { return {((2u << (size_ - 1)) - 1) << first_}; }
};

// Votes of a team, all lanes of which call these functions together.
template <class Lanes>
struct Team : Lanes {
  __device__ CULE_INLINE u32 lane() const { return threadIdx.x % kWarpLanes - this->first(); }
  __device__ CULE_INLINE bool leads() const { return lane() == 0; }
  __device__ CULE_INLINE u32 ballot(bool vote) const {
    return this->lanes().ballot(vote) >> this->first();
  }
  __device__ CULE_INLINE bool any(bool vote) const { return this->lanes().any(vote); }
  __device__ CULE_INLINE u32 any_bits(u32 bits) const { return this->lanes().any_bits(bits); }
  __device__ CULE_INLINE u64 any_bits64(u64 bits) const {
    return any_bits(u32(bits)) | u64(any_bits(u32(bits >> 32))) << 32;
  }
  __device__ CULE_INLINE u32 highest(u32 value) const { return ~this->lanes().lowest(~value); }
  __device__ CULE_INLINE void sync() const { this->lanes().sync(); }
  __device__ CULE_INLINE u32 take_from(u32 value, u32 lane) const {
    return __shfl_sync(this->lanes().mask, value, int(this->first() + lane));
  }
  __device__ CULE_INLINE u64 take_from64(u64 value, u32 lane) const {
    return take_from(u32(value), lane) | u64(take_from(u32(value >> 32), lane)) << 32;
  }
};

}  // namespace cule
