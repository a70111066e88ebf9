// Lines drawn one by one, last to first, from starts found in bands, against the picture drawn in
// one go, over random logs.
// Prints the first difference; exit status 1.
#include <cstdio>
#include <vector>

#include "random.hpp"
#include "tia/lines.hpp"

namespace {

using namespace cule;

constexpr u32 kFirstLine = 34;
constexpr u32 kHeight = 210;
constexpr u32 kLogs = 400;
constexpr u8 kUndrawn = 7;

// Accesses 3 to 60 cycles apart, and now and then the pair that starts the star field.
std::vector<LogEntry> random_log(Random& random, u32 cycles) {
  std::vector<LogEntry> log;
  const u32 pace = 3 + random.below(60);
  for (u32 at = random.below(20); at < cycles; at += 3 + random.below(pace)) {
    if (random.below(60) == 0) {
      log.push_back(pack_log_entry(at, HMM0, 0x70));
      log.push_back(pack_log_entry(at + 3, HMOVE, 0));
      log.push_back(pack_log_entry(at + 24, HMM0, 0x60));
      at += 24;
      continue;
    }
    const u32 reg = random.below(8) == 0 ? u32(kBeamMark) : random.below(0x2D);
    const u32 value = random.below(4) == 0 ? 0xFF : random.below(256);
    log.push_back(pack_log_entry(at, reg, reg == VBLANK && random.below(4) ? 0 : value));
  }
  return log;
}

struct Log {
  const std::vector<LogEntry>& entries;
  u32 base_clock;
  VisibleWindow window;
  bool hmove_blanks;

  void find(const LineStart& from, const LineRange& range, LineStart* starts_out) const {
    find_line_starts(from, entries.data(), u32(entries.size()), base_clock, window, hmove_blanks,
                     range, starts_out);
  }
};

// The picture, each line alone, from starts that are found band by band.
std::vector<u8> draw_lines(const Log& log, const LineStart& begin, u32 band, const u8* map) {
  std::vector<LineStart> bands((kHeight + band - 1) / band), starts(kHeight);
  log.find(begin, {kFirstLine, kHeight, band}, bands.data());
  for (u32 first = 0; first < kHeight; first += band) {
    const u32 lines = first + band < kHeight ? band : kHeight - first;
    log.find(bands[first / band], {kFirstLine + first, lines, 1}, &starts[first]);
  }
  std::vector<u8> picture(kHeight * kScreenWidth, kUndrawn);
  for (u32 row = kHeight; row-- > 0;) {
    draw_line(starts[row], log.entries.data(), u32(log.entries.size()), log.base_clock, log.window,
              log.hmove_blanks, Canvas{picture.data(), kFirstLine, kHeight, map});
  }
  return picture;
}

bool check(u32 number, Random& random, TiaState& tia) {
  const VisibleWindow window = make_window(kFirstLine, kHeight);
  const bool hmove_blanks = random.below(4) != 0;
  // Some logs stop in mid-picture; some begin there, as a continued frame does.
  const u32 cycles = (random.below(3) == 0 ? 40 + random.below(200) : 262) * kCyclesPerLine;
  const std::vector<LogEntry> log = random_log(random, cycles);
  const u32 size = u32(log.size());
  u32 base_clock = clocks_from_cycles(random.below(kCyclesPerLine));
  Beam beam = make_beam(window.begin_clocks);
  if (random.below(4) == 0) {
    const u32 line_begin = window.begin_clocks + kClocksPerLine * random.below(150);
    base_clock = line_begin + random.below(kClocksPerLine);
    beam.mark = beam.drawn = base_clock;
    beam.line_begin = line_begin;
  }
  u8 map[256];
  for (u32 i = 0; i < 256; ++i) map[i] = u8(i ^ number);

  std::vector<u8> whole(kHeight * kScreenWidth, kUndrawn);
  TiaState s = tia;
  Beam b = beam;
  Shapes shapes;
  shapes.reset();
  PaintSink<false> sink(Canvas{whole.data(), kFirstLine, kHeight, map});
  LogRenderer<PaintSink<false>> renderer{s, b, shapes, sink, window, hmove_blanks};
  renderer.run(log.data(), 0, size, base_clock);
  renderer.flush(size);

  const LineStart begin{tia, beam, 0, 1};
  for (const u32 band : {1u, 7u, 16u}) {
    const std::vector<u8> lines =
        draw_lines({log, base_clock, window, hmove_blanks}, begin, band, map);
    for (u32 i = 0; i < whole.size(); ++i) {
      if (whole[i] == lines[i]) continue;
      std::printf("log %u, bands of %u, row %u, pixel %u: %u instead of %u\n", number, band,
                  i / kScreenWidth, i % kScreenWidth, lines[i], whole[i]);
      return false;
    }
  }
  tia = s;
  tia.hmove_clock -= i32(262 * kClocksPerLine);
  return true;
}

}  // namespace

int main() {
  Random random;
  TiaState tia{};
  for (u32 number = 0; number < kLogs; ++number) {
    if (!check(number, random, tia)) return 1;
  }
  return 0;
}
