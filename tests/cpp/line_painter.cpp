// Pictures painted 32 scanlines at a time by a warp under the lockstep shim, against the picture
// drawn in one go, over random logs. Prints the first difference; exit status 1.
#include "cuda/line_painter.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cuda/launch.hpp"
#include "random.hpp"
#include "random_log.hpp"

namespace {

using namespace cule;

constexpr u32 kFirstLine = 34;
constexpr u32 kHeight = 210;
constexpr u32 kLines = 262;
constexpr u32 kLogs = 600;
u32 painted = 0;  // the others begin or hold the star field

__global__ void paint_kernel(const Console c, const TiaWriteLog* log, const u8* map, u8* rows,
                             bool* is_painted) {
  *is_painted = paint_lines(c, *log, 0, map, rows);
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
  log.start = tia;
  log.start.color_loss = u8(random.below(2));
  for (u8& color : log.start.color) color = u8((color & 0xFE) | log.start.color_loss);
  log.start_beam = make_beam(window.begin_clocks);
  log.base_clock = clocks_from_cycles(random.below(kCyclesPerLine));
  log.first_line = kFirstLine;
  log.size = u32(std::min<size_t>(entries.size(), kLogCapacity));
  std::copy_n(entries.begin(), log.size, log.entries);
  u8 map[256];
  for (u32 i = 0; i < 256; ++i) map[i] = u8(i ^ number);

  std::vector<u8> whole(kHeight * kScreenWidth, 7);
  alignas(16) static u8 rows[kHeight * kScreenWidth];
  PaintSink<false> sink(Canvas{whole.data(), kFirstLine, kHeight, map});
  Shapes shapes;
  shapes.reset();
  TiaState s = log.start;
  Beam beam = log.start_beam;
  render_entries(console, log, 0, s, beam, shapes, sink);
  tia = s;
  tia.hmove_clock -= i32(kLines * kClocksPerLine);
  if (beam.mark != window.end_clocks) return true;  // the picture is not kept as a log

  bool is_painted = false;
  launch_kernel(paint_kernel, dim3(1), dim3(kWarpLanes), kPaintBytes, nullptr, console, &log, map,
                rows, &is_painted);
  painted += is_painted;
  if (!is_painted) return true;
  for (u32 i = 0; i < whole.size(); ++i) {
    if (whole[i] == rows[i]) continue;
    std::printf("log %u, row %u, pixel %u: %u instead of %u\n", number, i / kScreenWidth,
                i % kScreenWidth, rows[i], whole[i]);
    return false;
  }
  return true;
}

}  // namespace

int main() {
  Random random;
  TiaState tia{};
  for (u32 number = 0; number < kLogs; ++number) {
    if (!check(number, random, tia)) return 1;
  }
  std::printf("%u of %u logs\n", painted, kLogs);
  return painted > kLogs / 2 ? 0 : 1;
}
