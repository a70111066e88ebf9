// cuda/dot_resize.hpp: the area resize of gray pictures in whole numbers, four taps at a time.
//
// In: a picture of 160 levels a row. Out: the bytes of resize_pixel(). A byte is a sum of products
// of levels and whole weights, which is exact; where rounding it is doubtful, resize_pixel()
// decides (obs/NOTES.md 3.4). For shapes whose taps are at most four on each axis, as those of 84 x
// 84 are.
#pragma once

#include "base/bits.hpp"
#include "obs/resize.hpp"

namespace cule {

// The taps of one axis: a source index, and up to four weights, a byte each.
struct DotAxis {
  u16 first[kMaxAxis];
  u32 weights[kMaxAxis];
};

struct DotResizer {
  DotAxis rows;
  DotAxis columns;
  float scale;  // target level of a sum of 1
  float doubt_limit;
  u8 is_usable;
};

inline bool make_dot_axis(const AreaAxis& axis, DotAxis& out) {
  if (axis.max_taps > 4) return false;
  for (i32 d = 0; d < axis.target_size; ++d) {
    out.first[d] = axis.first[d];
    for (i32 i = axis.begin[d]; i < axis.begin[d + 1]; ++i) {
      if (axis.whole_weight[i] > 0xFF) return false;
      out.weights[d] |= u32(axis.whole_weight[i]) << 8 * (i - axis.begin[d]);
    }
  }
  return true;
}

inline DotResizer make_dot_resizer(const AreaResizer& r) {
  DotResizer d{};
  const i32 unit = r.rows.unit * r.columns.unit;
  d.scale = 1.0F / float(unit);
  d.doubt_limit = doubt_limit(r);
  d.is_usable = r.channels == 1 && r.rule == AreaRule::kFloat && 255 * unit < 1 << 24 &&
                make_dot_axis(r.rows, d.rows) && make_dot_axis(r.columns, d.columns);
  return d;
}

// What bytes of one target column have in common.
struct DotColumn {
  u32 target;
  u32 word;   // of a source row: where the taps begin,
  u32 shift;  // and bits before them
  u32 weights;
};

CULE_HD CULE_INLINE DotColumn dot_column(const DotResizer& d, u32 column) {
  const u32 x = d.columns.first[column];
  return {column, x / 4, x % 4 * 8, d.columns.weights[column]};
}

// One byte of the target. Reads whole words, so up to seven bytes after the picture.
CULE_HD CULE_INLINE u8 dot_resize_pixel(const DotResizer& d, const AreaResizer& r, const u8* source,
                                        u32 row, const DotColumn& c) {
  constexpr u32 kRowWords = kScreenWidth / sizeof(u32);
  const u32* words = reinterpret_cast<const u32*>(source) + d.rows.first[row] * kRowWords + c.word;
  const u32 down = d.rows.weights[row];
  u32 sum = 0;
  for (u32 tap = 0; tap < 4; ++tap) {  // unrolled: all loads from one address
    const u32 weight = down >> 8 * tap;
    if (weight == 0) break;
    const u32* word = words + tap * kRowWords;
    const u32 pixels = CULE_FUNNEL_RIGHT(word[1], word[0], c.shift);
    sum += CULE_DOT_BYTES(pixels, c.weights, 0u) * (weight & 0xFF);
  }
  const float level = float(sum) * d.scale;
  const float whole = round_half_even(level);
  const float distance = level > whole ? level - whole : whole - level;
  if (distance >= d.doubt_limit) return resize_pixel(r, source, i32(row), i32(c.target), 0);
  return saturate(whole);
}

}  // namespace cule
