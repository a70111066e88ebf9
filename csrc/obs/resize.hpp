// obs/resize.hpp: area resize of one picture, exactly as ale-py's vector environment does it.
//
// In: u8 [source rows][source columns][channels] (1 gray, 3 interleaved red, green, blue). Out: the
// same kind with fewer or as many rows and columns. Rule and source: obs/NOTES.md 3. In short: each
// axis gives every target index a list of source indices (taps) with float32 weights; a pixel is
// the float32 sum, rows last, of products rounded one by one, then rounded to nearest, ties to
// even. Whole ratios on both axes are summed in integers instead.
//
// This is the plain version: resize_pixel() states the rule for one byte and runs anywhere. The
// host uses resize_simd.hpp, which equals it byte for byte. Products must not be fused with the
// sums that follow: build with -ffp-contract=off (nvcc: -fmad=false).
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"
#include "tia/clocks.hpp"

namespace cule {

inline constexpr i32 kMaxAxis = i32(kMaxRows);  // longest axis, in pixels

// Taps of one axis. Those of target index d are source indices first[d], first[d] + 1, ... with the
// weights at begin[d] to begin[d + 1].
struct AreaAxis {
  i32 source_size;                 // pixels
  i32 target_size;                 // pixels, 1 to source_size
  i32 unit;                        // whole_weight / unit is the weight in exact arithmetic
  i32 max_taps;                    // of any target index
  u16 first[kMaxAxis];             // source index
  u16 begin[kMaxAxis + 1];         // index into the next two
  float weight[2 * kMaxAxis];      // of a tap, as the rule has it
  u16 whole_weight[2 * kMaxAxis];  // of a tap; those of one target index add up to unit
};

enum class AreaRule : u8 {
  kCopy,   // same size
  kHalf,   // both axes by two: (sum + 2) >> 2
  kBlock,  // both axes by whole numbers: sum times float32(1 / pixels), ties to even
  kFloat,  // all else: the float32 sums
};

// Flat and without pointers; made once per shape by make_area_resizer().
struct AreaResizer {
  AreaAxis rows;
  AreaAxis columns;
  i32 channels;       // bytes a pixel: 1 or 3
  float block_scale;  // kBlock: float32(1 / pixels a block)
  AreaRule rule;
};

// Enlarging either axis is another method, which this file does not have.
constexpr bool can_resize(i32 source_rows, i32 source_columns, i32 target_rows,
                          i32 target_columns) {
  return 0 < target_rows && target_rows <= source_rows && source_rows <= kMaxAxis &&
         0 < target_columns && target_columns <= source_columns && source_columns <= kMaxAxis;
}

// Source pixels of a target pixel, with the rounding of the rule (NOTES.md 3.1).
inline double area_scale(i32 source_size, i32 target_size) {
  return 1.0 / (double(target_size) / double(source_size));
}

// One axis of the rule (NOTES.md 3.1); source_size >= target_size > 0.
inline void make_area_axis(i32 source_size, i32 target_size, AreaAxis& axis_out) {
  constexpr double kLeast = 0.001;  // pixels; a smaller overlap is no tap
  i32 factor = target_size;         // becomes the greatest common divisor
  for (i32 rest = source_size % target_size; rest != 0;) {
    const i32 next = factor % rest;
    factor = rest;
    rest = next;
  }
  axis_out = {};
  axis_out.source_size = source_size;
  axis_out.target_size = target_size;
  axis_out.unit = source_size / factor;

  i32 taps = 0;
  const auto add_tap = [&](double weight) {
    axis_out.weight[taps] = float(weight);
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): positive, and the core has no lround
    axis_out.whole_weight[taps] = u16(weight * axis_out.unit + 0.5);
    ++taps;
  };
  const double scale = area_scale(source_size, target_size);
  for (i32 d = 0; d < target_size; ++d) {
    const double begin = d * scale;
    const double end = begin + scale;
    const double cell = scale < source_size - begin ? scale : source_size - begin;
    // The last source index, which d + 1 may share.
    const i32 last = i32(end) < source_size - 1 ? i32(end) : source_size - 1;
    i32 first_whole = i32(begin) + (i32(begin) < begin ? 1 : 0);
    if (first_whole > last) first_whole = last;

    const bool has_head = first_whole - begin > kLeast;
    const double tail = end - last < 1.0 ? end - last : 1.0;
    axis_out.first[d] = u16(has_head ? first_whole - 1 : first_whole);
    axis_out.begin[d] = u16(taps);
    if (has_head) add_tap((first_whole - begin) / cell);
    for (i32 s = first_whole; s < last; ++s) add_tap(1.0 / cell);
    if (end - last > kLeast) add_tap((tail < cell ? tail : cell) / cell);
    const i32 taps_here = taps - axis_out.begin[d];
    if (taps_here > axis_out.max_taps) axis_out.max_taps = taps_here;
  }
  axis_out.begin[target_size] = u16(taps);
}

