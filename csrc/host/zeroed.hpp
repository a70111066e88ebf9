// host/zeroed.hpp: large zeroed memory.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

namespace cule {

// Zeroed pages on demand: memory that is never touched costs nothing, where pages are small.
struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using CallocPtr = std::unique_ptr<T, FreeDeleter>;
template <class T>
CallocPtr<T> make_zeroed(size_t n = 1) {
  void* p = std::calloc(n, sizeof(T));
  if (p == nullptr) throw std::bad_alloc();
  return CallocPtr<T>(static_cast<T*>(p));
}

}  // namespace cule
