// cuda/line_painter.hpp: paints the scanlines of a LineScan, one lane a scanline.
//
// Each group of objects is a mask of the scanline, one bit a pixel. An access that changes what a
// group shows in the middle of the scanline replaces the rest of its mask. The masks become bytes
// once a scanline, with the colours up to one place in it and those after; a further change of
// colours, or one of priorities, makes bytes of what is before it.
#pragma once

#include "cuda/bytes16.hpp"
#include "cuda/line_twins.hpp"
#include "cuda/line_view.hpp"

namespace cule {

// The pixels of a scanline: bit x % 32 of word x / 32.
constexpr u32 kLineWords = kScreenWidth / 32;
struct LineMask {
  u32 word[kLineWords];
};

// Pixels move right, and those that leave on the right enter on the left. x < 160.
CULE_HD CULE_INLINE LineMask rotate(const LineMask& m, u32 x) {
  const u32 words = x / 32;
  const LineMask a =
      words & 1 ? LineMask{{m.word[4], m.word[0], m.word[1], m.word[2], m.word[3]}} : m;
  const LineMask b =
      words & 2 ? LineMask{{a.word[3], a.word[4], a.word[0], a.word[1], a.word[2]}} : a;
  const LineMask c =
      words & 4 ? LineMask{{b.word[1], b.word[2], b.word[3], b.word[4], b.word[0]}} : b;
  const u32 n = x % 32;
  return {{CULE_FUNNEL_LEFT(c.word[0], c.word[4], n), CULE_FUNNEL_LEFT(c.word[1], c.word[0], n),
           CULE_FUNNEL_LEFT(c.word[2], c.word[1], n), CULE_FUNNEL_LEFT(c.word[3], c.word[2], n),
           CULE_FUNNEL_LEFT(c.word[4], c.word[3], n)}};
}

// Bits of word w of the pixels before x.
CULE_HD CULE_INLINE u32 word_before(u32 w, u32 x) {
  const i32 bits = i32(x) - 32 * i32(w);
  return CULE_BITS_BELOW(u32(bits < 0 ? 0 : bits));
}

// Copies of a pattern as NUSIZ bits 0-2 have them, the first one at pixel x.
CULE_HD CULE_INLINE LineMask place_line_copies(u32 pattern, u32 mode, bool with_first, u32 x) {
  const u32 near = 0x0Au >> mode & 1 ? pattern << 16 : 0;
  LineMask m{};
  m.word[0] = (with_first ? pattern : 0) | near;
  m.word[1] = 0x4Cu >> mode & 1 ? pattern : 0;
  m.word[2] = 0x50u >> mode & 1 ? pattern : 0;
  return rotate(m, x);
}

// Each of eight bits becomes four equal bits.
CULE_HD CULE_INLINE u32 widen_cells(u32 cells) {
  u32 x = (cells | cells << 12) & 0x000F000F;
  x = (x | x << 6) & 0x03030303;
  x = (x | x << 3) & 0x11111111;
  return x * 15;
}

CULE_HD CULE_INLINE u32 reverse_byte(u32 byte) { return CULE_REVERSE_BITS(byte) >> 24; }

CULE_HD CULE_INLINE u32 shift_left(u32 x, i32 n) { return n < 0 ? x >> -n : x << n; }

// The bytes of 32 pixels: of eight colours, the one that three planes have the number of.
CULE_HD CULE_INLINE void pick_colors(const u32 (&colors)[2], const u32 (&planes)[3],
                                     u32 (&bytes_out)[8]) {
  u32 picked[4][2];  // byte i of them: pixel 4 i + k, and 16 + 4 i + k
  for (i32 k = 0; k < 4; ++k) {
    u32 selector = 0;
    for (i32 bit = 0; bit < 3; ++bit) {
      selector |= shift_left(planes[bit], bit - k) & 0x11111111u << bit;
    }
    picked[k][0] = CULE_PICK_BYTES(colors[0], colors[1], selector);
    picked[k][1] = CULE_PICK_BYTES(colors[0], colors[1], selector >> 16);
  }
  for (u32 half = 0; half < 2; ++half) {
    const u32 even_low = CULE_PICK_BYTES(picked[0][half], picked[1][half], 0x5140);
    const u32 even_high = CULE_PICK_BYTES(picked[0][half], picked[1][half], 0x7362);
    const u32 odd_low = CULE_PICK_BYTES(picked[2][half], picked[3][half], 0x5140);
    const u32 odd_high = CULE_PICK_BYTES(picked[2][half], picked[3][half], 0x7362);
    bytes_out[4 * half] = CULE_PICK_BYTES(even_low, odd_low, 0x5410);
    bytes_out[4 * half + 1] = CULE_PICK_BYTES(even_low, odd_low, 0x7632);
    bytes_out[4 * half + 2] = CULE_PICK_BYTES(even_high, odd_high, 0x5410);
    bytes_out[4 * half + 3] = CULE_PICK_BYTES(even_high, odd_high, 0x7632);
  }
}

// Paints one scanline, in one lane.
struct LinePainter : LineView {
  using Scan = LineScan<Team<WholeWarp>, true>;

