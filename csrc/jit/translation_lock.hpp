// jit/translation_lock.hpp: the lock that serialises translation, of all games.
//
// A thread that forks takes the lock first: otherwise the new process, which has no other thread,
// could have a lock that another thread held, and tables that it was changing.
#pragma once

#include <mutex>

#include "base/platform.hpp"

#if defined(CULE_HAS_JIT)
#include <pthread.h>
#endif

namespace cule::jit {

inline std::mutex translation_mutex;

#if defined(CULE_HAS_JIT)
inline const int is_watching_forks =
    pthread_atfork([] { translation_mutex.lock(); }, [] { translation_mutex.unlock(); },
                   [] { translation_mutex.unlock(); });
#endif

class TranslationLock {
 public:
  TranslationLock() : lock_(translation_mutex) {}

 private:
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace cule::jit
