// obs/pool.hpp: the brighter of two pictures, byte by byte (the observation's max over two frames).
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

CULE_INLINE void max_rows_plain(u8* dst, const u8* a, const u8* b, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = a[i] > b[i] ? a[i] : b[i];
}

#if defined(CULE_AVX2)
CULE_AVX2 inline void max_rows_at_once(u8* dst, const u8* a, const u8* b, size_t n) {
  max_rows_plain(dst, a, b, n);  // by wider vectors
}
#endif

// dst may be a or b.
inline void max_rows(u8* dst, const u8* a, const u8* b, size_t n) {
#if defined(CULE_AVX2)
  if (CULE_HAS_VECTORS()) return max_rows_at_once(dst, a, b, n);
#endif
  max_rows_plain(dst, a, b, n);
}

}  // namespace cule
