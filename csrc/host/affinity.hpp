// host/affinity.hpp: binds a thread to a processor, where the system lets a program do so.
#pragma once

#include <thread>

#include "base/int.hpp"
#include "base/platform.hpp"

#if defined(CULE_HAS_AFFINITY)
#include <pthread.h>
#endif

namespace cule {

// index: of the processor, modulo their number.
inline void bind_to_processor(std::thread& thread, u32 index) {
#if defined(CULE_HAS_AFFINITY)
  const u32 count = std::thread::hardware_concurrency();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(index % (count ? count : 1), &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
#else
  static_cast<void>(thread);
  static_cast<void>(index);
#endif
}

}  // namespace cule
