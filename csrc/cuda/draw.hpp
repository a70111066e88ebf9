// cuda/draw.hpp: pictures drawn by a block of threads, a warp a picture.
//
// A picture that is kept as a log is painted 32 scanlines at a time (cuda/line_painter.hpp). One
// that is kept as pixels is copied. Rows are 160 bytes apart; each colour is mapped by a table.
#pragma once

#include "cuda/device_batch.hpp"
#include "cuda/line_painter.hpp"

namespace cule {

constexpr u32 kDrawWarps = 2;
constexpr u32 kDrawThreads = kDrawWarps * kWarpLanes;
constexpr u32 kDrawSharedBytes = kDrawWarps * kPaintBytes;  // dynamic shared memory of a block

// One picture to draw from.
struct Picture {
  PictureKind kind;
  const u8* pixels;        // for kPixels
  const TiaWriteLog* log;  // for kLog
  u8 log_slot;
};

__device__ inline Picture picture_of(const Console& c, u32 n) {
  const PictureState& p = c.s.picture;
  const bool is_pixels = p.kind[n] == PictureKind::kBorrowed;
  return {is_pixels ? PictureKind::kPixels : p.kind[n], pixels_of(c, n),
          &c.memory.log(p.log_slot[n]), p.log_slot[n]};
}

// Draws a picture into rows that begin at a multiple of 16 bytes. Called by all lanes of a warp.
// With twins, called by both warps of the block.
__device__ CULE_INLINE void draw_rows(const Console& c, const Picture& p, const u8* map,
                                      u8* rows_out, const TwinPictures& twins = {}) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 memory = threadIdx.x / kWarpLanes * kPaintBytes;
  if (p.kind == PictureKind::kLog) {
    if (paint_lines(c, *p.log, memory, map, rows_out, twins)) return;
    if (lane == 0) paint_log<false>(c, *p.log, rows_out, map);
    return;
  }
  for (u32 i = lane; i < c.properties.height * kScreenWidth; i += kWarpLanes) {
    rows_out[i] = map[p.kind == PictureKind::kPixels ? p.pixels[i] : 0];
  }
}

// Scratch of the running block: the picture that warp n draws.
__device__ inline u8* plane_of(const DeviceBatch& b, u32 n) {
  return b.planes + (size_t(blockIdx.x) * kDrawWarps + n) * b.picture_bytes;
}

// Scratch of the running block: one picture of levels.
__device__ inline u8* canvas_of(const DeviceBatch& b) {
  return b.canvases + size_t(blockIdx.x) * b.picture_bytes * b.channels;
}

// Copies n bytes with all threads of the block.
__device__ inline void copy_block(u8* to, const u8* from, size_t n) {
  if (((reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | n) & 15) == 0) {
    // Four at a time: loads do not wait for stores.
    const u32 num = u32(n / sizeof(Bytes16)), step = blockDim.x;
    const Bytes16* const source = reinterpret_cast<const Bytes16*>(from);
    Bytes16* const target = reinterpret_cast<Bytes16*>(to);
    u32 i = threadIdx.x;
    for (; i + 3 * step < num; i += 4 * step) {
      const Bytes16 b[4] = {source[i], source[i + step], source[i + 2 * step],
                            source[i + 3 * step]};
      for (u32 k = 0; k < 4; ++k) target[i + k * step] = b[k];
    }
    for (; i < num; i += step) target[i] = source[i];
  } else {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
  }
}

}  // namespace cule
