// CacheTuning over pictures that are still, flicker, or never repeat. Prints the first expectation
// that does not hold; exit status 1.
#include <cstdio>
#include <vector>

#include "host/incremental/cache_tuning.hpp"

namespace {

using namespace cule;

constexpr u32 kAccesses = 1000;  // of a frame step
constexpr u32 kStretch = 8;      // frame steps that are judged together
constexpr u32 kLongestRest = 127;

// A console's cache: how many accesses repeat the last frame, and the last but one.
struct Console {
  CacheTuning tuning{};
  u32 reused[2]{};
  u32 longest_rest = 0;
  std::vector<u32> switches;  // uses of the cache after which the choice changed
  u32 uses = 0;

  void picture(u32 from_last, u32 from_last_but_one) {
    reused[0] = from_last;
    reused[1] = from_last_but_one;
  }
  // A frame step, as LineCache::begin_frame() and end_frame() use the tuning.
  void step() {
    if (tuning.rest > longest_rest) longest_rest = tuning.rest;
    if (tuning.rest != 0) {
      --tuning.rest;
      return;
    }
    const u8 before = tuning.alternates;
    tuning.note(reused[before], kAccesses);
    ++uses;
    if (tuning.alternates != before) switches.push_back(uses);
  }
  void run(u32 steps) {
    while (steps-- > 0) step();
  }
};

bool expect(bool holds, const char* what) {
  if (!holds) std::printf("%s\n", what);
  return holds;
}

bool check_flicker() {
  Console c;
  c.picture(100, 950);
  c.run(kStretch);
  if (!expect(c.tuning.alternates == 1, "what flickers is tried the other way at once"))
    return false;
  c.run(1000);
  if (!expect(c.switches.size() == 1 && c.tuning.rest == 0, "what flickers stays that way"))
    return false;
  // Now it is still: waiting has begun anew, so that the way back is found as soon.
  c.picture(950, 100);
  c.run(kStretch);
  if (!expect(c.tuning.alternates == 0, "a still picture is tried the first way at once"))
    return false;
  c.run(1000);
  return expect(c.switches.size() == 2 && c.longest_rest == 0, "a still picture stays that way");
}

bool check_good_is_left_alone() {
  Console c;
  c.picture(900, 1000);
  c.run(1000);
  return expect(c.switches.empty() && c.longest_rest == 0, "a good share is tried no other way");
}

// The frames before a trial are not those it compares with: its first stretch does not count.
bool check_first_stretch() {
  Console c;
  c.picture(500, 0);
  c.run(2 * kStretch);
  c.picture(500, 950);
  c.run(kStretch + 100);
  return expect(c.tuning.alternates == 1, "the first stretch of a trial does not count");
}

// 200 is worse than 500, and 550 is not so much better that switching back and forth would pay.
bool check_worse(u32 other) {
  Console c;
  c.picture(500, other);
  c.run(40'000);
  if (!expect(c.tuning.alternates == 0 || c.uses - c.switches.back() <= 2 * kStretch,
              "a trial that was worse is over"))
    return false;
  u32 wait = 0, longest = 0;
  for (size_t i = 0; i + 2 < c.switches.size(); i += 2) {
    if (!expect(c.switches[i + 1] - c.switches[i] == 2 * kStretch, "a trial takes two stretches"))
      return false;
    const u32 now = c.switches[i + 2] - c.switches[i + 1];
    if (!expect(wait == 0 || now == 2 * wait || now == longest,
                "each wait is twice as long, up to the longest"))
      return false;
    wait = now;
    if (now > longest) longest = now;
  }
  if (!expect(longest == 64 * kStretch, "the longest wait is 64 stretches")) return false;
  if (!expect(c.longest_rest == 0, "half reused is no reason to rest")) return false;
  // However long it waited: what begins to flicker is found.
  c.picture(500, 950);
  c.run(66 * kStretch);
  if (!expect(c.tuning.alternates == 1, "flicker is found after the longest wait")) return false;
  c.picture(950, 100);
  c.run(2 * kStretch);
  return expect(c.tuning.alternates == 0, "after a find there is no wait");
}

bool check_rest() {
  Console c;
  c.picture(50, 50);
  c.run(kStretch);
  u32 rest = 0;
  for (u32 i = 0; i < 100'000; ++i) {
    c.step();
    if (c.tuning.rest > rest) {
      if (!expect(c.tuning.rest >= 2 * rest, "each rest is longer")) return false;
      rest = c.tuning.rest;
    }
  }
  if (!expect(c.longest_rest == kLongestRest, "the longest rest is 127 frame steps")) return false;
  if (!expect(c.uses > 100'000 * kStretch / (kLongestRest + kStretch) / 2, "a rest ends"))
    return false;
  // A still picture is found after one rest.
  c.picture(1000, 1000);
  c.run(kLongestRest + 2 * kStretch);
  if (!expect(c.tuning.rest == 0, "it rests no more")) return false;
  const u32 uses = c.uses;
  c.run(1000);
  if (!expect(c.uses == uses + 1000, "and never again")) return false;
  c.picture(50, 50);
  c.longest_rest = 0;
  c.run(4 * kStretch);
  return expect(c.longest_rest > 0 && c.longest_rest < 16, "rests begin short again");
}

// Frames without an access: nothing can be reused.
bool check_empty_frames() {
  CacheTuning tuning{};
  for (u32 i = 0; i < 1000; ++i) tuning.note(0, 0);
  return expect(tuning.alternates == 0 && tuning.rest == 0, "empty frames change nothing");
}

}  // namespace

int main() {
  const bool is_right = check_flicker() && check_good_is_left_alone() && check_first_stretch() &&
                        check_worse(200) && check_worse(550) && check_rest() &&
                        check_empty_frames();
  return is_right ? 0 : 1;
}
