// tia/log_passes.hpp: passes over the entries of a log.
//
// copy_effective_plain(), equal_entries_plain() and objects_shown_plain() are the rules; where the
// host has AVX2, copy_effective(), equal_entries() and objects_shown() do eight entries at a time,
// with NEON four.
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

constexpr u32 kSpareEntries = 8;     // beyond a copy: they may be overwritten
constexpr LogEntry kEndOfLog = ~0u;  // after any entry with an effect

inline u32 copy_effective_plain(LogEntry* to, const LogEntry* from, u32 n) {
  u32 size = 0;
  for (u32 i = 0; i < n; ++i) {
    to[size] = from[i];
    size += u32(kEffectiveRegisters >> log_register(from[i]) & 1);
  }
  return size;
}

// How many of the first `most` entries are later by `shift` in a and otherwise equal.
inline u32 equal_entries_plain(const LogEntry* a, const LogEntry* b, u32 shift, u32 most) {
  u32 n = 0;
  while (n < most && a[n] - b[n] == shift) ++n;
  return n;
}

// Registers written, one bit each from PF0 on: those of kWithValue with any value but 0, those of
// kWithEnable with one that has bit 1, CXCLR with any.
constexpr u32 kClears = 1u << (CXCLR - PF0);
constexpr u32 kWithValue = 7 | 3u << (GRP0 - PF0);
constexpr u32 kWithEnable = 7u << (ENAM0 - PF0);
CULE_HD CULE_INLINE u32 objects_of_registers(u32 written) {
  const u32 players = written >> (GRP0 - PF0) & 3, small = written >> (ENAM0 - PF0) & 7;
  return players | small << kMissile0 | u32((written & 7) != 0) << kPlayfield | (written & kClears);
}

// Objects that some accesses may make visible, one bit each; kClears: one is to CXCLR.
CULE_HD inline u32 objects_shown_plain(const LogEntry* from, u32 n) {
  u32 written = 0;
  for (u32 i = 0; i < n; ++i) {
    const LogEntry e = from[i];
    const u32 place = log_register(e) - PF0;
    const u32 counts = kClears | (log_value(e) ? kWithValue : 0) | (e & 2 ? kWithEnable : 0);
    written |= place < 32 ? 1u << place & counts : 0;
  }
  return objects_of_registers(written);
}
static_assert(CXCLR == PF0 + 31 && PF2 == PF0 + 2 && GRP1 == GRP0 + 1 && ENABL == ENAM0 + 2);

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

// Less than eight entries; the others are 0, which is an access without an effect.
CULE_AVX2 CULE_INLINE __m256i load_last(const LogEntry* from, u32 n) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i is_one = _mm256_cmpgt_epi32(_mm256_set1_epi32(i32(n)), places);
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(from), is_one);
}
CULE_AVX2 CULE_INLINE __m256i load_eight(const LogEntry* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
CULE_AVX2 CULE_INLINE __m256i registers_of_eight(__m256i e) {
  return _mm256_and_si256(_mm256_srli_epi32(e, 8), _mm256_set1_epi32(0x3F));
}

// Returns how many were copied.
CULE_AVX2 CULE_INLINE u32 copy_effective_of(LogEntry* to, __m256i e) {
  const __m256i reg = registers_of_eight(e);
  const __m256i is_between =
      _mm256_and_si256(_mm256_cmpgt_epi32(reg, _mm256_set1_epi32(RSYNC)),
                       _mm256_cmpgt_epi32(_mm256_set1_epi32(CXCLR + 1), reg));
  const __m256i is_effective =
      _mm256_or_si256(is_between, _mm256_cmpeq_epi32(reg, _mm256_set1_epi32(VBLANK)));
  const u32 set = u32(_mm256_movemask_ps(_mm256_castsi256_ps(is_effective)));
  const __m256i places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64(kPlaces.of[set])));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(e, places));
  return u32(__builtin_popcount(set));
}

CULE_AVX2 inline u32 copy_effective_at_once(LogEntry* to, const LogEntry* from, u32 n) {
  u32 size = 0;
  u32 i = 0;
  for (; i + 8 <= n; i += 8) size += copy_effective_of(to + size, load_eight(from + i));
  if (i < n) size += copy_effective_of(to + size, load_last(from + i, n - i));
  return size;
}

CULE_AVX2 inline u32 equal_entries_at_once(const LogEntry* a, const LogEntry* b, u32 shift,
                                           u32 most) {
  const __m256i shifts = _mm256_set1_epi32(i32(shift));
  u32 n = 0;
  for (; n + 8 <= most; n += 8) {
    const __m256i later = _mm256_sub_epi32(load_eight(a + n), load_eight(b + n));
    const __m256i same = _mm256_cmpeq_epi32(later, shifts);
    const u32 different = u32(_mm256_movemask_ps(_mm256_castsi256_ps(same))) ^ 0xFF;
    if (different) return n + lowest_bit(different);
  }
  return n + equal_entries_plain(a + n, b + n, shift, most - n);
}

