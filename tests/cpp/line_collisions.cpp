// Write logs rendered by teams of lanes under the lockstep shim, against LogRenderer, over random
// logs in random pieces, recording random latches. Prints the first difference; exit status 1.
#include "cuda/line_collisions.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cuda/launch.hpp"
#include "random.hpp"
#include "random_log.hpp"

namespace {

using namespace cule;

constexpr u32 kLogs = 600;
u32 pieces = 0, together = 0;

__global__ void render_kernel(const Console c, const TiaWriteLog* log, RenderRequest request,
                              u32 size, Rendered* rendered) {
  make_line_rules(0);
  const Team<PartOfWarp> team{{threadIdx.x / size * size, size}};
  if (team.first() != 0) return;
  const Rendered result = render_together(team, c, *log, request, 0);
  if (team.leads()) *rendered = result;
}

void print_state(const char* name, const TiaState& s, const Beam& b) {
  std::printf("%s:", name);
  const u8* bytes = reinterpret_cast<const u8*>(&s);
  for (u32 i = 0; i < sizeof s; ++i) std::printf(" %02x", bytes[i]);
  std::printf("  beam %u %u %u %u\n", b.mark, b.drawn, b.line_begin, b.first);
}

bool check(u32 number, Random& random, TiaState& tia) {
  const VisibleWindow window = make_window(kFirstLine, kHeight);
  ConsoleProperties properties{};
  properties.first_line = kFirstLine;
  properties.height = kHeight;
  properties.hmove_blanks = random.below(4) != 0;
  static ConsoleState state{};
  const Console console{state, {}, {}, properties};

  static TiaWriteLog log{};
  const std::vector<LogEntry> entries = random_log(random, kLines * kCyclesPerLine);
  const u32 color_loss = random.below(2);
  tia.color_loss = u8(color_loss);
  for (u8& color : tia.color) color = u8((color & 0xFE) | color_loss);
  log.start = tia;
  log.base_clock = clocks_from_cycles(random.below(kCyclesPerLine));
  log.first_line = kFirstLine;
  const u32 size = u32(std::min<size_t>(entries.size(), kLogCapacity));
  std::copy_n(entries.begin(), size, log.entries);

  TiaState expected = tia;
  Beam beam = make_beam(window.begin_clocks);
  CollisionSink sink;
  const u32 some = random.below(0x10000) & kAllLatches;
  sink.wanted = number % 3 == 0 ? 0 : number % 3 == 1 ? some : u32(kAllLatches);
  expected.missing_latches = 0;
  Shapes shapes;
  shapes.reset();
  const u32 pace = 1 + random.below(size);
  const u32 team_size = 4u << random.below(4);
  for (u32 from = 0; from < size;) {
    state.tia = expected;
    state.beam = beam;
    log.size = std::min(size, from + 1 + random.below(pace));
    sink.has_seen_clear = false;
    render_entries(console, log, from, expected, beam, shapes, sink);
    const u32 before = sink.has_seen_clear ? 0 : expected.missing_latches;
    expected.missing_latches = u16((before | (kAllLatches & ~sink.wanted)) & ~expected.collisions);
    Rendered rendered{};
    launch_kernel(render_kernel, dim3(1), dim3(kWarpLanes), kLineScanBytes, nullptr, console, &log,
                  RenderRequest::part(from, sink.wanted, false, false), team_size, &rendered);
    ++pieces;
    together += rendered.is_rendered;
    if (rendered.is_rendered &&
        (rendered.has_cleared != sink.has_seen_clear ||
         std::memcmp(&expected, &state.tia, sizeof expected) != 0 || !(beam == state.beam))) {
      std::printf("log %u, entries %u to %u of %u, team of %u\n", number, from, log.size, size,
                  team_size);
      print_state("expected", expected, beam);
      print_state("rendered", state.tia, state.beam);
      return false;
    }
    const TiaState before_nothing = state.tia;
    launch_kernel(render_kernel, dim3(1), dim3(kWarpLanes), kLineScanBytes, nullptr, console, &log,
                  RenderRequest::part(log.size, sink.wanted, false, false), team_size, &rendered);
    if (!rendered.is_rendered || std::memcmp(&before_nothing, &state.tia, sizeof state.tia) != 0) {
      std::printf("log %u: an empty part changes the state\n", number);
      return false;
    }
    from = log.size;
  }
  tia = expected;
  tia.hmove_clock -= i32(kLines * kClocksPerLine);
  return true;
}

}  // namespace

int main() {
  Random random;
  TiaState tia{};
  for (u32 number = 0; number < kLogs; ++number) {
    if (!check(number, random, tia)) return 1;
  }
  std::printf("%u of %u pieces\n", together, pieces);
  return together > pieces / 2 ? 0 : 1;
}
