// host/resize_neon.hpp: the inner loop over columns of host/resize_simd.hpp with NEON. The compiler
// makes the loop over rows of it.
//
// Products and sums are instructions of their own: none is fused.
#pragma once

#include <arm_neon.h>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "host/resize_plan.hpp"

namespace cule {
namespace resize_detail {

// Half a group: adds up `steps` steps and rounds. error_out: how far each level was from its whole
// number.
CULE_INLINE int32x4_t round_half(const ShuffleStep* step, i32 steps, i32 half, const u16* sums,
                                 float scale, float32x4_t& error_out) {
  int32x4_t total = vdupq_n_s32(0);
  for (i32 i = 0; i < steps; ++i, ++step) {
    const u16* window = sums + step->window + half * kLaneSums;
    const uint8x16_t picked =
        vqtbl1q_u8(vreinterpretq_u8_u16(vld1q_u16(window)), vld1q_u8(step->pick + 16 * half));
    const int16x8_t factors = vreinterpretq_s16_u8(picked);
    const int16x8_t weights = vld1q_s16(step->weight + 8 * half);
    total = vaddq_s32(total, vpaddq_s32(vmull_s16(vget_low_s16(factors), vget_low_s16(weights)),
                                        vmull_high_s16(factors, weights)));
  }
  const float32x4_t level = vmulq_n_f32(vcvtq_f32_s32(total), scale);
  const float32x4_t whole = vrndnq_f32(level);
  error_out = vabdq_f32(level, whole);
  return vcvtq_s32_f32(whole);
}

// One target row, as PlainRows.
struct VectorRows {
  static void sum(const u8* line, i32 row_bytes, const u16* weights, i32 taps, u16* sums_out) {
    PlainRows::sum(line, row_bytes, weights, taps, sums_out);
  }
  static bool finish(const ResizePlan& plan, const u16* sums, RowWork& work) {
    const i32 steps = plan.group_steps;
    const ShuffleStep* step = plan.steps.data();
    float32x4_t farthest = vdupq_n_f32(0);
    for (i32 x = 0; x < plan.target_row_bytes; x += kGroup, step += steps) {
      float32x4_t errors[2];
      const int32x4_t first = round_half(step, steps, 0, sums, plan.scale, errors[0]);
      const int32x4_t second = round_half(step, steps, 1, sums, plan.scale, errors[1]);
      farthest = vmaxq_f32(farthest, vmaxq_f32(errors[0], errors[1]));
      const int16x8_t words = vcombine_s16(vqmovn_s32(first), vqmovn_s32(second));
      vst1_u8(work.target + x, vqmovun_s16(words));
      const uint32x4_t bit = {1, 2, 4, 8};
      const float32x4_t limit = vdupq_n_f32(plan.doubt_limit);
      const u32 low = vaddvq_u32(vandq_u32(vcgeq_f32(errors[0], limit), bit));
      const u32 high = vaddvq_u32(vandq_u32(vcgeq_f32(errors[1], limit), bit));
      work.doubts[x / kGroup] = u8(low | high << kHalfGroup);
    }
    return vmaxvq_f32(farthest) >= plan.doubt_limit;
  }
};

}  // namespace resize_detail
}  // namespace cule