  const u32 map;  // of colours as registers have them, in shared memory
  const u32 black;
  u8* const row;  // 160 bytes, 16-byte aligned

  LineMask shown[kGroups]{};        // of each group,
  u32 painted[kGroups]{};           // the pixels before this one
  u32 flushed = 0;                  // pixels before it are in the row
  u32 recolored = 0;                // pixels before it, if not flushed, have other colours:
  u32 old_colors = 0;               // a byte each
  i32 origin;                       // the pixel of cycle 0 of the log
  u32 cycle;                        // of the frame, there
  i32 mark = -i32(kClocksPerLine);  // a pixel of the scanline
  const bool has_moved;             // by its HMOVE
  u32 entry_at;                     // the next access after this one:
  LogEntry e;
  PackedRule rule;
  const u32 rules;  // where they are in shared memory
  const bool hmove_blanks;

  __device__ LinePainter(const Scan& l, u8* to, u32 m, u32 level_of_black)
      : LineView{l.state, l.hmove_clock},
        map(m),
        black(level_of_black),
        row(to),
        origin(i32(l.log.base_clock - l.line_begin()) - i32(kHblankClocks)),
        cycle(l.log.base_clock / kClocksPerCycle),
        has_moved(l.moves_early),
        entry_at(l.painted_at()),
        rules(l.memory + kLineRulesAt),
        hmove_blanks(l.window.hmove_blanks) {}

  // Of the rules:
  __device__ CULE_INLINE bool moves_at_once(u32 /*cycle*/) const { return has_moved; }
  __device__ CULE_INLINE void blank_left() const {
    // Behind the first pixels it is the next scanline that is blanked.
    if (hmove_blanks && visible() == 0) s[kLineHmoveBlank] = 1;
  }
  __device__ CULE_INLINE void clear_latches() const {}

  __device__ CULE_INLINE void run() {
    next();
    // Accesses that move the mark no further than to the first pixel, whatever their delay.
    const i32 clocks = -i32(kResetDrawClocks) - origin;
    const LogEntry shown_from =
        pack_log_entry(clocks < 0 ? 0 : u32(clocks) / kClocksPerCycle + 1, 0, 0);
    while (e < shown_from) {
      apply();
      next();
    }
    u32 until;
    do {
      while (true) {
        const u32 groups = find_change(until);
        if (is_beyond() || splits(groups, until)) break;
        if (!(groups & kColors)) paint(groups, until);
        apply();
        next();
      }
      paint(kAllGroups, until);
      flush();
      if (is_beyond()) break;
      apply();
      next();
    } while (true);
  }

 private:
  static constexpr u32 kAllGroups = (1u << kGroups) - 1;
  static constexpr u32 kAllBytes = 0x01010101;
  static constexpr u32 kColors = 1u << kGroups;  // extra bit: colours changed

  // The next access.
  __device__ CULE_INLINE void next() {
    e = shared_word(entry_at);
    entry_at += PaintedList::kStep;
    rule = {shared_word(rules + log_register(e) * kWordBytes)};
  }
  // Goes to the next access that changes a pixel: of these groups, or kColors. Pixels before
  // `until` are as they were before it; there is none if that is the whole scanline.
  __device__ CULE_INLINE u32 find_change(u32& until) {
    while (e != PaintedList::kEnd) {
      move_mark();
      until = visible();
      // Nothing of the scanline is shown before its first pixels.
      const u32 groups = until > flushed ? changed_groups() : 0;
      if (groups != 0) return groups;
      apply();
      next();
    }
    mark = i32(kScreenWidth);
    until = kScreenWidth;
    return kAllGroups;
  }

  // Pixels of the scanline before the mark.
  __device__ CULE_INLINE u32 visible() const {
    return mark < 0 ? 0 : mark > i32(kScreenWidth) ? kScreenWidth : u32(mark);
  }
  __device__ CULE_INLINE bool is_beyond() const { return mark >= i32(kScreenWidth); }
  __device__ CULE_INLINE u32 clock_of(LogEntry e) const {
    return clocks_from_cycles(cycle + log_cycle(e));
  }
  // Playfield pixels have a player's colour and go first only if no object is shown.
  __device__ CULE_INLINE static bool depends_on_all(u32 control) { return (control & 6) == 6; }

