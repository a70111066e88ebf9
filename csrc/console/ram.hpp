// console/ram.hpp: views of the running machine's 128 bytes of RAM.
//
// FlatRam         one byte after the other: the host, and a console at rest
// InterleavedRam  word w of lane l at word 32 w + l: the lanes of a warp never meet in a memory
// bank
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

constexpr u32 kRamBytes = 128;
constexpr u32 kWarpLanes = 32;
constexpr u32 kWordBytes = 4;

struct FlatRam {
  u8* base;

  CULE_HD CULE_INLINE u8& operator[](u32 i) const { return base[i]; }
};

struct InterleavedRam {
  u8* base;  // of the lane's word 0

  CULE_HD CULE_INLINE u8& operator[](u32 i) const { return word(i / kWordBytes)[i % kWordBytes]; }

  // Copies of all 128 bytes. Some words are loaded before any is stored: a lane waits for each.
  CULE_HD CULE_INLINE void load(const u8* from) const {
    for (u32 w = 0; w < kRamWords; w += kAtOnce) {
      u32 words[kAtOnce];
      for (u32 i = 0; i < kAtOnce; ++i) words[i] = read_word(from + (w + i) * kWordBytes);
      for (u32 i = 0; i < kAtOnce; ++i) write_word(word(w + i), words[i]);
    }
  }
  CULE_HD CULE_INLINE void store(u8* to) const {
    for (u32 w = 0; w < kRamWords; w += kAtOnce) {
      u32 words[kAtOnce];
      for (u32 i = 0; i < kAtOnce; ++i) words[i] = read_word(word(w + i));
      for (u32 i = 0; i < kAtOnce; ++i) write_word(to + (w + i) * kWordBytes, words[i]);
    }
  }

 private:
  static constexpr u32 kRamWords = kRamBytes / kWordBytes;
  static constexpr u32 kAtOnce = 8;

  CULE_HD CULE_INLINE u8* word(u32 w) const { return base + w * kWordBytes * kWarpLanes; }
  CULE_HD static CULE_INLINE u32 read_word(const u8* from) {
    u32 x;
    memcpy(&x, __builtin_assume_aligned(from, kWordBytes), kWordBytes);
    return x;
  }
  CULE_HD static CULE_INLINE void write_word(u8* to, u32 x) {
    memcpy(__builtin_assume_aligned(to, kWordBytes), &x, kWordBytes);
  }
};

}  // namespace cule
