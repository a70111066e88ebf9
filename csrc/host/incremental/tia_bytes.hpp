// host/incremental/tia_bytes.hpp: sets of bytes of TiaState; bit i is byte i.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/bits.hpp"

#if defined(CULE_SSE2)
#include <emmintrin.h>
#endif

#include "tia/state.hpp"

namespace cule {

using TiaBytes = u64;

namespace tia_bytes {

constexpr TiaBytes of(size_t offset, size_t size = 1) { return ((1ULL << size) - 1) << offset; }

// Element n of an array of bytes.
constexpr TiaBytes color(u32 n) { return of(offsetof(TiaState, color) + n); }
constexpr TiaBytes nusiz(u32 n) { return of(offsetof(TiaState, nusiz) + n); }
constexpr TiaBytes refp(u32 n) { return of(offsetof(TiaState, refp) + n); }
constexpr TiaBytes grp(u32 n) { return of(offsetof(TiaState, grp) + n); }
constexpr TiaBytes old_grp(u32 n) { return of(offsetof(TiaState, old_grp) + n); }
constexpr TiaBytes vdelp(u32 n) { return of(offsetof(TiaState, vdelp) + n); }
constexpr TiaBytes enam(u32 n) { return of(offsetof(TiaState, enam) + n); }
constexpr TiaBytes resmp(u32 n) { return of(offsetof(TiaState, resmp) + n); }
constexpr TiaBytes hm(u32 object) { return of(offsetof(TiaState, hm) + object); }
constexpr TiaBytes position(u32 object) { return of(offsetof(TiaState, position) + object); }
constexpr TiaBytes skip(u32 n) { return of(offsetof(TiaState, skip) + n); }
constexpr TiaBytes pf(u32 n) { return of(offsetof(TiaState, pf) + n); }
constexpr TiaBytes audio(u32 n) { return of(offsetof(TiaState, audio) + n); }

// Whole fields.
constexpr TiaBytes kColorLoss = of(offsetof(TiaState, color_loss));
constexpr TiaBytes kVblank = of(offsetof(TiaState, vblank));
constexpr TiaBytes kCtrlpf = of(offsetof(TiaState, ctrlpf));
constexpr TiaBytes kMirror = of(offsetof(TiaState, pf_mirror));
constexpr TiaBytes kEnabl = of(offsetof(TiaState, enabl));
constexpr TiaBytes kOldEnabl = of(offsetof(TiaState, old_enabl));
constexpr TiaBytes kVdelbl = of(offsetof(TiaState, vdelbl));
constexpr TiaBytes kMissile0Look = of(offsetof(TiaState, missile0_look));
constexpr TiaBytes kIsStarField = of(offsetof(TiaState, stars));
constexpr TiaBytes kStars = kIsStarField | of(offsetof(TiaState, star_count));
constexpr TiaBytes kHmoveBlank = of(offsetof(TiaState, hmove_blank));
constexpr TiaBytes kAllHm = of(offsetof(TiaState, hm), sizeof(TiaState::hm));
constexpr TiaBytes kAllPositions = of(offsetof(TiaState, position), sizeof(TiaState::position));
constexpr TiaBytes kAllAudio = of(offsetof(TiaState, audio), sizeof(TiaState::audio));
constexpr TiaBytes kCollisions = of(offsetof(TiaState, collisions), sizeof(TiaState::collisions));
constexpr TiaBytes kHmoveClock = of(offsetof(TiaState, hmove_clock), sizeof(TiaState::hmove_clock));

// What of missile n the star field changes.
constexpr TiaBytes missile_look(u32 n) { return n == 0 ? kMissile0Look : 0; }

// Bytes that no field has.
constexpr TiaBytes kPadding =
    of(offsetof(TiaState, audio) + sizeof(TiaState::audio),
       offsetof(TiaState, collisions) - offsetof(TiaState, audio) - sizeof(TiaState::audio)) |
    of(offsetof(TiaState, missing_latches) + sizeof(TiaState::missing_latches),
       offsetof(TiaState, hmove_clock) - offsetof(TiaState, missing_latches) -
           sizeof(TiaState::missing_latches));

// Offset of word w of eight; the last one shares four bytes with the previous one.
constexpr u32 word_offset(u32 w) { return w < 7 ? 8 * w : u32(sizeof(TiaState)) - 8; }

static_assert(sizeof(TiaState) >= 56 && sizeof(TiaState) <= 64);

struct Words {
  u64 of[8];
};

inline Words words_of(const void* bytes) {
  Words x;
  for (u32 w = 0; w < 8; ++w) {
    memcpy(&x.of[w], static_cast<const u8*>(bytes) + word_offset(w), sizeof(u64));
  }
  return x;
}

// The bytes that differ.
inline TiaBytes differing(const TiaState& a, const TiaState& b) {
  TiaBytes found = 0;
#if defined(CULE_SSE2)
  constexpr u32 kOffsets[4] = {0, 16, 32, sizeof(TiaState) - 16};
  for (const u32 offset : kOffsets) {
    const auto* x = reinterpret_cast<const __m128i*>(reinterpret_cast<const u8*>(&a) + offset);
    const auto* y = reinterpret_cast<const __m128i*>(reinterpret_cast<const u8*>(&b) + offset);
    const __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128(x), _mm_loadu_si128(y));
    found |= u64(u32(_mm_movemask_epi8(same)) ^ 0xFFFF) << offset;
  }
#else
  const Words left = words_of(&a);
  const Words right = words_of(&b);
  for (u32 w = 0; w < 8; ++w) {
    const u64 x = left.of[w] ^ right.of[w];
    const u64 low = 0x7F7F7F7F7F7F7F7FULL;
    const u64 tops = (((x & low) + low) | x) & ~low;
    found |= (tops >> 7) * 0x0102040810204080ULL >> 56 << word_offset(w);
  }
#endif
  return found;
}

// One by one: there are few.
inline void copy(TiaBytes bytes, TiaState& to, const TiaState& from) {
  for (TiaBytes left = bytes & of(0, sizeof(TiaState)); left; left &= left - 1) {
    const u32 i = u32(CULE_COUNT_TRAILING_ZEROS_64(left));
    reinterpret_cast<u8*>(&to)[i] = reinterpret_cast<const u8*>(&from)[i];
  }
}

}  // namespace tia_bytes
}  // namespace cule
