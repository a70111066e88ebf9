// cuda/pooled.hpp: the pooled picture of a console, the maximum of what its last step captured.
//
// The next step needs it only if it ends on its last frame, so it is kept as what it is made of
// (PooledPicture), and its levels are drawn when somebody looks. All threads of a block call these
// functions together.
#pragma once

#include "cuda/draw.hpp"

namespace cule {

// One line of two pictures.
struct LinePair {
  alignas(8) u8 first[kScreenWidth];
  alignas(8) u8 second[kScreenWidth];
};

// Row k of the maximum of two pictures into `levels_out`, a whole picture; with no `first`, over
// what is there already. Called by any thread.
__device__ inline void pool_gray_row(const DeviceGame& g, const Console& c, u32 k,
                                     const Picture* first, const Picture* second, u8* levels_out) {
  LinePair lines;
  if (first != nullptr) draw_row(c, *first, k, g.gray, lines.first);
  if (second != nullptr) draw_row(c, *second, k, g.gray, lines.second);
  u64* out = reinterpret_cast<u64*>(levels_out + size_t(k) * kScreenWidth);
  const u64* from = reinterpret_cast<const u64*>(lines.first);
  const u64* over = reinterpret_cast<const u64*>(lines.second);
  for (u32 x = 0; x < kScreenWidth / sizeof(u64); ++x) {
    const u64 level = first != nullptr ? from[x] : out[x];
    out[x] = second != nullptr ? max_bytes(level, over[x]) : level;
  }
}

// The same with three channels.
__device__ inline void pool_rgb_row(const DeviceBatch& b, const DeviceGame& g, const Console& c,
                                    u32 k, const Picture* first, const Picture* second,
                                    u8* levels_out) {
  LinePair lines;
  if (first != nullptr) draw_row(c, *first, k, b.identity, lines.first);
  if (second != nullptr) draw_row(c, *second, k, b.identity, lines.second);
  u8* out = levels_out + size_t(k) * kScreenWidth * b.channels;
  for (u32 x = 0; x < kScreenWidth; ++x) {
    for (u32 channel = 0; channel < b.channels; ++channel, ++out) {
      const u8 level = first != nullptr ? g.rgb[3 * lines.first[x] + channel] : *out;
      const u8 other = second != nullptr ? g.rgb[3 * lines.second[x] + channel] : 0;
      *out = level > other ? level : other;
    }
  }
}

__device__ CULE_NOINLINE inline void pool_rows(const DeviceBatch& b, const DeviceGame& g,
                                               const Console& c, const Picture* first,
                                               const Picture* second, u8* levels_out) {
  for (u32 k = threadIdx.x; k < c.properties.height; k += blockDim.x) {
    if (b.grayscale) {
      pool_gray_row(g, c, k, first, second, levels_out);
    } else {
      pool_rgb_row(b, g, c, k, first, second, levels_out);
    }
  }
}

__device__ inline Picture pooled_log(const DeviceBatch& b, const Console& c, const PooledPicture& p,
                                     u32 n) {
  return {PictureKind::kLog, nullptr, c.memory.logs + p.log_slot[n], line_starts(b, n)};
}

// Draws the pooled picture of console i as it was left by its last step.
__device__ CULE_NOINLINE inline void draw_pooled(const DeviceBatch& b, const DeviceGame& g,
                                                 const Console& c, u32 i, u8* levels_out) {
  const PooledPicture& p = b.pooled[i];
  const size_t bytes = g.snapshot.stack - g.snapshot.pooled;
  if (p.kind == PooledKind::kBlank) {
    for (size_t k = threadIdx.x; k < bytes; k += blockDim.x) levels_out[k] = 0;
  } else if (p.kind == PooledKind::kPixels) {
    copy_block(levels_out, b.spill_pooled(i), bytes);
  } else if (p.kind == PooledKind::kCached) {
    copy_block(levels_out, p.shared.borrowed + (g.snapshot.pooled - g.snapshot.pictures), bytes);
  } else {
    for (u32 n = 0; n < p.num_logs; ++n) {
      if (threadIdx.x == n * kWarpLanes)
        find_starts(c, pooled_log(b, c, p, n), 1, line_starts(b, n));
    }
    __syncthreads();
    for (u32 n = 0; n < p.num_logs; ++n) {
      const Picture log = pooled_log(b, c, p, n);
      pool_rows(b, g, c, n == 0 ? &log : nullptr, n == 0 ? nullptr : &log, levels_out);
    }
  }
  __syncthreads();
}

// What a step captured of a console.
struct Captured {
  Picture newest;
  Picture previous;
  u8 captures;

  __device__ const Picture* newest_or_null() const {
    return captures & kCaptureNewest ? &newest : nullptr;
  }
  __device__ const Picture* previous_or_null() const {
    return captures & kCapturePrevious ? &previous : nullptr;
  }
};

// `levels`: the pooled picture after a step that captured this, to be kept.
__device__ inline void keep_pooled(const DeviceBatch& b, const DeviceGame& g, const Console& c,
                                   u32 i, const Captured& captured, const u8* levels) {
  PooledPicture p = b.pooled[i];
  bool is_logs = captured.newest_or_null() != nullptr || p.kind == PooledKind::kLogs;
  if (captured.newest_or_null() != nullptr) p.num_logs = p.shared.lent_logs = 0;
  const Picture* const pictures[2] = {captured.newest_or_null(), captured.previous_or_null()};
  for (const Picture* picture : pictures) {
    if (picture == nullptr) continue;
    is_logs = is_logs && picture->kind == PictureKind::kLog;
    if (!is_logs) continue;
    const u32 slot = u32(picture->log - c.memory.logs);
    p.log_slot[p.num_logs++] = u8(slot);
    p.shared.lent_logs |= u8(1u << slot);
  }
  p.kind = is_logs ? PooledKind::kLogs : PooledKind::kPixels;
  if (!is_logs) {
    p.shared.lent_logs = 0;
    copy_block(b.spill_pooled(i), levels, g.snapshot.stack - g.snapshot.pooled);
  }
  __syncthreads();
  if (threadIdx.x == 0) b.pooled[i] = p;
}

}  // namespace cule