// can_resize() must hold.
inline AreaResizer make_area_resizer(i32 source_rows, i32 source_columns, i32 target_rows,
                                     i32 target_columns, i32 channels) {
  AreaResizer resizer;
  make_area_axis(source_rows, target_rows, resizer.rows);
  make_area_axis(source_columns, target_columns, resizer.columns);
  resizer.channels = channels;
  const i32 row_factor = source_rows / target_rows;
  const i32 column_factor = source_columns / target_columns;
  resizer.block_scale = 1.0F / float(row_factor * column_factor);
  // Not whole either: 210 and 105 rows to one, whose scale is rounded below them.
  if (area_scale(source_rows, target_rows) != row_factor ||
      area_scale(source_columns, target_columns) != column_factor) {
    resizer.rule = AreaRule::kFloat;
  } else if (row_factor * column_factor == 1) {
    resizer.rule = AreaRule::kCopy;
  } else {
    resizer.rule = row_factor == 2 && column_factor == 2 ? AreaRule::kHalf : AreaRule::kBlock;
  }
  return resizer;
}

// Nearest whole number of 0 <= value < 2^22, ties to even: floats of the size of kWholeStep are one
// apart.
CULE_HD CULE_INLINE float round_half_even(float value) {
  constexpr float kWholeStep = 12582912.0F;  // 1.5 * 2^23
  return (value + kWholeStep) - kWholeStep;
}

CULE_HD CULE_INLINE u8 saturate(float whole) { return u8(whole < 255.0F ? whole : 255.0F); }

// In exact arithmetic a byte is n / (rows.unit * columns.unit), n being the sum of the products of
// source bytes and whole weights. Where this is so far from a whole number, or farther, the rule
// may round the other way (NOTES.md 3.4).
inline float doubt_limit(const AreaResizer& resizer) {
  constexpr i32 kLevels = 255;
  if (resizer.rule != AreaRule::kFloat) return 1.0F;  // never
  const i32 roundings = resizer.rows.max_taps + resizer.columns.max_taps + 5;
  return 0.5F - float(kLevels * roundings) / (1 << 24);
}

// One byte of the target. `source[i]` is byte i of the source.
template <class Source>
CULE_HD inline u8 resize_pixel(const AreaResizer& resizer, const Source& source, i32 row,
                               i32 column, i32 channel) {
  const AreaAxis& rows = resizer.rows;
  const AreaAxis& columns = resizer.columns;
  const i32 row_begin = rows.begin[row];
  const i32 row_taps = rows.begin[row + 1] - row_begin;
  const i32 column_begin = columns.begin[column];
  const i32 column_taps = columns.begin[column + 1] - column_begin;
  const i32 corner =
      (rows.first[row] * columns.source_size + columns.first[column]) * resizer.channels + channel;
  const i32 row_bytes = columns.source_size * resizer.channels;

  if (resizer.rule == AreaRule::kFloat) {
    float value = 0.0F;
    for (i32 j = 0; j < row_taps; ++j) {
      float across = 0.0F;
      for (i32 i = 0; i < column_taps; ++i) {
        const float product = float(source[corner + j * row_bytes + i * resizer.channels]) *
                              columns.weight[column_begin + i];
        across += product;
      }
      const float product = rows.weight[row_begin + j] * across;
      value += product;
    }
    return saturate(round_half_even(value));
  }
  i32 sum = 0;
  for (i32 j = 0; j < row_taps; ++j) {
    for (i32 i = 0; i < column_taps; ++i) {
      sum += source[corner + j * row_bytes + i * resizer.channels];
    }
  }
  if (resizer.rule == AreaRule::kHalf) return u8((sum + 2) >> 2);
  return saturate(round_half_even(float(sum) * resizer.block_scale));
}

// The whole picture, plainly. target: u8 [target rows][target columns][channels], apart from
// source.
CULE_HD inline void resize(const AreaResizer& resizer, const u8* source, u8* target_out) {
  for (i32 row = 0; row < resizer.rows.target_size; ++row) {
    for (i32 column = 0; column < resizer.columns.target_size; ++column) {
      for (i32 channel = 0; channel < resizer.channels; ++channel) {
        *target_out++ = resize_pixel(resizer, source, row, column, channel);
      }
    }
  }
}

}  // namespace cule