  // Whether pixels before the access must be in the row before it. Keeps the colours of what is
  // before the first access to them.
  __device__ CULE_INLINE bool splits(u32 groups, u32 until) {
    if (groups & kColors) {
      if (recolored > flushed) return recolored != until;
      recolored = until;
      old_colors = colors();
      return false;
    }
    const u32 control = s[CTRLPF];
    return depends_on_all(control) ||
           (log_register(e) == CTRLPF && ((control ^ log_value(e)) & 6) != 0);
  }

  __device__ CULE_INLINE void move_mark() {
    const u32 at = log_cycle(e);
    const u32 reg = log_register(e);
    u32 delay = rule.delay(cycle + at);
    if (rule.is_ordered() && reg - RESP0 < 2) {
      const PlayerReset kind = player_reset(*this, reg - RESP0, clock_of(e));
      if (kind == PlayerReset::kDisplay) delay = kResetDrawClocks;
    }
    const i32 target = origin + i32(clocks_from_cycles(at) + delay);
    mark = target > mark ? target : mark;
  }

  // The groups that look different after the access, or kColors.
  __device__ CULE_INLINE u32 changed_groups() const {
    const u32 reg = log_register(e);
    const u32 v = log_value(e);
    const u32 groups = rule.groups();
    if (!rule.is_ordered()) {
      if (rule.seen(s[reg] ^ v) == 0) return 0;
      return groups != 0 ? groups : u32(kColors);
    }
    if (reg - GRP0 < 2) {
      // What is shown without a delay, and what is copied and shown with one.
      const u32 n = reg - GRP0;
      const u32 other = 1 - n;
      const u32 own = s[reg] ^ v;
      const u32 copied = s[kLineOldGraphics + other] ^ s[GRP0 + other];
      const u32 ball = (s[kLineOldBall] ^ s[ENABL]) >> 1 & s[VDELBL] & n;
      const u32 shows_own = ~s[VDELP0 + n] & u32(own != 0);
      const u32 shows_copied = s[VDELP0 + other] & u32(copied != 0);
      return shows_own << n | shows_copied << other | ball << kBallGroup;
    }
    switch (reg) {
      case NUSIZ0:
      case NUSIZ1:
        return s[reg] != v || s[kLineSkip + reg - NUSIZ0] ? groups & shown_groups() : 0;
      case CTRLPF: {
        const u32 control = s[CTRLPF];
        const bool is_mirrored = s[kLineMirror] != (v & 1);
        const bool is_ball_changed = ((control ^ v) & 0x30) != 0;
        const bool is_priority_changed = ((control ^ v) & 6) != 0;
        if (is_priority_changed) return groups;
        return u32(is_mirrored) << kField | u32(is_ball_changed) << kBallGroup;
      }
      case RESMP0:
      case RESMP1:
        return (s[reg] ^ v) & 2 ? groups : 0;
      case HMCLR:
        return 0;
      default:
        return groups & shown_groups();
    }
  }
  // The groups of which an object is shown.
  __device__ CULE_INLINE u32 shown_groups() const {
    const bool first = shown_player(0) != 0 || is_missile_shown(0);
    const bool second = shown_player(1) != 0 || is_missile_shown(1);
    return u32(first) << kFirst | u32(second) << kSecond | shown_ball_bit() << (kBallGroup - 1);
  }

  // What is painted is as it was before the access.
  __device__ CULE_INLINE void apply() {
    const u32 reg = log_register(e);
    if (rule.is_ordered()) {
      cule::apply(*this, reg, log_value(e), clock_of(e));
    } else {
      keep(reg, log_value(e));
    }
  }

  // --- pixels ---

  __device__ CULE_INLINE LineMask player_and_missile(u32 n) const {
    const u32 mode = s[NUSIZ0 + n] & 7;
    LineMask m{};
    const u32 graphics = shown_player(n);
    if (graphics != 0) {
      const u32 bits = s[REFP0 + n] & 8 ? graphics : reverse_byte(graphics);
      const bool is_wide = mode == 5 || mode == 7;
      const u32 pattern = is_wide ? u32(widen_byte(bits, mode == 5 ? 2 : 4)) : bits;
      const u32 x = wrap_position(i32(s[kLinePosition + n] + (is_wide ? 1 : 0)));
      m = place_line_copies(pattern, mode, !s[kLineSkip + n], x);
    }
    if (is_missile_shown(n)) {
      const u32 pattern = (1u << (1u << (s[NUSIZ0 + n] >> 4 & 3))) - 1;
      const LineMask missile =
          place_line_copies(pattern, mode, true, s[kLinePosition + kMissile0 + n]);
      for (u32 w = 0; w < kLineWords; ++w) m.word[w] |= missile.word[w];
    }
    return m;
  }

