// Latches that are known without rendering (console/pending_latches.hpp) against those of
// LogRenderer, on random states and logs. Prints the first difference; exit status 1.
#include "console/pending_latches.hpp"

#include <cstdio>
#include <vector>

#include "random_state.hpp"

namespace {

using namespace cule;

constexpr u32 kFirstLine = 34;

// Accesses to a few registers, as those of a game between two reads are; half of the values are 0.
std::vector<LogEntry> few_registers(Random& random, u32 from_cycle) {
  std::vector<LogEntry> log(random.below(60));
  const u32 num_registers = 1 + random.below(5);
  u32 registers[5];
  for (u32& reg : registers) reg = random.below(6) == 0 ? u32(CXCLR) : random.below(64);
  u32 cycle = from_cycle;
  for (LogEntry& e : log) {
    cycle += 3 + random.below(30);
    const u32 reg = registers[random.below(num_registers)];
    e = pack_log_entry(cycle, reg, random.below(2) * random.below(256));
  }
  return log;
}

}  // namespace

int main() {
  Random random;
  u32 num_known = 0, num_unknown = 0;
  for (u32 number = 0; number < 200'000; ++number) {
    const u32 clock = (kFirstLine + random.below(200)) * kClocksPerLine;
    TiaState s = random_state(random, clock);
    for (u32 n = 0; n < 2; ++n) s.enam[n] = u8(s.enam[n] & random.below(2));
    const std::vector<LogEntry> log = few_registers(random, clock / kClocksPerCycle);
    const u32 size = u32(log.size()), latches = 3u << 2 * random.below(8) & kAllLatches;

    Beam beam = make_beam(clock);
    Shapes shapes;
    shapes.reset();
    CollisionSink sink;
    LogRenderer<CollisionSink> renderer{
        beam, s, shapes, sink, make_window(kFirstLine, 210), random.below(2) == 0};
    PendingLatches pending;
    // Some of the log is rendered first, and the program reads while the rest is pending.
    const u32 rendered = random.below(size + 1);
    renderer.run(log.data(), 0, rendered, 0);
    renderer.flush();
    u32 read = rendered + random.below(size - rendered + 1);
    bool is_known = pending.know(s, log.data(), rendered, read, latches);
    if (random.below(2)) is_known = pending.know(s, log.data(), rendered, read = size, latches);
    renderer.run(log.data(), rendered, read, 0);
    renderer.flush();
    ++(is_known ? num_known : num_unknown);
    if (is_known && (pending.set() ^ s.collisions) & latches) {
      std::printf("log %u: latches %04x are %04x, not %04x\n", number, latches,
                  s.collisions & latches, pending.set() & latches);
      return 1;
    }
  }
  if (num_known < 20'000 || num_unknown < 20'000) {
    std::printf("known %u times, unknown %u times\n", num_known, num_unknown);
    return 1;
  }
  return 0;
}
