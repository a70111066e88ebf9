// Random numbers for the checks: xorshift, the same on every machine.
#pragma once

#include "base/int.hpp"

struct Random {
  cule::u32 state = 1;
  cule::u32 next() {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state >> 4;
  }
  cule::u32 below(cule::u32 n) { return next() % n; }
};
