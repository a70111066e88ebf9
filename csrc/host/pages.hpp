// host/pages.hpp: what the system is asked about pages of memory. Best effort: nothing happens
// where it does not know them.
#pragma once

#include <cstdint>

#include "base/platform.hpp"

#if defined(CULE_HAS_LARGE_PAGES)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace cule {

// Calls use(begin, bytes) for the whole pages of a size within memory, where there are any.
template <class Use>
void with_pages(u8* memory, size_t bytes, std::uintptr_t page_bytes, Use use) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (at + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t end = (at + bytes) / page_bytes * page_bytes;
  if (begin < end) use(memory + (begin - at), end - begin);
}

// Asks for large pages, for memory of which a step uses a part of every piece: with small pages the
// processor translates hundreds of page addresses. Memory that is never touched counts too, then.
inline void ask_for_large_pages([[maybe_unused]] u8* memory, [[maybe_unused]] size_t bytes) {
#if defined(CULE_HAS_LARGE_PAGES)
  with_pages(memory, bytes, 1 << 21, [](u8* p, size_t n) { madvise(p, n, MADV_HUGEPAGE); });
#endif
}

// Gives back pages of memory of calloc(), which is zero from then on.
inline void give_back_pages([[maybe_unused]] u8* memory, [[maybe_unused]] size_t bytes) {
#if defined(CULE_HAS_LARGE_PAGES)
  static const long page_bytes = sysconf(_SC_PAGESIZE);
  with_pages(memory, bytes, std::uintptr_t(page_bytes),
             [](u8* p, size_t n) { madvise(p, n, MADV_DONTNEED); });
#endif
}

}  // namespace cule
