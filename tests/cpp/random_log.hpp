// Random write logs.
#pragma once

#include <vector>

#include "random.hpp"
#include "tia/log.hpp"
#include "tia/state.hpp"

namespace cule {

// The picture of the tests, and lines of a log.
constexpr u32 kFirstLine = 34;
constexpr u32 kHeight = 210;
constexpr u32 kLines = 262;

// Accesses 3 to 60 cycles apart, some to registers that do nothing; now and then 60 of them one
// cycle apart, or the pair that starts the star field.
inline std::vector<LogEntry> random_log(Random& random, u32 cycles) {
  std::vector<LogEntry> log;
  const u32 pace = 3 + random.below(60);
  u32 dense = 0;  // accesses to come one cycle apart
  for (u32 at = random.below(20); at < cycles; at += dense != 0 ? 1 : 3 + random.below(pace)) {
    if (dense != 0) {
      --dense;
    } else if (random.below(4000) == 0) {
      dense = 60;
    }
    if (dense == 0 && random.below(4000) == 0) {
      log.push_back(pack_log_entry(at, HMM0, 0x70));
      log.push_back(pack_log_entry(at + 3, HMOVE, 0));
      log.push_back(pack_log_entry(at + 24, HMM0, 0x60));
      at += 24;
      continue;
    }
    const u32 reg = random.below(8) == 0 ? 0x2D + random.below(0x40 - 0x2D) : random.below(0x2D);
    const u32 value = random.below(4) == 0 ? 0xFF : random.below(256);
    log.push_back(pack_log_entry(at, reg, reg == VBLANK && random.below(4) ? 0 : value));
  }
  return log;
}

}  // namespace cule
