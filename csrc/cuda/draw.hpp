// cuda/draw.hpp: pictures drawn by a block of threads: one pass over the log, then all lines at
// once.
//
// A picture that is kept as a log is drawn in two stages (tia/lines.hpp): one thread, or one for
// each band, finds the states at the starts of the lines, then each thread draws whole lines. A
// picture that is kept as pixels is copied. All threads of the block call these functions together.
#pragma once

#include "cuda/device_batch.hpp"

namespace cule {

constexpr u32 kDrawThreads = 256;

// One picture to draw from.
struct Picture {
  PictureKind kind;
  const u8* pixels;         // for kPixels
  const TiaWriteLog* log;   // for kLog
  const LineStart* starts;  // likewise: [height]
};

__device__ inline Picture picture_of(const Console& c, u32 n, const LineStart* starts) {
  const PictureState& p = c.s.picture;
  const bool is_pixels = p.kind[n] == PictureKind::kBorrowed;
  return {is_pixels ? PictureKind::kPixels : p.kind[n], pixels_of(c, n),
          c.memory.logs + p.log_slot[n], starts};
}

// The starts of the lines in `range`, or of its bands. Called by one thread.
__device__ CULE_NOINLINE inline void find_starts(const Console& c, const Picture& p,
                                                 const LineStart& from, const LineRange& range,
                                                 LineStart* starts_out) {
  const TiaWriteLog& log = *p.log;
  find_line_starts(from, log.entries, log.size, log.base_clock, picture_window(c),
                   c.properties.hmove_blanks != 0, range, starts_out);
}

// From the beginning of the log, in bands of so many lines. Called by one thread.
__device__ inline void find_starts(const Console& c, const Picture& p, u32 band,
                                   LineStart* starts_out) {
  const TiaWriteLog& log = *p.log;
  find_starts(c, p, LineStart{log.start, log.start_beam, 0, 1},
              LineRange{log.first_line, c.properties.height, band}, starts_out);
}

// Draws row k of a picture into 160 bytes, each colour mapped by `map`. Called by any thread.
__device__ CULE_NOINLINE inline void draw_row(const Console& c, const Picture& p, u32 k,
                                              const u8* map, u8* row_out) {
  if (p.kind == PictureKind::kLog) {
    const TiaWriteLog& log = *p.log;
    draw_line(p.starts[k], log.entries, log.size, log.base_clock, picture_window(c),
              c.properties.hmove_blanks != 0, Canvas{row_out, log.first_line + k, 1, map});
    return;
  }
  const u8* from = p.pixels + k * kScreenWidth;
  for (u32 x = 0; x < kScreenWidth; ++x) {
    row_out[x] = map[p.kind == PictureKind::kPixels ? from[x] : 0];
  }
}

// Scratch of the running block: the line starts of picture n of kMaxpoolLogs.
__device__ inline LineStart* line_starts(const DeviceBatch& b, u32 n) {
  return b.line_starts + (size_t(blockIdx.x) * kMaxpoolLogs + n) * kMaxRows;
}

// Scratch of the running block: one picture of levels.
__device__ inline u8* canvas_of(const DeviceBatch& b) {
  return b.canvases + size_t(blockIdx.x) * b.picture_bytes * b.channels;
}

struct alignas(16) Bytes16 {
  u32 word[4];
};

// Copies n bytes with all threads of the block.
__device__ inline void copy_block(u8* to, const u8* from, size_t n) {
  if (((reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | n) & 15) == 0) {
    for (size_t i = threadIdx.x; i < n / 16; i += blockDim.x) {
      reinterpret_cast<Bytes16*>(to)[i] = reinterpret_cast<const Bytes16*>(from)[i];
    }
  } else {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
  }
}

}  // namespace cule
