// cuda/maxpool.hpp: the maxpool picture of a console, the maximum of the frames of its last step.
//
// The next step needs it only if it ends on its last frame. So a console keeps what the picture is
// made of (MaxpoolSource), and the picture is drawn when it is needed. All threads of a block call
// these functions together.
#pragma once

#include "cuda/draw.hpp"

namespace cule {

// One line of two pictures.
struct LinePair {
  alignas(8) u8 first[kScreenWidth];
  alignas(8) u8 second[kScreenWidth];
};

// Row k of the maximum of two pictures into `levels_out`, a whole picture. Without `first`, the
// maximum with what is there already. Called by any thread.
__device__ inline void max_gray_row(const DeviceGame& g, const Console& c, u32 k,
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
__device__ inline void max_rgb_row(const DeviceBatch& b, const DeviceGame& g, const Console& c,
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

__device__ CULE_NOINLINE inline void max_rows(const DeviceBatch& b, const DeviceGame& g,
                                              const Console& c, const Picture* first,
                                              const Picture* second, u8* levels_out) {
  for (u32 k = threadIdx.x; k < c.properties.height; k += blockDim.x) {
    if (b.grayscale) {
      max_gray_row(g, c, k, first, second, levels_out);
    } else {
      max_rgb_row(b, g, c, k, first, second, levels_out);
    }
  }
}

__device__ inline Picture maxpool_log(const DeviceBatch& b, const Console& c,
                                      const MaxpoolSource& p, u32 n) {
  return {PictureKind::kLog, nullptr, c.memory.logs + p.log_slot[n], line_starts(b, n)};
}

// Draws the maxpool picture of console i after its last step.
__device__ CULE_NOINLINE inline void draw_maxpool(const DeviceBatch& b, const DeviceGame& g,
                                                  const Console& c, u32 i, u8* levels_out) {
  const MaxpoolSource& p = b.maxpool_sources[i];
  const size_t bytes = g.snapshot.stack - g.snapshot.pooled;
  if (p.kind == MaxpoolKind::kBlank) {
    for (size_t k = threadIdx.x; k < bytes; k += blockDim.x) levels_out[k] = 0;
  } else if (p.kind == MaxpoolKind::kPixels) {
    copy_block(levels_out, b.spill_maxpool(i), bytes);
  } else if (p.kind == MaxpoolKind::kResetState) {
    copy_block(levels_out, p.shared.borrowed + (g.snapshot.pooled - g.snapshot.pictures), bytes);
  } else {
    for (u32 n = 0; n < p.num_logs; ++n) {
      if (threadIdx.x == n * kWarpLanes)
        find_starts(c, maxpool_log(b, c, p, n), 1, line_starts(b, n));
    }
    __syncthreads();
    for (u32 n = 0; n < p.num_logs; ++n) {
      const Picture log = maxpool_log(b, c, p, n);
      max_rows(b, g, c, n == 0 ? &log : nullptr, n == 0 ? nullptr : &log, levels_out);
    }
  }
  __syncthreads();
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

// Keeps the maxpool picture after a step; `levels` is the picture, drawn.
__device__ inline void keep_maxpool(const DeviceBatch& b, const DeviceGame& g, const Console& c,
                                    u32 i, const StepPictures& step, const u8* levels) {
  MaxpoolSource p = b.maxpool_sources[i];
  bool is_logs = step.newest_or_null() != nullptr || p.kind == MaxpoolKind::kLogs;
  if (step.newest_or_null() != nullptr) p.num_logs = p.shared.lent_logs = 0;
  const Picture* const pictures[2] = {step.newest_or_null(), step.previous_or_null()};
  for (const Picture* picture : pictures) {
    if (picture == nullptr) continue;
    is_logs = is_logs && picture->kind == PictureKind::kLog;
    if (!is_logs) continue;
    const u32 slot = u32(picture->log - c.memory.logs);
    p.log_slot[p.num_logs++] = u8(slot);
    p.shared.lent_logs |= u8(1u << slot);
  }
  p.kind = is_logs ? MaxpoolKind::kLogs : MaxpoolKind::kPixels;
  if (!is_logs) {
    p.shared.lent_logs = 0;
    copy_block(b.spill_maxpool(i), levels, g.snapshot.stack - g.snapshot.pooled);
  }
  __syncthreads();
  if (threadIdx.x == 0) b.maxpool_sources[i] = p;
}

}  // namespace cule
