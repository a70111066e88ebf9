// Runs of scanlines of players, missiles and ball over random logs, against pictures: each object
// painted alone, from a log in which all others are off, gives its pixels; a picture in which each
// register has a colour of its own gives those that show. Prints the first difference; exit status
// 1.
#include "console/sprites.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "random.hpp"
#include "random_log.hpp"
#include "tia/collisions.hpp"

namespace {

using namespace cule;

constexpr u32 kLogs = 1500;
constexpr u8 kMark = 0x80;  // of a pixel that an object covers
constexpr u8 kClassColor[4] = {0x10, 0x20, 0x30, 0x40};

using Picture = std::array<u8, kHeight * kScreenWidth>;
using Row = std::array<i16, kSpriteColumns>;
using Pixels = std::set<std::pair<i32, i32>>;  // from where a run begins: down, to the right

u32 num_runs = 0, num_hidden = 0, num_left_out = 0;
std::map<Pixels, i16> shape_of;

Picture paint(const TiaWriteLog& log, bool hmove_blanks) {
  ConsoleProperties properties{};
  properties.first_line = kFirstLine;
  properties.height = kHeight;
  properties.hmove_blanks = hmove_blanks;
  static ConsoleState state{};
  Picture rows{};
  paint_log<false>(Console{state, {}, {}, properties}, log, rows.data(), make_identity_map().value);
  return rows;
}

// Without the other objects, score, priority and blanks. `marks`: the object's colour says that it
// is there, and what its NUSIZ mode is.
TiaWriteLog alone(const TiaWriteLog& all, u32 object, bool marks) {
  static TiaWriteLog log;
  log = all;
  TiaState& s = log.start;
  const u32 n = object & 1;
  for (u32 k = 0; k < 2; ++k) {
    if (object != kPlayer0 + k) s.grp[k] = s.old_grp[k] = 0;
    if (object != kMissile0 + k) s.enam[k] = 0;
  }
  if (object != kBall) s.enabl = s.old_enabl = 0;
  for (u8& pf : s.pf) pf = 0;
  s.ctrlpf &= 0x30;
  s.hmove_blank = 0;
  if (marks) {
    s.color_loss = 0;
    s.color[n] = object == kBall ? 0 : u8(kMark | (s.nusiz[n] & 7) << 1);
    s.color[2] = kMark;
  }
  s.color[3] = 0;
  log.size = 0;
  for (u32 i = 0; i < all.size; ++i) {
    const LogEntry e = all.entries[i];
    const u32 reg = log_register(e);
    u32 value = log_value(e);
    const bool is_off =
        (reg == GRP0 && object != kPlayer0) || (reg == GRP1 && object != kPlayer1) ||
        (reg == ENAM0 && object != kMissile0) || (reg == ENAM1 && object != kMissile1) ||
        (reg == ENABL && object != kBall) || (reg >= PF0 && reg <= PF2) || reg == COLUBK;
    if (is_off) value = 0;
    if (reg == CTRLPF) value &= 0x30;
    const bool is_color = reg >= COLUP0 && reg <= COLUBK;
    log.entries[log.size++] =
        pack_log_entry(log_cycle(e), marks && is_color ? u32(kBeamMark) : reg, value);
    if (marks && object != kBall && reg == NUSIZ0 + n)
      log.entries[log.size++] = pack_log_entry(log_cycle(e), COLUP0 + n, kMark | (value & 7) << 1);
  }
  return log;
}

TiaWriteLog with_class_colors(const TiaWriteLog& all) {
  static TiaWriteLog log;
  log = all;
  log.start.color_loss = 0;
  std::copy_n(kClassColor, 4, log.start.color);
  for (u32 i = 0; i < log.size; ++i) {
    const LogEntry e = log.entries[i];
    const u32 reg = log_register(e);
    if (reg < COLUP0 || reg > COLUBK) continue;
    log.entries[i] = pack_log_entry(log_cycle(e), reg, kClassColor[reg - COLUP0]);
  }
  return log;
}

struct PlainRun {
  i32 y, first_x, x0, x1, last_y, last_x0, last_x1, visible, color, copies;
  Pixels pixels;
};

struct Expected {
  Row row;  // but for the shape
  Pixels pixels;
};

void find_runs(u32 object, const TiaWriteLog& log, const Picture& classes,
               std::vector<Expected>& out) {
  const Picture marks = paint(alone(log, object, true), false);
  const Picture colors = paint(alone(log, object, false), false);
  const u8 own = kClassColor[object == kBall ? 2 : object & 1];
  std::vector<PlainRun> runs;
  for (i32 y = 0; y < i32(kHeight); ++y) {
    const u8* line = marks.data() + size_t(y) * kScreenWidth;
    for (i32 x = 0; x < i32(kScreenWidth);) {
      if (!line[x]) {
        ++x;
        continue;
      }
      const i32 mode = line[x] >> 1 & 7;
      const i32 size = object > kPlayer1 ? 1 : mode == 5 ? 2 : mode == 7 ? 4 : 1;
      const i32 begin = x;
      i32 end = x + 1;  // of the piece
      for (; x < i32(kScreenWidth) && x - end < 8 * size; ++x)
        if (line[x]) end = x + 1;
      PlainRun* run = nullptr;
      for (PlainRun& r : runs) {
        if (r.last_y == y - 1 && r.last_x0 <= end && begin <= r.last_x1 &&
            (run == nullptr || r.last_x0 < run->last_x0))
          run = &r;
      }
      if (run == nullptr) {
        const i32 copies = object == kBall                       ? 1
                           : mode == 3 || mode == 6              ? 3
                           : mode == 1 || mode == 2 || mode == 4 ? 2
                                                                 : 1;
        runs.push_back({y,
                        begin,
                        begin,
                        end,
                        y,
                        begin,
                        end,
                        0,
                        colors[size_t(y) * kScreenWidth + size_t(begin)],
                        copies,
                        {}});
        run = &runs.back();
      }
      run->x0 = std::min(run->x0, begin);
      run->x1 = std::max(run->x1, end);
      run->last_y = y;
      run->last_x0 = begin;
      run->last_x1 = end;
      for (i32 p = begin; p < end; ++p) {
        if (!line[p]) continue;
        run->pixels.insert({y - run->y, p - run->first_x});
        run->visible += classes[size_t(y) * kScreenWidth + size_t(p)] == own;
      }
    }
  }
  for (const PlainRun& r : runs) {
    out.push_back({{i16(r.x0), i16(r.y), i16(r.x1 - r.x0), i16(r.last_y - r.y + 1), i16(r.visible),
                    i16(object), i16(r.pixels.size()), i16(r.color), i16(r.copies), 0, 1},
                   r.pixels});
    num_hidden += r.visible < i32(r.pixels.size());
  }
}

// The row for all runs that have none.
Row rest_of(const std::vector<Expected>& rows, size_t from) {
  i32 x0 = 999, y0 = 999, x1 = 0, y1 = 0, visible = 0, pixels = 0;
  for (size_t i = from; i < rows.size(); ++i) {
    const Row& r = rows[i].row;
    x0 = std::min<i32>(x0, r[kSpriteX]);
    y0 = std::min<i32>(y0, r[kSpriteY]);
    x1 = std::max<i32>(x1, r[kSpriteX] + r[kSpriteWidth]);
    y1 = std::max<i32>(y1, r[kSpriteY] + r[kSpriteHeight]);
    visible += r[kSpriteVisible];
    pixels += r[kSpritePixels];
  }
  return {i16(x0),
          i16(y0),
          i16(x1 - x0),
          i16(y1 - y0),
          saturated(u32(visible)),
          -1,
          saturated(u32(pixels)),
          0,
          0,
          0,
          i16(rows.size() - from)};
}

bool check(u32 number, Random& random, TiaState& tia) {
  static TiaWriteLog log{};
  const std::vector<LogEntry> entries = random_log(random, kLines * kCyclesPerLine);
  log.start = tia;
  log.start.color_loss = u8(random.below(2));
  for (u8& color : log.start.color) color = u8((color & 0xFE) | log.start.color_loss);
  log.start_beam = make_beam(make_window(kFirstLine, kHeight).begin_clocks);
  log.base_clock = clocks_from_cycles(random.below(kCyclesPerLine));
  log.first_line = kFirstLine;
  log.size = 0;
  const u32 kept = random.below(3) == 0 ? 20 : 1;  // few accesses: scanlines repeat
  for (const LogEntry e : entries) {
    if (log.size < kLogCapacity / 2 && random.below(kept) == 0) log.entries[log.size++] = e;
  }
  log.entries[log.size++] = pack_log_entry(kLines * kCyclesPerLine, kBeamMark, 0);

  ConsoleProperties properties{};
  properties.first_line = kFirstLine;
  properties.height = kHeight;
  properties.hmove_blanks = random.below(4) != 0;
  static ConsoleState state{};
  FrameMemory memory{&log, nullptr, 0};
  const Console console{state, memory, {}, properties};
  constexpr u32 kCapacities[] = {1, 2, 9, 64, 1024, 1024};
  const u32 capacity = kCapacities[random.below(6)];
  std::vector<Row> rows(capacity, Row{7});
  static SpriteMemory scratch;
  write_sprites(console, scratch, capacity, rows[0].data());

  const Picture classes = paint(with_class_colors(log), properties.hmove_blanks);
  std::vector<Expected> expected;
  for (u32 object = 0; object < kSprites; ++object) find_runs(object, log, classes, expected);
  std::sort(expected.begin(), expected.end(), [](const Expected& a, const Expected& b) {
    return std::make_pair(a.row[kSpriteY], a.row) < std::make_pair(b.row[kSpriteY], b.row);
  });
  num_runs += u32(expected.size());
  if (expected.size() > capacity) {
    ++num_left_out;
    expected[capacity - 1] = {rest_of(expected, capacity - 1), {}};
  }
  expected.resize(capacity, {Row{}, {}});
  for (u32 i = 0; i < capacity; ++i) {
    Row& wanted = expected[i].row;
    if (wanted[kSpriteRuns] == 1)
      wanted[kSpriteShape] =
          shape_of.try_emplace(expected[i].pixels, rows[i][kSpriteShape]).first->second;
    if (rows[i] == wanted) continue;
    std::printf("log %u, row %u of %u:\n", number, i, capacity);
    for (u32 k = 0; k < kSpriteColumns; ++k)
      std::printf("  column %u: %d instead of %d\n", k, rows[i][k], wanted[k]);
    return false;
  }
  CollisionSink sink;
  tia = render_log(console, log, log.start, sink);
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
  std::set<i16> shapes;
  for (const auto& entry : shape_of) shapes.insert(entry.second);
  std::printf("%u runs, %u partly hidden, %zu shapes, %zu hashes; runs left out in %u of %u logs\n",
              num_runs, num_hidden, shape_of.size(), shapes.size(), num_left_out, kLogs);
  const bool are_told_apart = shapes.size() > std::min<size_t>(shape_of.size(), 1u << 15) / 2;
  const bool is_varied =
      num_hidden > num_runs / 10 && num_hidden < num_runs && num_left_out > kLogs / 4;
  return are_told_apart && is_varied ? 0 : 1;
}
