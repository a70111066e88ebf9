// base/bits.hpp: small bit operations, written so that host and device compile the same lines.
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// What the device has an instruction for (base/platform.hpp).
inline u32 pick_bytes(u32 x, u32 y, u32 selector) {
  const u64 both = u64(y) << 32 | x;
  u32 picked = 0;
  for (u32 i = 0; i < 4; ++i) picked |= u32(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  return picked;
}
inline u32 funnel_left(u32 high, u32 low, u32 n) { return u32((u64(high) << 32 | low) << n >> 32); }
inline u32 funnel_right(u32 high, u32 low, u32 n) { return u32((u64(high) << 32 | low) >> n); }
inline u32 wrap_halves(u32 x, u32 n) { return (x & 0xFFFF) % n | (x >> 16) % n << 16; }
inline u32 dot_bytes(u32 a, u32 b, u32 sum) {
  for (u32 i = 0; i < 32; i += 8) sum += (a >> i & 0xFF) * (b >> i & 0xFF);
  return sum;
}
inline u32 dot_halves(u32 a, u32 b, u32 sum) {
  return sum + (a & 0xFFFF) * (b & 0xFF) + (a >> 16) * (b >> 8 & 0xFF);
}
inline u32 max_halves(u32 a, u32 b) {
  const u32 low = (a & 0xFFFF) > (b & 0xFFFF) ? a : b;
  return (low & 0xFFFF) | ((a >> 16 > b >> 16 ? a : b) & 0xFFFF0000);
}
inline u32 reverse_bits(u32 x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
  x = (x >> 8 & 0x00FF00FF) | (x & 0x00FF00FF) << 8;
  return x >> 16 | x << 16;
}
inline u32 bits_below(u32 n) { return n >= 32 ? ~0u : (1u << n) - 1; }

// Bit 7 becomes bit 0.
CULE_HD CULE_INLINE u32 reverse_bits8(u32 b) {
  return u32((((b & 0xFF) * 0x80200802ULL) & 0x0884422110ULL) * 0x0101010101ULL >> 32) & 0xFF;
}

// Each of the low 16 bits becomes four equal bits.
CULE_HD CULE_INLINE u64 widen_bits4(u32 cells) {
  u64 x = cells & 0xFFFF;
  x = (x | x << 24) & 0x000000FF000000FFULL;
  x = (x | x << 12) & 0x000F000F000F000FULL;
  x = (x | x << 6) & 0x0303030303030303ULL;
  x = (x | x << 3) & 0x1111111111111111ULL;
  return x * 15;
}

// Each bit of a byte becomes `factor` (1, 2 or 4) equal bits.
CULE_HD CULE_INLINE u64 widen_byte(u32 byte, u32 factor) {
  u64 x = byte & 0xFF;
  if (factor == 1) return x;
  if (factor == 2) {
    x = (x | x << 4) & 0x0F0F;
    x = (x | x << 2) & 0x3333;
    x = (x | x << 1) & 0x5555;
    return x * 3;
  }
  return widen_bits4(u32(x));
}

// The larger one of each pair of bytes.
CULE_HD CULE_INLINE constexpr u64 max_bytes(u64 a, u64 b) {
  constexpr u64 kHigh = 0x8080808080808080ULL;
  const u64 low_difference = (a | kHigh) - (b & ~kHigh);  // bit 7: the low seven bits of a are >=
  const u64 is_first = ((a & ~b) | (~(a ^ b) & low_difference)) & kHigh;
  const u64 first = (is_first >> 7) * 0xFF;
  return (a & first) | (b & ~first);
}

static_assert(max_bytes(0x00FF80017F8010A0ULL, 0x0100817F80FF0FA1ULL) == 0x01FF817F80FF10A1ULL);

// The bits of word w of a long mask that lie in [from, to).
CULE_HD CULE_INLINE u64 range_bits(u32 w, u32 from, u32 to) {
  const u32 base = w * 64;
  const u64 above = from <= base ? ~0ULL : from - base < 64 ? ~0ULL << (from - base) : 0;
  const u64 below = to >= base + 64 ? ~0ULL : to > base ? (1ULL << (to - base)) - 1 : 0;
  return above & below;
}

// Bit i of the result: byte i of x, which is below 16, is not 0.
CULE_HD CULE_INLINE constexpr u32 nonzero_nibbles(u64 x) {
  const u64 found = (x + 0x0F0F0F0F0F0F0F0FULL) >> 4 & 0x0101010101010101ULL;
  return u32(found * 0x0102040810204080ULL >> 56);
}

static_assert(nonzero_nibbles(0x0F'00'01'08'00ULL) == 0b10110);

// Index of the lowest set bit; x is not 0.
CULE_HD CULE_INLINE u32 lowest_bit(u32 x) { return u32(CULE_COUNT_TRAILING_ZEROS(x)); }

CULE_HD CULE_INLINE u32 highest_bit(u32 x) { return u32(CULE_HIGHEST_BIT(x)); }

CULE_HD CULE_INLINE u32 load_u16(const u8* p) {
  u16 v;
  memcpy(&v, p, sizeof v);
  return v;
}

CULE_HD CULE_INLINE u32 load_u32(const u8* p) {
  u32 v;
  memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace cule
