// cuda/maxpool.hpp: the maxpool picture of a console, the maximum of the frames of its last step.
//
// The next step needs it only if it ends on its last frame. So a console keeps what the picture is
// made of (MaxpoolSource), and the picture is drawn when it is needed. All threads of a block call
// these functions together.
#pragma once

#include "cuda/draw.hpp"
#include "cuda/pixel_pool.hpp"
#include "cuda/resize_rows.hpp"

namespace cule {

// The maximum of two pictures of n bytes, sixteen at a time; `n` is a multiple of them.
__device__ CULE_NOINLINE inline void max_levels(const LevelPair& levels, size_t n, u8* out) {
  for (size_t i = threadIdx.x; i < n / 16; i += blockDim.x) {
    Bytes16 level = reinterpret_cast<const Bytes16*>(levels.first)[i];
    const Bytes16 other = reinterpret_cast<const Bytes16*>(levels.second)[i];
    for (u32 w = 0; w < 4; ++w) level.word[w] = CULE_MAX_BYTES(level.word[w], other.word[w]);
    reinterpret_cast<Bytes16*>(out)[i] = level;
  }
  __syncthreads();
}

// Draws at most two pictures and returns what their maximum is made of; without `first`, that of
// `second` and of `levels`. Pictures with colours become levels, their maximum, at once. All
// threads of the block call it together.
__device__ CULE_INLINE LevelPair draw_pictures(const DeviceBatch& b, const DeviceGame& g,
                                               const Console& c, const Picture* first,
                                               const Picture* second, u8* levels) {
  const u32 warp = threadIdx.x / kWarpLanes;
  const Picture* const own = warp == 0 ? first : second;
  const u8* const map = b.grayscale ? g.gray : b.identity;
  TwinPictures twins{};
  if (first != nullptr && second != nullptr && first->kind == PictureKind::kLog &&
      second->kind == PictureKind::kLog) {
    twins = make_twins(*first->log, *second->log, b.picture_bytes);
  }
  __syncthreads();
  if (own != nullptr) draw_rows(c, *own, map, plane_of(b, warp), twins);
  __syncthreads();
  if (b.grayscale) {
    const u8* const from = first != nullptr ? plane_of(b, 0) : levels;
    return {from, second != nullptr ? plane_of(b, 1) : from};
  }
  const u32 pixels = c.properties.height * kScreenWidth;
  for (u32 i = threadIdx.x; i < pixels; i += blockDim.x) {
    for (u32 channel = 0; channel < b.channels; ++channel) {
      u8& out = levels[size_t(i) * b.channels + channel];
      const u8 level = first != nullptr ? g.rgb[3 * plane_of(b, 0)[i] + channel] : out;
      const u8 other = second != nullptr ? g.rgb[3 * plane_of(b, 1)[i] + channel] : 0;
      out = level > other ? level : other;
    }
  }
  __syncthreads();
  return {levels, levels};
}

// Draws the maxpool picture of console i after its last step.
__device__ CULE_NOINLINE inline void draw_maxpool(const DeviceBatch& b, const DeviceGame& g,
                                                  const Console& c, u32 i, u8* levels_out) {
  const MaxpoolSource& p = b.maxpool_sources[i];
  const size_t bytes = g.snapshot.stack - g.snapshot.pooled;
  if (p.kind == MaxpoolKind::kBlank) {
    for (size_t k = threadIdx.x; k < bytes; k += blockDim.x) levels_out[k] = 0;
  } else if (p.kind == MaxpoolKind::kPixels) {
    copy_block(levels_out, b.maxpool_pixels(i), bytes);
  } else if (p.kind == MaxpoolKind::kResetState) {
    copy_block(levels_out, p.shared.borrowed + (g.snapshot.pooled - g.snapshot.pictures), bytes);
  } else {
    for (u32 n = 0; n < p.num_logs; ++n) {
      const Picture log{PictureKind::kLog, nullptr, &c.memory.log(p.log_slot[n]), p.log_slot[n]};
      const LevelPair levels =
          draw_pictures(b, g, c, n == 0 ? &log : nullptr, n == 0 ? nullptr : &log, levels_out);
      max_levels(levels, bytes, levels_out);
    }
  }
  __syncthreads();
}

// The delayed actions of a snapshot.
__device__ inline void restore_pending(const DeviceBatch& b, const DeviceGame& g, u32 i,
                                       const u8* snapshot) {
  copy_block(reinterpret_cast<u8*>(b.pending_of(i)), snapshot + g.snapshot.pending,
             g.snapshot.pooled - g.snapshot.pending);
}

// The pictures of a console that a step leaves to draw.
struct StepPictures {
  Picture newest;
  Picture previous;
  u8 draw_bits;

  __device__ const Picture* newest_or_null() const {
    return draw_bits & kDrawNewest ? &newest : nullptr;
  }
  __device__ const Picture* previous_or_null() const {
    return draw_bits & kDrawPrevious ? &previous : nullptr;
  }
};

// Keeps the maxpool picture after a step, the maximum of two.
__device__ inline void keep_maxpool(const DeviceBatch& b, const DeviceGame& g, const Console& c,
                                    u32 i, const StepPictures& step, const LevelPair& levels) {
  MaxpoolSource p = b.maxpool_sources[i];
  bool is_logs = step.newest_or_null() != nullptr || p.kind == MaxpoolKind::kLogs;
  if (step.newest_or_null() != nullptr) p.num_logs = p.shared.lent_logs = 0;
  const Picture* const pictures[2] = {step.newest_or_null(), step.previous_or_null()};
  for (const Picture* picture : pictures) {
    if (picture == nullptr) continue;
    is_logs = is_logs && picture->kind == PictureKind::kLog;
    if (!is_logs) continue;
    p.log_slot[p.num_logs++] = picture->log_slot;
    p.shared.lent_logs |= u8(1u << picture->log_slot);
  }
  p.kind = is_logs ? MaxpoolKind::kLogs : MaxpoolKind::kPixels;
  if (!is_logs) {
    p.shared.lent_logs = 0;
    if (threadIdx.x == 0) take_pixels(c);
    __syncthreads();
    max_levels(levels, g.snapshot.stack - g.snapshot.pooled, b.maxpool_pixels(i));
    p.shared.pixels = b.maxpool_sources[i].shared.pixels;
  }
  __syncthreads();
  if (threadIdx.x == 0) b.maxpool_sources[i] = p;
}

}  // namespace cule
