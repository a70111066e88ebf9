// obs/pool.hpp: the brighter of two pictures, byte by byte (the observation's max over two frames).
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// dst may be a or b.
CULE_HD inline void max_rows(u8* dst, const u8* a, const u8* b, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = a[i] > b[i] ? a[i] : b[i];
}

}  // namespace cule
