// host/large_pages.hpp: asks the system for large pages.
//
// For memory of which a step uses a part of every piece: with small pages the processor translates
// hundreds of page addresses. Memory that is never touched counts too, then.
#pragma once

#include <cstdint>

#include "base/platform.hpp"

#if defined(CULE_HAS_LARGE_PAGES)
#include <sys/mman.h>
#endif

namespace cule {

// p: n objects. Best effort: no effect where huge pages are unsupported.
template <class T>
void ask_for_large_pages(T* p, size_t n) {
#if defined(CULE_HAS_LARGE_PAGES)
  constexpr std::uintptr_t kPage = 1 << 21;  // bytes
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t begin = (at + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (at + n * sizeof(T)) / kPage * kPage;
  if (begin < end) {
    madvise(reinterpret_cast<char*>(p) + (begin - at), end - begin, MADV_HUGEPAGE);
  }
#else
  static_cast<void>(p);
  static_cast<void>(n);
#endif
}

}  // namespace cule
