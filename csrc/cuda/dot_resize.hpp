// cuda/dot_resize.hpp: tables for the area resize of gray pictures in whole numbers.
//
// A byte is a sum of products of levels and whole weights, which is exact; where rounding it is
// doubtful, resize_pixel() decides (obs/NOTES.md 3.4). For shapes with at most four taps down and
// three across, as those of 84 x 84.
#pragma once

#include "obs/resize.hpp"

namespace cule {

constexpr u32 kDotTaps = 4;

// The taps of one target index: the first source index and four weights, a byte each. Of columns
// the first index is a pair of source columns, and the weights are doubled.
struct DotTaps {
  u32 first;
  u32 weights;
};

struct DotResizer {
  DotTaps rows[kMaxAxis];
  DotTaps columns[kMaxAxis];
  u32 num_rows;  // of the target
  u32 num_columns;
  // A byte is (N + unit) / (2 unit), rounded down, where N / (2 unit) is its level: the upper word
  // of a product, shifted.
  u32 unit;
  u32 multiplier;
  u32 shift;
  // A remainder of that quotient leaves no doubt if it is one of so many, from the first sure one
  // on.
  u32 num_sure;
  // Added to N: unit, less the first sure remainder, so that those below it are the largest ones.
  // Bytes do not change by 256, which keep the sum from being negative.
  u32 offset;
  u8 is_paired;  // two rows for five: weights 2, 2, 1 and 1, 2, 2
  u8 is_usable;
};

// `group`: source indices that are read together, of which the taps use all but at most the first.
inline bool make_dot_taps(const AreaAxis& axis, u32 group, u32 factor, DotTaps* out) {
  if (axis.max_taps > i32(kDotTaps + 1 - group) || axis.source_size < i32(kDotTaps)) return false;
  for (i32 d = 0; d < axis.target_size; ++d) {
    const u32 last = u32(axis.source_size) - kDotTaps;
    const u32 first = axis.first[d] < last ? axis.first[d] / group * group : last;
    out[d] = {first / group, 0};
    for (i32 i = axis.begin[d]; i < axis.begin[d + 1]; ++i) {
      const u32 weight = factor * axis.whole_weight[i];
      if (weight > 0xFF) return false;
      out[d].weights |= weight << 8 * (axis.first[d] - first + u32(i - axis.begin[d]));
    }
  }
  return true;
}

inline DotResizer make_dot_resizer(const AreaResizer& r) {
  DotResizer d{};
  constexpr u32 kMaxLevel = 255;
  d.num_rows = u32(r.rows.target_size);
  d.num_columns = u32(r.columns.target_size);
  d.unit = u32(r.rows.unit * r.columns.unit);
  const u32 divisor = 2 * d.unit;
  while (2u << d.shift < divisor) ++d.shift;
  d.multiplier = u32(((u64(1) << (32 + d.shift)) + divisor - 1) / divisor);
  const u32 doubtful = u32((0.5 - double(doubt_limit(r))) * divisor);
  d.offset = d.unit + (kMaxLevel + 1) * divisor - (doubtful + 1);
  d.num_sure = divisor - 2 * doubtful - 1;
  d.is_paired = 5 * r.rows.target_size == 2 * r.rows.source_size;
  d.is_usable = r.channels == 1 && r.rule == AreaRule::kFloat && kMaxLevel * d.unit < 1 << 24 &&
                kMaxLevel * u32(r.rows.unit) <= 0xFFFF && make_dot_taps(r.rows, 1, 1, d.rows) &&
                make_dot_taps(r.columns, 2, 2, d.columns);
  return d;
}

}  // namespace cule
