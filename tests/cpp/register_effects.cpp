// What a TIA write reads and changes: the table (host/incremental/register_effects.hpp) and the
// dependencies of whole scanlines (line_dependencies.hpp) against LogRenderer, on random states.
// Prints the first difference; exit status 1.
#include <cstdio>
#include <cstring>
#include <vector>

#include "host/incremental/line_dependencies.hpp"
#include "host/incremental/observing_sink.hpp"
#include "random_state.hpp"
#include "tia/log_renderer.hpp"

namespace {

using namespace cule;
using tia_bytes::differing;

constexpr u32 kFirstLine = 34;
constexpr TiaBytes kFields = tia_bytes::of(0, sizeof(TiaState)) & ~tia_bytes::kPadding;

// `a` with other bytes outside `kept`, some or all of them, within their ranges.
TiaState changed_outside(const TiaState& a, TiaBytes kept, Random& random, u32 clock) {
  TiaState b = random_state(random, clock);
  const TiaBytes some = random.below(2) ? ~0ULL : u64(random.next()) << 32 | random.next();
  tia_bytes::copy(kept | some, b, a);
  return b;
}

struct Rendered {
  TiaState tia;
  u8 row[kScreenWidth];
};

// Renders accesses of scanline kFirstLine, drawn from clock `begin` to `end`. An empty window:
// nothing is drawn.
Rendered render(const TiaState& start, const std::vector<LogEntry>& log, u32 begin, u32 end,
                u32 height) {
  u8 map[256];
  for (u32 i = 0; i < 256; ++i) map[i] = u8(i);
  Rendered out{start, {}};
  const u32 line_begin = kFirstLine * kClocksPerLine;
  Beam beam{begin, begin, line_begin, 0};
  Shapes shapes;
  shapes.reset();
  CollisionSink collisions;
  PaintSink<false> painter(Canvas{out.row, kFirstLine, 1, map});
  ObservingSink sink{collisions, painter};
  LogRenderer<ObservingSink> renderer{
      beam, out.tia, shapes, sink, {0, height * (kFirstLine + 2) * kClocksPerLine}, true};
  renderer.run(log.data(), 0, u32(log.size()), 0);
  renderer.move_mark(end);
  renderer.flush();
  return out;
}

bool report(const char* what, u32 reg, u32 value, TiaBytes bytes) {
  std::printf("%s: register $%02X, value $%02X, bytes %llx\n", what, reg, value,
              static_cast<unsigned long long>(bytes));
  return false;
}

// Writes alone, nothing drawn.
bool check_write(u32 reg, u32 value, Random& random) {
  const u32 cycle = kFirstLine * kCyclesPerLine + random.below(kCyclesPerLine);
  const u32 clock = clocks_from_cycles(cycle);
  const RegisterEffect& effect = effect_of(reg, value);
  const std::vector<LogEntry> log{pack_log_entry(cycle, reg, value)};
  const TiaState a = random_state(random, clock);
  const TiaState b = changed_outside(a, effect.reads, random, clock);
  const TiaState a_out = render(a, log, clock, clock, 0).tia;
  const TiaState b_out = render(b, log, clock, clock, 0).tia;
  const TiaBytes changed = differing(a, a_out) & kFields & ~(effect.sets | effect.changes);
  if (changed) return report("changes bytes that the table lacks", reg, value, changed);
  const TiaBytes differ = differing(a_out, b_out) & kFields & ~(differing(a, b) & ~effect.sets);
  if (differ) return report("depends on bytes that the table lacks", reg, value, differ);
  return true;
}

// A scanline with random accesses: pixels, latches and state of two states that are the same in
// what LineDependencies says is used.
bool check_line(u32 number, Random& random) {
  const u32 first_cycle = kFirstLine * kCyclesPerLine;
  std::vector<LogEntry> log;
  const u32 pace = 1 + random.below(30);
  for (u32 at = random.below(10); at < kCyclesPerLine; at += 1 + random.below(pace)) {
    const u32 value = random.below(4) == 0 ? 0xFF : random.below(256);
    log.push_back(pack_log_entry(first_cycle + at, random.below(CXCLR), value));
    if (random.below(12) == 0) log.push_back(pack_log_entry(first_cycle + at, HMM0, 0x60));
  }
  const u32 begin = clocks_from_cycles(log_cycle(log[0]));
  const u32 end = (kFirstLine + 1) * kClocksPerLine;
  const TiaState a = random_state(random, begin);
  LineDependencies use(a, kFirstLine);
  for (const LogEntry e : log) {
    use.access(clocks_from_cycles(log_cycle(e)), log_register(e), log_value(e));
  }
  use.finish(true);
  const TiaBytes kept = use.used() | tia_bytes::kCollisions;
  const TiaState b = changed_outside(a, kept, random, begin);
  const Rendered a_out = render(a, log, begin, end, 1);
  const Rendered b_out = render(b, log, begin, end, 1);
  const TiaBytes passed = differing(a, b) & ~use.written();
  const TiaBytes differ = differing(a_out.tia, b_out.tia) & kFields & ~passed;
  const bool is_same_row = std::memcmp(a_out.row, b_out.row, kScreenWidth) == 0;
  if (!differ && is_same_row) return true;
  std::printf("scanline %u: %s, bytes %llx\n", number,
              is_same_row ? "another state" : "other pixels",
              static_cast<unsigned long long>(differ));
  return false;
}

}  // namespace

int main() {
  Random random;
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    for (u32 value = 0; value < 256; ++value) {
      for (u32 repeat = 0; repeat < 40; ++repeat) {
        if (!check_write(reg, value, random)) return 1;
      }
    }
  }
  for (u32 number = 0; number < 300'000; ++number) {
    if (!check_line(number, random)) return 1;
  }
  return 0;
}
