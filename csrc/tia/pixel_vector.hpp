// tia/pixel_vector.hpp: neighbouring pixels of a row in a vector of the host.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

#if defined(CULE_AVX2)
#include <immintrin.h>
#endif
#if defined(CULE_NEON)
#include <arm_neon.h>
#endif

namespace cule {

#if defined(CULE_AVX2)

// Neighbouring pixels of a row; bit i of `bits` is pixel i.
struct PixelVector {
  static constexpr u32 kSize = 32;
  using Bits = u32;

  __m256i pixels;

  CULE_AVX2 CULE_INLINE explicit PixelVector(const u8& color)
      : pixels(_mm256_set1_epi8(char(color))) {}

  CULE_AVX2 CULE_INLINE void paint(Bits bits, const u8& color) {
    if (bits == 0) return;
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                            2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(i64(0x8040201008040201ULL));
    const __m256i v =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(i32(bits)), spread), bit);
    pixels = _mm256_blendv_epi8(pixels, _mm256_set1_epi8(char(color)), _mm256_cmpeq_epi8(v, bit));
  }
  // Takes the pixels of the row where a byte of `from` or `to` is 0.
  CULE_AVX2 CULE_INLINE void keep(const u8* row, const u8* from, const u8* to) {
    const __m256i inside = _mm256_and_si256(load(from), load(to));
    pixels = _mm256_blendv_epi8(load(row), pixels, inside);
  }
  CULE_AVX2 CULE_INLINE void store(u8* row) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), pixels);
  }

 private:
  CULE_AVX2 CULE_INLINE static __m256i load(const u8* bytes) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  }
};

#endif

#if defined(CULE_NEON)

// The same.
struct PixelVector {
  static constexpr u32 kSize = 16;
  using Bits = u16;

  uint8x16_t pixels;

  CULE_INLINE explicit PixelVector(const u8& color) : pixels(vdupq_n_u8(color)) {}

  CULE_INLINE void paint(u32 bits, const u8& color) {
    if (bits == 0) return;
    const uint8x16_t spread = vcombine_u8(vdup_n_u8(u8(bits)), vdup_n_u8(u8(bits >> 8)));
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ULL));
    pixels = vbslq_u8(vtstq_u8(spread, bit), vdupq_n_u8(color), pixels);
  }
  CULE_INLINE void keep(const u8* row, const u8* from, const u8* to) {
    const uint8x16_t inside = vandq_u8(vld1q_u8(from), vld1q_u8(to));
    pixels = vbslq_u8(inside, pixels, vld1q_u8(row));
  }
  CULE_INLINE void store(u8* row) const { vst1q_u8(row, pixels); }
};

#endif

}  // namespace cule