CULE_AVX2 CULE_INLINE __m256i showing_registers_of(__m256i e) {
  const __m256i place = _mm256_sub_epi32(registers_of_eight(e), _mm256_set1_epi32(PF0));
  const __m256i bit = _mm256_sllv_epi32(_mm256_set1_epi32(1), place);
  const __m256i has_value =
      _mm256_cmpgt_epi32(_mm256_and_si256(e, _mm256_set1_epi32(0xFF)), _mm256_setzero_si256());
  const __m256i has_enable = _mm256_srai_epi32(_mm256_slli_epi32(e, 30), 31);
  const __m256i counts = _mm256_or_si256(
      _mm256_set1_epi32(i32(kClears)),
      _mm256_or_si256(_mm256_and_si256(has_value, _mm256_set1_epi32(i32(kWithValue))),
                      _mm256_and_si256(has_enable, _mm256_set1_epi32(i32(kWithEnable)))));
  return _mm256_and_si256(bit, counts);
}

CULE_AVX2 inline u32 objects_shown_at_once(const LogEntry* from, u32 n) {
  __m256i all = _mm256_setzero_si256();
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    all = _mm256_or_si256(all, showing_registers_of(load_eight(from + i)));
  }
  if (i < n) all = _mm256_or_si256(all, showing_registers_of(load_last(from + i, n - i)));
  if (_mm256_testz_si256(all, all)) return 0;
  __m128i half = _mm_or_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  half = _mm_or_si128(half, _mm_unpackhi_epi64(half, half));
  const u64 both = u64(_mm_cvtsi128_si64(half));
  return objects_of_registers(u32(both | both >> 32));
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

inline u32 equal_entries_at_once(const LogEntry* a, const LogEntry* b, u32 shift, u32 most) {
  const uint32x4_t shifts = vdupq_n_u32(shift);
  u32 n = 0;
  for (; n + 4 <= most; n += 4) {
    const uint32x4_t same = vceqq_u32(vsubq_u32(vld1q_u32(a + n), vld1q_u32(b + n)), shifts);
    const u64 equal = vget_lane_u64(vreinterpret_u64_u16(vmovn_u32(same)), 0);
    if (~equal) return n + u32(CULE_COUNT_TRAILING_ZEROS_64(~equal)) / 16;
  }
  return n + equal_entries_plain(a + n, b + n, shift, most - n);
}

inline u32 objects_shown_at_once(const LogEntry* from, u32 n) {
  uint32x4_t all = vdupq_n_u32(0);
  u32 i = 0;
  for (; i + 4 <= n; i += 4) {
    const uint32x4_t e = vld1q_u32(from + i);
    const uint32x4_t reg = vandq_u32(vshrq_n_u32(e, 8), vdupq_n_u32(0x3F));
    const int32x4_t shift = vsubq_s32(vreinterpretq_s32_u32(reg), vdupq_n_s32(PF0));
    const uint32x4_t bit = vshlq_u32(vdupq_n_u32(1), shift);
    const uint32x4_t has_value = vtstq_u32(e, vdupq_n_u32(0xFF));
    const uint32x4_t has_enable = vtstq_u32(e, vdupq_n_u32(2));
    const uint32x4_t counts =
        vorrq_u32(vdupq_n_u32(kClears), vorrq_u32(vandq_u32(has_value, vdupq_n_u32(kWithValue)),
                                                  vandq_u32(has_enable, vdupq_n_u32(kWithEnable))));
    all = vorrq_u32(all, vandq_u32(bit, counts));
  }
  const uint32x2_t half = vorr_u32(vget_low_u32(all), vget_high_u32(all));
  const u32 written = vget_lane_u32(half, 0) | vget_lane_u32(half, 1);
  return objects_of_registers(written) | objects_shown_plain(from + i, n - i);
}

#endif

#if defined(CULE_VECTOR)

// Up to kSpareEntries entries after the copy are overwritten.
inline u32 copy_effective(LogEntry* to, const LogEntry* from, u32 n) {
  return CULE_HAS_VECTORS() ? copy_effective_at_once(to, from, n)
                            : copy_effective_plain(to, from, n);
}
inline u32 equal_entries(const LogEntry* a, const LogEntry* b, u32 shift, u32 most) {
  return CULE_HAS_VECTORS() ? equal_entries_at_once(a, b, shift, most)
                            : equal_entries_plain(a, b, shift, most);
}
inline u32 objects_shown(const LogEntry* from, u32 n) {
  return CULE_HAS_VECTORS() ? objects_shown_at_once(from, n) : objects_shown_plain(from, n);
}

#else

inline u32 copy_effective(LogEntry* to, const LogEntry* from, u32 n) {
  return copy_effective_plain(to, from, n);
}
inline u32 equal_entries(const LogEntry* a, const LogEntry* b, u32 shift, u32 most) {
  return equal_entries_plain(a, b, shift, most);
}
CULE_HD CULE_INLINE u32 objects_shown(const LogEntry* from, u32 n) {
  return objects_shown_plain(from, n);
}

#endif

}  // namespace cule
