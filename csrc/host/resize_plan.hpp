// host/resize_plan.hpp: what the host's area resize (host/resize_simd.hpp) knows about a shape.
//
// On top of the taps of obs/resize.hpp: when a byte is doubtful, and the column taps in two other
// forms: padded to one number of taps a column, and as shuffles of eight column sums at a time for
// AVX2 and NEON.
#pragma once

#include <cstring>
#include <vector>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "obs/resize.hpp"

namespace cule {

inline constexpr i32 kMaxRowBytes = i32(kScreenWidth) * 3;
inline constexpr i32 kHalfGroup = 4;  // target bytes that one 128-bit lane adds up
inline constexpr i32 kGroup = 8;      // target bytes that are rounded together
inline constexpr i32 kLaneSums = 8;   // column sums in a lane
inline constexpr i32 kMaxGroups = kMaxRowBytes / kGroup;

// Picks column sums, two for each byte of a group. The low lane holds the sums from `window` on,
// the high lane those from window + kLaneSums on; each picks for its half of the group.
struct alignas(32) ShuffleStep {
  u8 pick[4 * kGroup];     // byte shuffle within a lane; 0x80 picks zero
  i16 weight[2 * kGroup];  // whole weights of the picked sums
  i32 window;              // from -kLaneSums to source row bytes - 1
};

// Everything about one shape. Made once by make_resize_plan(); read by any number of threads.
struct ResizePlan {
  AreaResizer resizer;
  i32 source_row_bytes = 0;
  i32 target_row_bytes = 0;
  float scale = 0;                 // target level of n = 1
  float doubt_limit = 0;           // a level this far from a whole number, or farther, is doubtful
  bool is_whole = false;           // sums fit their types; otherwise the plain resize() does it all
  bool is_vectorised = false;      // the machine has vectors, and they can do this shape
  i32 group_steps = 0;             // shuffle steps a group
  std::vector<ShuffleStep> steps;  // [pairs of groups][2][group_steps], when is_vectorised
  std::vector<u16> column_weight;  // [target columns][max_taps], padded with 0, when not
};

namespace resize_detail {

// Column sums of one target row. Shuffles and padded taps look a little past both ends, and weigh
// what they see there with zero.
struct RowSums {
  static constexpr i32 kMargin = 2 * kLaneSums;
  alignas(32) u16 sum[kMargin + kMaxRowBytes + kMargin];