  __device__ CULE_INLINE LineMask ball() const {
    LineMask m{};
    if (!shown_ball_bit()) return m;
    m.word[0] = (1u << (1u << (s[CTRLPF] >> 4 & 3))) - 1;
    return rotate(m, s[kLinePosition + kBall]);
  }

  __device__ CULE_INLINE LineMask playfield() const {
    const u32 left = s[PF0] >> 4 | reverse_byte(s[PF1]) << 4 | s[PF2] << 12;
    const u32 mirrored = CULE_REVERSE_BITS(left) >> 12;
    const u32 right = s[kLineMirror] ? mirrored : left;
    return {{widen_cells(left & 0xFF), widen_cells(left >> 8 & 0xFF),
             widen_cells((left >> 16 | right << 4) & 0xFF), widen_cells(right >> 4 & 0xFF),
             widen_cells(right >> 12)}};
  }

  // Only the playfield takes part in drawing.
  __device__ CULE_INLINE bool is_lone_playfield() const {
    return ((s[PF0] & 0xF0) | s[PF1] | s[PF2]) != 0 && !shown_player(0) && !shown_player(1) &&
           !is_missile_shown(0) && !is_missile_shown(1) && !shown_ball_bit();
  }

  // Brings the masks of some groups up to date to x.
  __device__ CULE_INLINE void paint(u32 groups, u32 x) {
    for (u32 players = groups & 3; players != 0; players &= players - 1) {
      const u32 n = lowest_bit(players);
      const LineMask m = player_and_missile(n);
      const u32 from = n == 0 ? painted[kFirst] : painted[kSecond];
      for (u32 w = 0; w < kLineWords; ++w) {
        const u32 before = word_before(w, from);
        u32& first = shown[kFirst].word[w];
        u32& second = shown[kSecond].word[w];
        const u32 merged = ((n == 0 ? first : second) & before) | (m.word[w] & ~before);
        first = n == 0 ? merged : first;
        second = n == 0 ? second : merged;
      }
      painted[kFirst] = n == 0 ? x : painted[kFirst];
      painted[kSecond] = n == 0 ? painted[kSecond] : x;
    }
    if (groups & 1u << kField) replace(kField, playfield(), x);
    if (groups & 1u << kBallGroup) replace(kBallGroup, ball(), x);
  }
  __device__ CULE_INLINE void replace(ObjectGroup group, const LineMask& m, u32 x) {
    for (u32 w = 0; w < kLineWords; ++w) {
      const u32 before = word_before(w, painted[group]);
      u32& word = shown[group].word[w];
      word = (word & before) | (m.word[w] & ~before);
    }
    painted[group] = x;
  }

  // The levels of the four colour registers, a byte each.
  __device__ CULE_INLINE u32 colors() const {
    if (s[VBLANK] & 2) return black * kAllBytes;
    u32 levels = 0;
    for (u32 i = 0; i < 4; ++i) levels |= u32(dynamic_shared()[map + s[COLUP0 + i]]) << 8 * i;
    return levels;
  }

