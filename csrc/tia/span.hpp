// tia/span.hpp: fills a stretch of one row of pixels from colour layers.
//
// paint_span_plain() is the rule; where the host has AVX2, paint_span() does 32 pixels at a time.
#pragma once

#include "base/platform.hpp"

#if defined(CULE_AVX2)
#include <immintrin.h>
#endif

#include "tia/shapes.hpp"

namespace cule {

// Disjoint masks of the pixels in colours 0 to 2; the rest has colour 3. Colours as they are
// written.
struct Layers {
  Mask mask[3];
  u8 color[4];
};

// Byte i of the result is $FF where bit i of `bits` is set.
CULE_HD CULE_INLINE constexpr u64 expand_bits(u32 bits) {
  u64 x = (bits * 0x0101010101010101ULL) & 0x8040201008040201ULL;
  x = ((x | ((x & 0x7F7F7F7F7F7F7F7FULL) + 0x7F7F7F7F7F7F7F7FULL)) >> 7) & 0x0101010101010101ULL;
  return x * 0xFF;
}

static_assert(expand_bits(0x81) == 0xFF000000000000FFULL && expand_bits(0xFF) == ~0ULL);

// Pixels [x0, x1) of a row of 160.
CULE_HD inline void paint_span_plain(const Layers& layers, u8* row, u32 x0, u32 x1) {
  u64 color[4];
  for (u32 i = 0; i < 4; ++i) color[i] = layers.color[i] * 0x0101010101010101ULL;
  for (u32 x = x0 & ~7u; x < x1; x += 8) {
    const u32 w = x >> 6;
    const u32 shift = x & 63;
    u64 pixels = color[3];
    for (u32 i = 0; i < 3; ++i) {
      const u32 bits = u32(layers.mask[i].word[w] >> shift) & 0xFF;
      if (bits) pixels ^= (pixels ^ color[i]) & expand_bits(bits);
    }
    if (x < x0 || x + 8 > x1) {
      const u32 low = x < x0 ? x0 - x : 0;
      const u32 high = x1 - x < 8 ? x1 - x : 8;
      const u64 inside = expand_bits(((1u << high) - 1) & ~((1u << low) - 1));
      u64 old;
      memcpy(&old, row + x, sizeof old);
      pixels = (pixels & inside) | (old & ~inside);
    }
    memcpy(row + x, &pixels, sizeof pixels);
  }
}

#if defined(CULE_AVX2)

// Byte i of the result is $FF where bit i of the 32 is set.
CULE_AVX2 inline __m256i expand_bits_avx2(u32 bits) {
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(i64(0x8040201008040201ULL));
  const __m256i v =
      _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(i32(bits)), spread), bit);
  return _mm256_cmpeq_epi8(v, bit);
}

// The masks of 32 pixels that begin at a multiple of 32.
inline u32 mask_bits(const Mask& mask, u32 x) {
  u32 bits;
  memcpy(&bits, reinterpret_cast<const u8*>(mask.word) + x / 8, sizeof bits);
  return bits;
}

CULE_AVX2 inline __m256i layered_pixels(const Layers& layers, u32 x) {
  __m256i pixels = _mm256_set1_epi8(char(layers.color[3]));
  for (u32 i = 0; i < 3; ++i) {
    const u32 bits = mask_bits(layers.mask[i], x);
    if (bits == 0) continue;
    pixels =
        _mm256_blendv_epi8(pixels, _mm256_set1_epi8(char(layers.color[i])), expand_bits_avx2(bits));
  }
  return pixels;
}

CULE_AVX2 inline void paint_span_avx2(const Layers& layers, u8* row, u32 x0, u32 x1) {
  for (u32 x = x0 & ~31u; x < x1; x += 32) {
    const __m256i pixels = layered_pixels(layers, x);
    __m256i* out = reinterpret_cast<__m256i*>(row + x);
    if (CULE_LIKELY(x >= x0 && x + 32 <= x1)) {
      _mm256_storeu_si256(out, pixels);
      continue;
    }
    const u32 below = x1 - x < 32 ? (1u << (x1 - x)) - 1 : ~0u;
    const u32 inside = x < x0 ? below & (~0u << (x0 - x)) : below;
    _mm256_storeu_si256(
        out, _mm256_blendv_epi8(_mm256_loadu_si256(out), pixels, expand_bits_avx2(inside)));
  }
}

inline void paint_span(const Layers& layers, u8* row, u32 x0, u32 x1) {
  if (__builtin_cpu_supports("avx2")) {
    paint_span_avx2(layers, row, x0, x1);
  } else {
    paint_span_plain(layers, row, x0, x1);
  }
}

#else

CULE_HD CULE_INLINE void paint_span(const Layers& layers, u8* row, u32 x0, u32 x1) {
  paint_span_plain(layers, row, x0, x1);
}

#endif

}  // namespace cule
