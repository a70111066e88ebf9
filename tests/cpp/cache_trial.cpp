// CacheTrial with a cache that is faster, slower, or becomes either. Prints the first expectation
// that does not hold; exit status 1.
#include "host/incremental/cache_trial.hpp"

#include <cstdio>

namespace {

using namespace cule;

constexpr u32 kPlain = 10'000;  // time of a frame step without the cache

struct Console {
  CacheTrial trial{};
  u32 steps = 0, cached = 0, changes = 0;

  // Frame steps whose time with the cache is `with`, and every n-th of them is interrupted.
  void run(u32 count, u32 with, u32 n = 0) {
    steps = cached = changes = 0;
    bool before = trial.uses_cache();
    for (u32 i = 0; i < count; ++i) {
      const bool uses = trial.uses_cache();
      changes += uses != before;
      before = uses;
      cached += uses;
      ++steps;
      u32 time = uses ? with : kPlain;
      if (n != 0 && i % n == 0) time += 50'000'000;
      trial.note(time);
    }
  }
  bool mostly_uses(bool cache) const {
    return cache ? 20 * cached > 19 * steps : 20 * cached < steps;
  }
};

bool expect(bool holds, const char* what) {
  if (!holds) std::printf("%s\n", what);
  return holds;
}

bool check_choice() {
  for (const u32 with : {1'000u, 9'000u, 11'000u, 100'000u}) {
    Console c;
    c.run(2'000, with);
    c.run(10'000, with);
    if (!expect(c.mostly_uses(with < kPlain), "the faster way is used")) return false;
    if (!expect(c.changes >= 2, "the other way is tried again")) return false;
  }
  return true;
}

bool check_change() {
  Console c;
  for (const u32 with : {5'000u, 30'000u, 5'000u, 30'000u}) {
    c.run(1'500, with);  // whatever it was, it is found after the longest wait
    c.run(2'000, with);
    if (!expect(c.mostly_uses(with < kPlain), "a change of times is found")) return false;
  }
  return true;
}

bool check_interruptions() {
  for (const u32 with : {5'000u, 20'000u}) {
    Console c;
    c.run(5'000, with, 7);
    c.run(5'000, with, 7);
    if (!expect(c.mostly_uses(with < kPlain), "interruptions decide nothing")) return false;
  }
  return true;
}

}  // namespace

int main() { return check_choice() && check_change() && check_interruptions() ? 0 : 1; }