  // Writes the painted pixels from `flushed` on to the row, and anything after them.
  __device__ CULE_INLINE void flush() {
    const u32 end = painted[kField];
    if (end <= flushed) return;
    u64* const octets = reinterpret_cast<u64*>(row);
    const u32 first = flushed / 8;
    const u32 kept = flushed % 8;  // pixels of the first eight that are there already
    const u64 old = kept != 0 ? octets[first] : 0;
    const u32 now = colors();
    const bool has_old = recolored > flushed;
    const u32 levels[2] = {has_old ? old_colors : now, now};
    const u32 control = s[CTRLPF];
    const bool score = control & 2;
    const bool priority = control & 4;
    const bool is_lone = depends_on_all(control) && is_lone_playfield();
    const bool takes_field = score && (!priority || is_lone);
    const u32 field_first = priority && !is_lone ? ~0u : 0;
    for (u32 w = 0; w < kLineWords; ++w) {
      if (32 * w >= end || 32 * (w + 1) <= flushed) continue;
      const u32 left = w < 2 ? ~0u : w == 2 ? 0xFFFFu : 0;
      const u32 pf = shown[kField].word[w];
      const u32 field = pf | shown[kBallGroup].word[w];
      u32 a = shown[kFirst].word[w] | (takes_field ? pf & left : 0);
      u32 b = shown[kSecond].word[w] | (takes_field ? pf & ~left : 0);
      a &= ~(field & field_first);
      b &= ~(field & field_first) & ~a;
      const u32 c = field & (field_first | (~a & ~b));
      // Colours 0 to 3: a, b, c and none of them.
      const u32 planes[3] = {~a & (b | ~c), ~a & ~b, has_old ? ~word_before(w, recolored) : 0};
      u32 bytes[8];
      pick_colors(levels, planes, bytes);
      if (w == 0 && s[kLineHmoveBlank]) bytes[0] = bytes[1] = black * kAllBytes;
      if (4 * w >= first) {
        for (u32 k = 0; k < 8; k += 4) {
          reinterpret_cast<Bytes16*>(row)[2 * w + k / 4] = {
              {bytes[k], bytes[k + 1], bytes[k + 2], bytes[k + 3]}};
        }
      } else {
        for (u32 k = 1; k < 4; ++k) {
          if (4 * w + k >= first) octets[4 * w + k] = bytes[2 * k] | u64(bytes[2 * k + 1]) << 32;
        }
      }
    }
    if (kept != 0) {
      const u64 others = ~0ULL << 8 * kept;
      octets[first] = (octets[first] & others) | (old & ~others);
    }
    flushed = end;
  }
};

// A row to the other picture's.
__device__ CULE_INLINE void copy_row(const u8* row, u8* to) {
  for (u32 i = 0; i < kScreenWidth / sizeof(Bytes16); ++i) {
    reinterpret_cast<Bytes16*>(to)[i] = reinterpret_cast<const Bytes16*>(row)[i];
  }
}

constexpr u32 kNumColors = 256;
constexpr u32 kColorsAt = kTwinsAt + kTwinsBytes;
constexpr u32 kPaintBytes = kColorsAt + kNumColors;

// Paints the picture of a log into rows of 160 bytes, 16-byte aligned, each colour mapped by `map`.
// All lanes of the warp call it together; with twins, those of the block's two warps, one for each
// picture. `memory`: where kPaintBytes of shared memory are, those of the second warp behind the
// first one's. Returns false if only LogRenderer can draw this log.
__device__ CULE_INLINE bool paint_lines(const Console& c, const TiaWriteLog& log, u32 memory,
                                        const u8* map, u8* rows_out,
                                        const TwinPictures& twins = {}) {
  const bool has_stars = log.start.stars || log.start.missile0_look != Missile0Look::kNormal;
  bool are_twins = twins.are_twins;
  make_line_rules(memory);
  const u32 map_at = memory + kColorsAt;
  for (u32 color = threadIdx.x % kWarpLanes; color < kNumColors; color += kWarpLanes) {
    dynamic_shared()[map_at + color] = map[(color & 0xFE) | log.start.color_loss];
  }
  __syncwarp();
  const u32 first = log.first_line;
  const u32 end = first + c.properties.height;
  // The lanes that the last scanlines leave take those above the window, several each.
  const u32 spare = kWarpLanes - c.properties.height % kWarpLanes;
  const u32 above = spare < first ? spare : first;
  const u32 lines_above = (first + spare - 1) / spare;
  LinePainter::Scan scan(log, {}, {first, kNoLastLine, lines_above, c.properties.hmove_blanks != 0},
                         {log.start, 0, first - above, false}, memory);
  const bool is_second = memory != 0;
  for (u32 line = first - above; line < end; line += kWarpLanes) {
    const bool is_regular = scan.find_lines_inlined() && !has_stars;
    const bool is_shown = scan.line >= first && scan.line < end;
    const bool is_long = is_shown && scan.num_painted > PaintedList::kMost;
    const bool can_paint = !scan.team.any(!is_regular || is_long);
    // Nothing depends on the positions before an early HMOVE.
    if (scan.moves_early && scan.has_moved) scan.set_positions(scan.moved);
    bool is_same = false;
    if (are_twins) {
      const LineTwins<LinePainter::Scan> lines{scan, twins, 0, kPaintBytes};
      is_same = lines.find_same(can_paint, are_twins) >> scan.lane & 1;
    }
    if (!can_paint) return false;
    if (!is_shown || (is_same && is_second)) continue;
    u8* const row = rows_out + (scan.line - first) * kScreenWidth;
    LinePainter(scan, row, map_at, map[0]).run();
    if (is_same) copy_row(row, row + twins.to_second);
  }
  return true;
}

}  // namespace cule
