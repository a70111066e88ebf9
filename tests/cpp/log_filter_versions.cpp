// copy_effective() against its rule, one entry at a time, over random logs of every length. Prints
// the first difference; exit status 1.
#include <cstdio>
#include <vector>

#include "host/incremental/log_filter.hpp"
#include "random.hpp"

namespace {

using namespace cule;

constexpr u32 kMostEntries = 70;
constexpr u32 kLogsOfALength = 200;

bool check_log(Random& random, u32 n) {
  // Some logs have few registers, as those of a game do.
  const u32 registers = random.below(2) ? 64 : 1 + random.below(8);
  const u32 first = random.below(64);
  std::vector<LogEntry> log(n);
  u32 cycle = 0;
  for (LogEntry& e : log) {
    cycle += random.below(60);
    e = pack_log_entry(cycle, (first + random.below(registers)) % 64, random.below(256));
  }
  std::vector<LogEntry> plain(n + kSpareEntries);
  std::vector<LogEntry> fast(n + kSpareEntries);
  const u32 size = copy_effective_plain(plain.data(), log.data(), n);
  if (copy_effective(fast.data(), log.data(), n) != size) return false;
  for (u32 i = 0; i < size; ++i) {
    if (plain[i] != fast[i] || !(kEffectiveRegisters >> log_register(plain[i]) & 1)) return false;
  }
  return true;
}

}  // namespace

int main() {
  Random random;
  for (u32 n = 0; n <= kMostEntries; ++n) {
    for (u32 k = 0; k < kLogsOfALength; ++k) {
      if (check_log(random, n)) continue;
      std::printf("log %u of %u entries\n", k, n);
      return 1;
    }
  }
  return 0;
}
