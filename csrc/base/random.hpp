// base/random.hpp: the two kinds of random numbers.
//
// Mt19937: the standard 32-bit Mersenne Twister with single-word seeding, the generator of the
// exact random streams (machine power-on values, sticky actions, no-op counts). One u32 a draw.
//
// counter_random: a pure function of (seed, console, step, purpose), the generator of the
// cached-reset mode, the same on every device, thread count and batch split.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

struct Mt19937 {
  static constexpr u32 kWords = 624;
  static constexpr u32 kOffset = 397;

  u32 words[kWords];
  u32 position;  // next word to hand out; kWords: twist first

  CULE_HD void seed(u32 value) {
    words[0] = value;
    for (u32 i = 1; i < kWords; ++i) {
      words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
    }
    position = kWords;
  }

  CULE_HD u32 next() {
    if (position >= kWords) twist();
    u32 y = words[position++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
  }

  // Uniform double in [0, 1): one draw.
  CULE_HD double next_double() { return next() * (1.0 / 4294967296.0); }

  // Uniform integer in [0, bound): multiply and reject (env/NOTES.md 8.2 gives the draws it
  // takes).
  CULE_HD u32 next_below(u32 bound) {
    u64 product = u64(next()) * bound;
    u32 low = u32(product);
    if (low < bound) {
      const u32 threshold = u32(0u - bound) % bound;
      while (low < threshold) {
        product = u64(next()) * bound;
        low = u32(product);
      }
    }
    return u32(product >> 32);
  }

 private:
  CULE_HD void twist() {
    for (u32 i = 0; i < kWords; ++i) {
      const u32 y = (words[i] & 0x80000000u) | (words[(i + 1) % kWords] & 0x7FFFFFFFu);
      words[i] = words[(i + kOffset) % kWords] ^ (y >> 1) ^ ((y & 1) ? 0x9908B0DFu : 0u);
    }
    position = 0;
  }
};

enum class Purpose : u32 {
  kSticky = 1,
  kResetState = 2,
  kDecorrelateLength = 3,
  kDecorrelateAction = 4,
  kModification = 5,
  kModificationChoice = 6
};

CULE_HD CULE_INLINE u64 mix64(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

CULE_HD CULE_INLINE u32 counter_random(u64 seed, u32 console, u64 step, Purpose purpose) {
  u64 h = mix64(seed + 0x9E3779B97F4A7C15ULL);
  h = mix64(h ^ (u64(console) << 32 | u32(purpose)));
  return u32(mix64(h + step * 0x9E3779B97F4A7C15ULL) >> 32);
}

}  // namespace cule
