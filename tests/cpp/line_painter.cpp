// Pictures painted 32 scanlines at a time by a warp under the lockstep shim, against the picture
// drawn in one go, over random logs; and pairs of them that differ little, painted by two warps.
// Prints the first difference; exit status 1.
#include "cuda/line_painter.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cuda/launch.hpp"
#include "random.hpp"
#include "random_log.hpp"

namespace {

using namespace cule;

constexpr u32 kLogs = 3000;
u32 painted = 0;  // the others begin or hold the star field
u32 twin_rows = 0, same_rows = 0;

// The second warp maps colours otherwise, so that rows show who has painted them.
constexpr u8 kSecondMap = 0x55;

struct Map {
  u8 level[256];
};

__global__ void paint_kernel(const Console c, const TiaWriteLog* log, const Map& map, u8* rows,
                             bool* is_painted) {
  *is_painted = paint_lines(c, *log, 0, map.level, rows);
}

__global__ void paint_twins_kernel(const Console c, const TiaWriteLog* const* logs, const Map* maps,
                                   u8* rows, bool* is_painted) {
  const u32 warp = threadIdx.x / kWarpLanes;
  const TwinPictures twins = make_twins(*logs[0], *logs[1], kHeight * kScreenWidth);
  is_painted[warp] = paint_lines(c, *logs[warp], warp * kPaintBytes, maps[warp].level,
                                 rows + warp * kHeight * kScreenWidth, twins);
}

// The picture of a log in one go; false if its frame ends early, and it is not kept as a log.
bool draw_whole(const Console& console, const TiaWriteLog& log, const Map& map, TiaState& s,
                std::vector<u8>& whole_out) {
  whole_out.assign(kHeight * kScreenWidth, 7);
  PaintSink<false> sink(Canvas{whole_out.data(), kFirstLine, kHeight, map.level});
  Shapes shapes;
  shapes.reset();
  s = log.start;
  Beam beam = log.start_beam;
  render_entries(console, log, 0, s, beam, shapes, sink);
  return beam.mark == make_window(kFirstLine, kHeight).end_clocks;
}

// Another log that differs from the first one here and there, in its start, accesses or clock.
void make_twin(Random& random, const TiaWriteLog& first, TiaWriteLog& log) {
  log = first;
  TiaState& s = log.start;
  if (random.below(2)) s.position[random.below(5)] = u8(random.below(kScreenWidth));
  if (random.below(2)) s.hm[random.below(5)] = u8(random.below(16));
  if (random.below(2)) s.color[random.below(4)] ^= 0x20;
  if (random.below(4) == 0) s.old_grp[random.below(2)] ^= 0x10;
  if (random.below(4) == 0) s.grp[random.below(2)] ^= 0x10;
  if (random.below(4) == 0) s.vdelp[random.below(2)] ^= 1;
  if (random.below(2)) s.vdelbl ^= 1;
  if (random.below(4) == 0) s.nusiz[random.below(2)] ^= 3;
  if (random.below(2)) s.hmove_clock -= 30;
  const u32 later = random.below(2) ? 0 : random.below(first.base_clock / kClocksPerCycle + 1);
  log.base_clock -= clocks_from_cycles(later);
  const u32 rarely = 10 + random.below(random.below(2) ? 100 : 2000);
  log.size = 0;
  for (u32 i = 0; i < first.size; ++i) {
    LogEntry e = first.entries[i] + pack_log_entry(later, 0, 0);
    if (random.below(rarely) == 0) e ^= 1u << random.below(8);
    if (random.below(4 * rarely) == 0) continue;
    // A cycle later, where this changes no order.
    const bool is_free =
        i + 1 < first.size && log_cycle(first.entries[i + 1]) + later > log_cycle(e) + 1;
    if (is_free && random.below(2 * rarely) == 0) e += pack_log_entry(1, 0, 0);
    log.entries[log.size++] = e;
  }
}

bool report(u32 number, u32 i, u32 actual, u32 expected) {
  std::printf("log %u, row %u, pixel %u: %u instead of %u\n", number, i / kScreenWidth,
              i % kScreenWidth, actual, expected);
  return false;
}

bool check_twins(u32 number, Random& random, const Console& console, const TiaWriteLog& first,
                 const std::vector<u8>& whole, const Map& map) {
  static TiaWriteLog second{};
  make_twin(random, first, second);
  std::vector<u8> other;
  TiaState s;
  if (!draw_whole(console, second, map, s, other)) return true;
  const TiaWriteLog* const logs[2] = {&first, &second};
  Map maps[2] = {map, map};
  for (u8& level : maps[1].level) level ^= kSecondMap;
  alignas(16) static u8 rows[2][kHeight * kScreenWidth];
  bool is_painted[2] = {};
  launch_kernel(paint_twins_kernel, dim3(1), dim3(2 * kWarpLanes), 2 * kPaintBytes, nullptr,
                console, logs, maps, rows[0], is_painted);
  for (u32 i = 0; is_painted[0] && i < whole.size(); ++i) {
    if (whole[i] != rows[0][i]) return report(number, i, rows[0][i], whole[i]);
  }
  for (u32 row = 0; is_painted[1] && row < kHeight; ++row) {
    const u32 begin = row * kScreenWidth;
    const bool is_own = rows[1][begin] != other[begin];
    for (u32 i = begin; i < begin + kScreenWidth; ++i) {
      const u32 level = is_own ? other[i] ^ kSecondMap : other[i];
      if (level != rows[1][i]) return report(number, i, rows[1][i], level);
    }
    ++twin_rows;
    same_rows += !is_own;
  }
  return true;
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
  Map map;
  for (u32 i = 0; i < 256; ++i) map.level[i] = u8(i ^ number);

  std::vector<u8> whole;
  const bool is_kept = draw_whole(console, log, map, tia, whole);
  tia.hmove_clock -= i32(kLines * kClocksPerLine);
  if (!is_kept) return true;

  alignas(16) static u8 rows[kHeight * kScreenWidth];
  bool is_painted = false;
  launch_kernel(paint_kernel, dim3(1), dim3(kWarpLanes), kPaintBytes, nullptr, console, &log, map,
                rows, &is_painted);
  painted += is_painted;
  for (u32 i = 0; is_painted && i < whole.size(); ++i) {
    if (whole[i] != rows[i]) return report(number, i, rows[i], whole[i]);
  }
  return check_twins(number, random, console, log, whole, map);
}

}  // namespace

int main() {
  Random random;
  TiaState tia{};
  for (u32 number = 0; number < kLogs; ++number) {
    if (!check(number, random, tia)) return 1;
  }
  std::printf("%u of %u logs; %u of %u rows of twins are the same\n", painted, kLogs, same_rows,
              twin_rows);
  return painted > kLogs / 2 && same_rows > twin_rows / 4 && same_rows < twin_rows ? 0 : 1;
}