  u16* row() { return sum + kMargin; }
};

struct RowWork {
  RowSums sums[2];                               // of this row and of the previous one, alternating
  alignas(32) u8 target[kMaxRowBytes + kGroup];  // pairs of groups, so it may run past the row
  u8 doubts[kMaxGroups + 1];                     // bit t: byte t of the group is doubtful
};

struct Tap {
  i32 position;  // index of a column sum
  u16 weight;    // whole
};

// Taps of one target byte.
inline std::vector<Tap> byte_taps(const AreaResizer& resizer, i32 byte) {
  const AreaAxis& columns = resizer.columns;
  const i32 column = byte / resizer.channels;
  std::vector<Tap> taps;
  for (i32 i = columns.begin[column]; i < columns.begin[column + 1]; ++i) {
    const i32 source_column = columns.first[column] + i - columns.begin[column];
    taps.push_back(
        {source_column * resizer.channels + byte % resizer.channels, columns.whole_weight[i]});
  }
  return taps;
}

// Makes a step of as many of the leftmost taps in `left` as one window can hold, and removes them.
inline ShuffleStep make_step(std::vector<Tap> (&left)[kGroup]) {
  ShuffleStep step{};
  std::memset(step.pick, 0x80, sizeof(step.pick));
  step.window = kMaxRowBytes;
  for (i32 t = 0; t < kGroup; ++t) {
    const i32 lane_begin = t < kHalfGroup ? 0 : kLaneSums;
    if (!left[t].empty() && left[t][0].position - lane_begin < step.window) {
      step.window = left[t][0].position - lane_begin;
    }
  }
  for (i32 t = 0; t < kGroup; ++t) {
    const i32 lane_begin = step.window + (t < kHalfGroup ? 0 : kLaneSums);
    for (i32 k = 0; k < 2 && !left[t].empty(); ++k) {
      const i32 lane_index = left[t][0].position - lane_begin;
      if (lane_index >= kLaneSums) break;
      const i32 slot = 2 * t + k;
      step.weight[slot] = i16(left[t][0].weight);
      step.pick[2 * slot] = u8(2 * lane_index);
      step.pick[2 * slot + 1] = u8(2 * lane_index + 1);
      left[t].erase(left[t].begin());
    }
  }
  return step;
}

inline void make_steps(ResizePlan& plan) {
  std::vector<std::vector<ShuffleStep>> groups;
  for (i32 begin = 0; begin < plan.target_row_bytes || groups.size() % 2 != 0; begin += kGroup) {
    groups.emplace_back();
    std::vector<Tap> left[kGroup];
    size_t taps_left = 0;
    for (i32 t = 0; t < kGroup && begin + t < plan.target_row_bytes; ++t) {
      left[t] = byte_taps(plan.resizer, begin + t);
      taps_left += left[t].size();
    }
    while (taps_left > 0) {
      groups.back().push_back(make_step(left));
      taps_left = 0;
      for (const std::vector<Tap>& taps : left) taps_left += taps.size();
    }
    if (i32(groups.back().size()) > plan.group_steps) plan.group_steps = i32(groups.back().size());
  }
  for (std::vector<ShuffleStep>& group : groups) {
    group.resize(size_t(plan.group_steps));  // steps of weight zero
    plan.steps.insert(plan.steps.end(), group.begin(), group.end());
  }
}

inline void make_padded_weights(ResizePlan& plan) {
  const AreaAxis& columns = plan.resizer.columns;
  plan.column_weight.assign(size_t(columns.target_size) * size_t(columns.max_taps), 0);
  for (i32 column = 0; column < columns.target_size; ++column) {
    for (i32 i = columns.begin[column]; i < columns.begin[column + 1]; ++i) {
      const i32 tap = i - columns.begin[column];
      plan.column_weight[size_t(column) * size_t(columns.max_taps) + size_t(tap)] =
          columns.whole_weight[i];
    }
  }
}

}  // namespace resize_detail

// can_resize() must hold. may_vectorise false leaves vectors out, for tests.
inline ResizePlan make_resize_plan(i32 source_rows, i32 source_columns, i32 target_rows,
                                   i32 target_columns, i32 channels, bool may_vectorise = true) {
  constexpr i32 kLevels = 255;
  ResizePlan plan{};
  plan.resizer =
      make_area_resizer(source_rows, source_columns, target_rows, target_columns, channels);
  plan.source_row_bytes = source_columns * channels;
  plan.target_row_bytes = target_columns * channels;
  const AreaAxis& rows = plan.resizer.rows;
  const AreaAxis& columns = plan.resizer.columns;
  const i32 unit = rows.unit * columns.unit;
  plan.scale = 1.0F / float(unit);
  plan.doubt_limit = doubt_limit(plan.resizer);
  if (plan.resizer.rule == AreaRule::kHalf) {
    plan.scale *= 1.0F + 1.0F / (1 << 22);  // lifts n = 2, 6, 10, ... just over half way
  }
  plan.is_whole = plan.source_row_bytes <= kMaxRowBytes && kLevels * rows.unit < 1 << 16 &&
                  kLevels * unit < 1 << 24;
  plan.is_vectorised = may_vectorise && plan.is_whole && CULE_HAS_VECTORS() &&
                       plan.source_row_bytes % 16 == 0 && kLevels * rows.unit < 1 << 15;
  if (plan.is_vectorised) {
    resize_detail::make_steps(plan);
  } else {
    resize_detail::make_padded_weights(plan);
  }
  return plan;
}

}  // namespace cule
