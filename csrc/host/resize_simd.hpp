// host/resize_simd.hpp: the area resize of obs/resize.hpp for the host, in whole numbers and with
// AVX2 or NEON.
//
// Equal to the plain resize() byte for byte. Not for the device: .cu files do not include it.
//
// In exact arithmetic a target byte is n / (unit of rows * unit of columns), n being the sum of
// source bytes times whole weights. The float32 sums of the rule stay close to that, so wherever n
// is farther from half way between two bytes than they can err, rounding n gives the rule's answer.
// The bytes that remain (at 84x84 only exact ties) are doubtful, and resize_pixel() decides them.
// Proof of the margin: obs/NOTES.md 3.4.
//
// Order of work, one target row at a time: its source rows are added up into u16 column sums. Equal
// sums mean an equal target row but for doubtful bytes, so it is kept. Otherwise the columns are
// added up into i32 and rounded. Then doubtful bytes are decided.
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "host/resize_plan.hpp"
#include "host/row_set.hpp"
#include "obs/resize.hpp"

namespace cule {
namespace resize_detail {

// kTaps: taps of the row, or 0 for any number.
template <i32 kTaps>
inline void sum_rows(const u8* line, i32 row_bytes, const u16* weights, i32 taps, u16* sums_out) {
  u16 weight[kMaxAxis];
  taps = kTaps > 0 ? kTaps : taps;
  for (i32 tap = 0; tap < taps; ++tap) weight[tap] = weights[tap];
  for (i32 x = 0; x < row_bytes; ++x) {
    u16 sum = 0;
    for (i32 tap = 0; tap < taps; ++tap) {
      sum = u16(sum + u16(weight[tap] * line[tap * row_bytes + x]));
    }
    sums_out[x] = sum;
  }
}

// kTaps: columns.max_taps, or 0 for any number.
template <i32 kTaps, i32 kChannels>
inline bool finish_row(const ResizePlan& plan, const u16* sums, RowWork& work) {
  const AreaAxis& columns = plan.resizer.columns;
  const i32 taps = kTaps > 0 ? kTaps : columns.max_taps;
  const u16* weights = plan.column_weight.data();
  i32 totals[kMaxRowBytes];
  for (i32 column = 0; column < columns.target_size; ++column, weights += taps) {
    for (i32 c = 0; c < kChannels; ++c) {
      const u16* sum = sums + columns.first[column] * kChannels + c;
      i32 total = 0;
      for (i32 tap = 0; tap < taps; ++tap) total += weights[tap] * sum[tap * kChannels];
      totals[column * kChannels + c] = total;
    }
  }
  // Errors are compared as whole numbers: a comparison of floats would keep the loop from
  // vectorising.
  constexpr float kErrorSteps = 1 << 24;
  const i32 doubt_steps = i32(plan.doubt_limit * kErrorSteps);
  i32 is_doubtful[kMaxRowBytes];
  i32 is_any_doubtful = 0;
  for (i32 x = 0; x < plan.target_row_bytes; ++x) {
    const float level = float(totals[x]) * plan.scale;
    const float whole = round_half_even(level);
    const float error = __builtin_fabsf(level - whole);
    is_doubtful[x] = i32(error * kErrorSteps) >= doubt_steps ? 1 : 0;
    is_any_doubtful |= is_doubtful[x];
    totals[x] = i32(whole);
  }
  for (i32 x = 0; x < plan.target_row_bytes; ++x) work.target[x] = u8(totals[x]);
  if (is_any_doubtful == 0) return false;
  std::memset(work.doubts, 0, sizeof(work.doubts));
  for (i32 x = 0; x < plan.target_row_bytes; ++x) {
    work.doubts[x / kGroup] = u8(work.doubts[x / kGroup] | is_doubtful[x] << x % kGroup);
  }
  return true;
}

template <i32 kChannels>
inline bool finish_row(const ResizePlan& plan, const u16* sums, RowWork& work) {
  switch (plan.resizer.columns.max_taps) {
    case 2:
      return finish_row<2, kChannels>(plan, sums, work);
    case 3:
      return finish_row<3, kChannels>(plan, sums, work);
    case 4:
      return finish_row<4, kChannels>(plan, sums, work);
    default:
      return finish_row<0, kChannels>(plan, sums, work);
  }
}

// One target row in plain C++, into work.target; true when a byte is doubtful.
struct PlainRows {
  static void sum(const u8* line, i32 row_bytes, const u16* weights, i32 taps, u16* sums_out) {
    switch (taps) {
      case 2:
        return sum_rows<2>(line, row_bytes, weights, taps, sums_out);
      case 3:
        return sum_rows<3>(line, row_bytes, weights, taps, sums_out);
      case 4:
        return sum_rows<4>(line, row_bytes, weights, taps, sums_out);
      default:
        return sum_rows<0>(line, row_bytes, weights, taps, sums_out);
    }
  }
  static bool finish(const ResizePlan& plan, const u16* sums, RowWork& work) {
    return plan.resizer.channels == 1 ? finish_row<1>(plan, sums, work)
                                      : finish_row<3>(plan, sums, work);
  }
};

}  // namespace resize_detail
}  // namespace cule

