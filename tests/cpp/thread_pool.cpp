// What a task of a thread pool throws reaches the caller once, and no thread begins another item.
#include "host/thread_pool.hpp"

#include <atomic>
#include <cstdio>

namespace {

constexpr cule::i32 kItems = 10000;

// Items that were begun although one of them, or each, throws; -1 where nothing reached the caller.
cule::i32 begun(cule::ThreadPool& pool, bool each_throws) {
  std::atomic<cule::i32> count{0};
  std::atomic<bool> has_thrown{false};
  const auto task = [&](cule::i32 item, cule::i32) {
    ++count;
    if (each_throws || item == 0) {
      has_thrown = true;
      throw cule::Interrupted();
    }
    while (!has_thrown) std::this_thread::yield();
  };
  try {
    pool.run(kItems, task);
  } catch (const cule::Interrupted&) {
    return count;
  }
  return -1;
}

}  // namespace

int main() {
  for (cule::i32 threads = 1; threads <= 4; ++threads) {
    cule::ThreadPool pool(threads, -1);
    for (int round = 0; round < 20; ++round) {
      const cule::i32 all = begun(pool, true);
      if (all < 1 || all > threads) {
        std::printf("%d threads, each item throws: %d begun\n", threads, all);
        return 1;
      }
      if (begun(pool, false) < 1) {
        std::printf("%d threads: what the first item throws does not reach the caller\n", threads);
        return 1;
      }
    }
    std::atomic<cule::i32> count{0};
    pool.run(kItems, [&](cule::i32, cule::i32) { ++count; });
    if (count != kItems) {
      std::printf("%d threads: %d items of %d in the loop after\n", threads, count.load(), kItems);
      return 1;
    }
  }
  return 0;
}
