// host/resize_avx2.hpp: the two inner loops of host/resize_simd.hpp with AVX2, chosen at run time.
//
// Only AVX2 is switched on, not FMA, so no product here can be fused with a sum.
#pragma once

#include <immintrin.h>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "host/resize_plan.hpp"

namespace cule {
namespace resize_detail {

// kTaps: taps of the row, or 0 for any number. row_bytes is a multiple of 16.
template <i32 kTaps>
CULE_AVX2 inline void sum_rows_avx2(const u8* line, i32 row_bytes, const u16* weights, i32 taps,
                                    u16* sums_out) {
  __m256i weight[kTaps > 0 ? kTaps : 1];
  for (i32 tap = 0; tap < kTaps; ++tap) weight[tap] = _mm256_set1_epi16(i16(weights[tap]));
  for (i32 x = 0; x < row_bytes; x += 16) {
    __m256i sum = _mm256_setzero_si256();
    for (i32 tap = 0; tap < (kTaps > 0 ? kTaps : taps); ++tap) {
      const auto* bytes = reinterpret_cast<const __m128i*>(line + tap * row_bytes + x);
      const __m256i levels = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes));
      const __m256i factor =
          kTaps > 0 ? weight[kTaps > 0 ? tap : 0] : _mm256_set1_epi16(i16(weights[tap]));
      sum = _mm256_add_epi16(sum, _mm256_mullo_epi16(levels, factor));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums_out + x), sum);
  }
}

// Adds up and rounds one group; error_out: how far each level was from its whole number.
// kSteps: plan.group_steps, or 0 for any number.
template <i32 kSteps>
CULE_AVX2 CULE_INLINE __m256i round_group(const ShuffleStep* step, i32 steps, const u16* sums,
                                          __m256 scale, __m256& error_out) {
  __m256i total = _mm256_setzero_si256();
  for (i32 i = 0; i < (kSteps > 0 ? kSteps : steps); ++i, ++step) {
    const __m256i window =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + step->window));
    const __m256i pick = _mm256_load_si256(reinterpret_cast<const __m256i*>(step->pick));
    const __m256i weight = _mm256_load_si256(reinterpret_cast<const __m256i*>(step->weight));
    total = _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_shuffle_epi8(window, pick), weight));
  }
  const __m256 level = _mm256_mul_ps(_mm256_cvtepi32_ps(total), scale);
  const __m256 whole = _mm256_round_ps(level, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  error_out = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), _mm256_sub_ps(level, whole));
  return _mm256_cvttps_epi32(whole);
}

// Returns whether a byte is doubtful; kNamesDoubts also says which ones.
template <i32 kSteps, bool kNamesDoubts>
CULE_AVX2 inline bool finish_row_avx2(const ResizePlan& plan, const u16* sums, RowWork& work) {
  const __m256 scale = _mm256_set1_ps(plan.scale);
  const __m256 doubt_limit = _mm256_set1_ps(plan.doubt_limit);
  const i32 steps = kSteps > 0 ? kSteps : plan.group_steps;
  const ShuffleStep* step = plan.steps.data();
  __m256 farthest = _mm256_setzero_ps();
  for (i32 x = 0; x < plan.target_row_bytes; x += 2 * kGroup, step += 2 * steps) {
    __m256 errors[2];
    const __m256i first = round_group<kSteps>(step, steps, sums, scale, errors[0]);
    const __m256i second = round_group<kSteps>(step + steps, steps, sums, scale, errors[1]);
    farthest = _mm256_max_ps(farthest, _mm256_max_ps(errors[0], errors[1]));
    if (kNamesDoubts) {
      for (i32 i = 0; i < 2; ++i) {
        const __m256 is_doubtful = _mm256_cmp_ps(errors[i], doubt_limit, _CMP_GE_OQ);
        work.doubts[x / kGroup + i] = u8(_mm256_movemask_ps(is_doubtful));
      }
    }
    // Both packs work within lanes: halves 0 2 1 3 of the pair, put in order at the end.
    const __m256i words = _mm256_packs_epi32(first, second);
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m256i ordered =
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
    _mm_store_si128(reinterpret_cast<__m128i*>(work.target + x), _mm256_castsi256_si128(ordered));
  }
  return _mm256_movemask_ps(_mm256_cmp_ps(farthest, doubt_limit, _CMP_GE_OQ)) != 0;
}

template <i32 kSteps>
inline bool finish_row_avx2(const ResizePlan& plan, const u16* sums, RowWork& work) {
  return finish_row_avx2<kSteps, false>(plan, sums, work) &&
         finish_row_avx2<kSteps, true>(plan, sums, work);
}

// One target row, as PlainRows.
struct VectorRows {
  static void sum(const u8* line, i32 row_bytes, const u16* weights, i32 taps, u16* sums_out) {
    switch (taps) {
      case 2:
        return sum_rows_avx2<2>(line, row_bytes, weights, taps, sums_out);
      case 3:
        return sum_rows_avx2<3>(line, row_bytes, weights, taps, sums_out);
      case 4:
        return sum_rows_avx2<4>(line, row_bytes, weights, taps, sums_out);
      default:
        return sum_rows_avx2<0>(line, row_bytes, weights, taps, sums_out);
    }
  }
  static bool finish(const ResizePlan& plan, const u16* sums, RowWork& work) {
    switch (plan.group_steps) {
      case 2:
        return finish_row_avx2<2>(plan, sums, work);
      case 3:
        return finish_row_avx2<3>(plan, sums, work);
      default:
        return finish_row_avx2<0>(plan, sums, work);
    }
  }
};

}  // namespace resize_detail
}  // namespace cule
