// host/incremental/log_filter.hpp: copies the accesses of a log that change TiaState.
//
// copy_effective_plain() is the rule; where the host has AVX2, copy_effective() does eight at a
// time, with NEON four.
#pragma once

#include "base/platform.hpp"

#if defined(CULE_AVX2)
#include <immintrin.h>
#endif
#if defined(CULE_NEON)
#include <arm_neon.h>
#endif

#include "tia/log_renderer.hpp"

namespace cule {

constexpr u32 kSpareEntries = 8;  // beyond the copy that may be overwritten

inline u32 copy_effective_plain(LogEntry* to, const LogEntry* from, u32 n) {
  u32 size = 0;
  for (u32 i = 0; i < n; ++i) {
    to[size] = from[i];
    size += u32(kEffectiveRegisters >> log_register(from[i]) & 1);
  }
  return size;
}

static_assert(kEffectiveRegisters == (((2ULL << CXCLR) - (2ULL << RSYNC)) | 1ULL << VBLANK));

#if defined(CULE_AVX2)

// For each set of eight entries, the places of its members, in order, in a byte each.
struct Places {
  u64 of[256];
};

constexpr Places make_places() {
  Places p{};
  for (u32 set = 0; set < 256; ++set) {
    u32 n = 0;
    for (u32 i = 0; i < 8; ++i) {
      if (set >> i & 1) p.of[set] |= u64(i) << (8 * n++);
    }
  }
  return p;
}

inline constexpr Places kPlaces = make_places();

CULE_AVX2 inline u32 copy_effective_at_once(LogEntry* to, const LogEntry* from, u32 n) {
  u32 size = 0;
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i reg = _mm256_and_si256(_mm256_srli_epi32(e, 8), _mm256_set1_epi32(0x3F));
    const __m256i is_between =
        _mm256_and_si256(_mm256_cmpgt_epi32(reg, _mm256_set1_epi32(RSYNC)),
                         _mm256_cmpgt_epi32(_mm256_set1_epi32(CXCLR + 1), reg));
    const __m256i is_effective =
        _mm256_or_si256(is_between, _mm256_cmpeq_epi32(reg, _mm256_set1_epi32(VBLANK)));
    const u32 set = u32(_mm256_movemask_ps(_mm256_castsi256_ps(is_effective)));
    const __m256i places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64(kPlaces.of[set])));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + size),
                        _mm256_permutevar8x32_epi32(e, places));
    size += u32(__builtin_popcount(set));
  }
  return size + copy_effective_plain(to + size, from + i, n - i);
}

#endif

#if defined(CULE_NEON)

// For each set of four entries, the bytes of its members, in order.
struct Places {
  u8 of[16][16];
};

constexpr Places make_places() {
  Places p{};
  for (u32 set = 0; set < 16; ++set) {
    u32 n = 0;
    for (u32 byte = 0; byte < 16; ++byte) {
      if (set >> byte / 4 & 1) p.of[set][n++] = u8(byte);
    }
  }
  return p;
}

inline constexpr Places kPlaces = make_places();

inline u32 copy_effective_at_once(LogEntry* to, const LogEntry* from, u32 n) {
  u32 size = 0;
  u32 i = 0;
  for (; i + 4 <= n; i += 4) {
    const uint32x4_t e = vld1q_u32(from + i);
    const uint32x4_t reg = vandq_u32(vshrq_n_u32(e, 8), vdupq_n_u32(0x3F));
    const uint32x4_t is_between =
        vandq_u32(vcgtq_u32(reg, vdupq_n_u32(RSYNC)), vcltq_u32(reg, vdupq_n_u32(CXCLR + 1)));
    const uint32x4_t is_effective = vorrq_u32(is_between, vceqq_u32(reg, vdupq_n_u32(VBLANK)));
    const uint32x4_t bit = {1, 2, 4, 8};
    const u32 set = vaddvq_u32(vandq_u32(is_effective, bit));
    vst1q_u8(reinterpret_cast<u8*>(to + size),
             vqtbl1q_u8(vreinterpretq_u8_u32(e), vld1q_u8(kPlaces.of[set])));
    size += CULE_COUNT_BITS(set);
  }
  return size + copy_effective_plain(to + size, from + i, n - i);
}

#endif

#if defined(CULE_VECTOR)

// Up to kSpareEntries entries after the copy are overwritten.
inline u32 copy_effective(LogEntry* to, const LogEntry* from, u32 n) {
  return CULE_HAS_VECTORS() ? copy_effective_at_once(to, from, n)
                            : copy_effective_plain(to, from, n);
}

#else

inline u32 copy_effective(LogEntry* to, const LogEntry* from, u32 n) {
  return copy_effective_plain(to, from, n);
}

#endif

}  // namespace cule