#if defined(CULE_AVX2)
#include "host/resize_avx2.hpp"
#endif
#if defined(CULE_NEON)
#include "host/resize_neon.hpp"
#endif

namespace cule {
namespace resize_detail {

// Decides the doubtful bytes of a row by the float32 sums.
CULE_NOINLINE inline void settle_doubts(const ResizePlan& plan, const u8* source, i32 row,
                                        const u8* doubts, u8* target_row_out) {
  const i32 channels = plan.resizer.channels;
  for (i32 group = 0; group * kGroup < plan.target_row_bytes; ++group) {
    for (u32 left = doubts[group]; left != 0; left &= left - 1) {
      const i32 x = group * kGroup + __builtin_ctz(left);
      target_row_out[x] = resize_pixel(plan.resizer, source, row, x / channels, x % channels);
    }
  }
}

// Of the picture before, and which source rows have changed since. Null: nothing is known.
struct Before {
  const RowSet* changed = nullptr;
  const u8* target = nullptr;
};

template <class Rows>
inline void resize_rows(const ResizePlan& plan, const u8* source, const Before& before,
                        u8* target_out) {
  const AreaAxis& rows = plan.resizer.rows;
  const size_t sums_bytes = sizeof(u16) * size_t(plan.source_row_bytes);
  RowWork work;
  for (RowSums& sums : work.sums) {
    std::memset(sums.sum, 0, sizeof(u16) * RowSums::kMargin);
    std::memset(sums.row() + plan.source_row_bytes, 0, sizeof(u16) * RowSums::kMargin);
  }
  bool has_doubts = false;
  bool has_sums = false;  // of the row above
  const size_t target_bytes = size_t(plan.target_row_bytes);
  for (i32 row = 0; row < rows.target_size; ++row, target_out += target_bytes) {
    const i32 begin = rows.begin[row];
    const i32 taps = rows.begin[row + 1] - begin;
    const u32 first = rows.first[row];
    if (before.changed != nullptr && !before.changed->has_any(first, first + u32(taps))) {
      const u8* same = before.target + size_t(row) * target_bytes;
      if (same != target_out) std::memcpy(target_out, same, target_bytes);
      has_sums = false;
      continue;
    }
    u16* sums = work.sums[row & 1].row();
    Rows::sum(source + i32(first) * plan.source_row_bytes, plan.source_row_bytes,
              rows.whole_weight + begin, taps, sums);
    if (!has_sums || std::memcmp(sums, work.sums[~row & 1].row(), sums_bytes) != 0) {
      has_doubts = Rows::finish(plan, sums, work);
    }
    has_sums = true;
    std::memcpy(target_out, work.target, target_bytes);
    if (CULE_UNLIKELY(has_doubts)) settle_doubts(plan, source, row, work.doubts, target_out);
  }
}

}  // namespace resize_detail

// source: u8 [source rows][source columns][channels]; target: u8 [target rows][target
// columns][channels], apart from it.
inline void resize(const ResizePlan& plan, const u8* source, u8* target_out,
                   const resize_detail::Before& before = {}) {
  if (plan.resizer.rule == AreaRule::kCopy) {
    std::memcpy(target_out, source,
                size_t(plan.source_row_bytes) * size_t(plan.resizer.rows.source_size));
#if defined(CULE_VECTOR)
  } else if (plan.is_vectorised) {
    resize_detail::resize_rows<resize_detail::VectorRows>(plan, source, before, target_out);
#endif
  } else if (plan.is_whole) {
    resize_detail::resize_rows<resize_detail::PlainRows>(plan, source, before, target_out);
  } else {
    resize(plan.resizer, source, target_out);
  }
}

}  // namespace cule
