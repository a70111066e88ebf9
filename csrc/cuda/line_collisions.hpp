// cuda/line_collisions.hpp: what a write log does to the TIA, found by a team of lanes together.
//
// In: the state at an entry of a log. Out: the state after its last entry, collision latches
// included, as LogRenderer leaves it. Each lane goes over a scanline (cuda/line_scan.hpp) and
// collects, for each object, the pixels where it was shown; two objects with a pixel in common set
// their latch.
#pragma once

#include "cuda/line_painter.hpp"
#include "tia/collisions.hpp"

namespace cule {

// The pixels before x that are in word w of a scanline.
CULE_HD CULE_INLINE u32 pixels_below(u32 x, u32 w) {
  const i32 n = i32(x) - i32(32 * w);
  return n <= 0 ? 0 : n >= 32 ? ~0u : (1u << n) - 1;
}

// Goes over one scanline, in one lane.
template <class Team>
struct LineCollisions : LineView {
  const LineScan<Team>& scan;
  LineMask shape[kObjects];    // of a whole line, as the objects are now
  LineMask shown[kObjects]{};  // pixels so far
  u32 stale = kAllObjects;
  u32 painted;  // pixels before it are in `shown`
  u32 mark;     // frame clock
  bool is_cleared = false;

  // Pixels before frame clock `clock` have been counted.
  __device__ LineCollisions(const LineScan<Team>& l, u32 clock)
      : LineView{l.state, l.hmove_clock}, scan(l), mark(clock) {
    const bool is_seen = l.line >= l.window.first_line && l.line <= l.window.last_line;
    painted = is_seen ? visible(clock) : kScreenWidth;
  }

  // Of the rules:
  __device__ CULE_INLINE bool is_still(u32 /*cycle*/) const { return false; }
  __device__ CULE_INLINE void blank_left() const {
    if (scan.window.hmove_blanks) s[kLineHmoveBlank] = 1;
  }
  __device__ CULE_INLINE void clear_latches() {
    for (LineMask& m : shown) m = LineMask{};
    is_cleared = true;
  }

  // Applies the scanline's accesses.
  __device__ CULE_INLINE void run() {
    bool has_entry = false;
    LogEntry e = 0;
    u32 changed = 0;
    EntryList entries = scan.entries_of(scan.moving);
    do {
      bool must_paint = false;
      do {
        if (has_entry) apply(e, changed);
        has_entry = entries.next(e);
        if (has_entry) {
          changed = find_changes(e);
          must_paint = changed != 0 && visible(mark) > painted;
        }
      } while (has_entry && !must_paint);
      if (has_entry) paint_to(visible(mark));
    } while (has_entry);
    for (u32 reg = COLUP0; reg <= COLUBK; ++reg) {
      if (scan.present >> reg & 1) s[reg] = scan.written[reg];
    }
  }

  // Counts the pixels before a clock.
  __device__ CULE_INLINE void finish(u32 clock) { paint_to(visible(clock)); }

  // Latches of the pixels since the last CXCLR.
  __device__ CULE_INLINE u32 latches() const {
    u32 found = 0;
    for (u32 bit = 0; bit < 16; ++bit) {
      if (!(kAllLatches >> bit & 1)) continue;
      const LineMask& a = shown[kLatchFirst >> (4 * bit) & 0xF];
      const LineMask& b = shown[kLatchSecond >> (4 * bit) & 0xF];
      u32 both = 0;
      for (u32 w = 0; w < kLineWords; ++w) both |= a.word[w] & b.word[w];
      if (both != 0) found |= 1u << bit;
    }
    return found;
  }

 private:
  static constexpr u32 kCleared = 1u << kObjects;  // extra bit: the latches are cleared

  // Pixels of the scanline before a clock.
  __device__ CULE_INLINE u32 visible(u32 clock) const {
    const i32 x = i32(clock - scan.line_begin()) - i32(kHblankClocks);
    return x < 0 ? 0 : x > i32(kScreenWidth) ? kScreenWidth : u32(x);
  }
  // Moves the mark. Returns the objects that may look different after the access, a bit each; with
  // blanking all of them.
  __device__ CULE_INLINE u32 find_changes(LogEntry e) {
    const u32 reg = log_register(e);
    const u32 clock = scan.clock_of(e);
    const PackedRule rule = scan.rule_of(reg);
    u32 target = clock + rule.delay(clock / kClocksPerCycle);
    u32 changed = rule.objects();
    if (!rule.is_ordered()) {
      changed = reg == VBLANK ? kAllObjects : changed;
      if (rule.seen(s[reg] ^ log_value(e)) == 0) changed = 0;
    } else if (reg - GRP0 < 2) {
      // With a vertical delay an object shows what the write to the other player has copied.
      const u32 n = reg - GRP0;
      const bool is_delayed = s[VDELP0 + n] & 1;
      const bool is_other_delayed = s[VDELP1 - n] & 1;
      changed &= 1u << kBall | u32(!is_delayed) << n | u32(is_other_delayed) << (1 - n);
    } else if (reg - RESP0 < 2) {
      const PlayerReset kind = player_reset(*this, reg - RESP0, clock);
      if (kind == PlayerReset::kDisplay) target = clock + kResetDrawClocks;
    } else if (reg == CXCLR) {
      changed = kCleared;
    }
    if (target > mark) mark = target;
    return changed;
  }

  // What is before the access has been counted.
  __device__ CULE_INLINE void apply(LogEntry e, u32 changed) {
    const u32 reg = log_register(e);
    const u32 v = log_value(e);
    const PackedRule rule = scan.rule_of(reg);
    stale |= changed & kAllObjects;
    if (rule.is_ordered()) {
      cule::apply(*this, reg, v, scan.clock_of(e));
    } else {
      keep(reg, v);
    }
  }

  __device__ CULE_INLINE void paint_to(u32 x) {
    const u32 from = painted;
    if (x <= from) return;
    painted = x;
    if (from < kHmoveBlankPixels && x >= kHmoveBlankPixels) s[kLineHmoveBlank] = 0;
    if (s[VBLANK] & 2) return;
    refresh();
    for (u32 w = 0; w < kLineWords; ++w) {
      const u32 range = pixels_below(x, w) & ~pixels_below(from, w);
      for (u32 n = 0; n < kObjects; ++n) shown[n].word[w] |= shape[n].word[w] & range;
    }
  }

  __device__ CULE_INLINE void refresh() {
    for (u32 n = 0; n < 2; ++n) {
      if (stale >> n & 1) shape[n] = player(n);
      if (stale >> (kMissile0 + n) & 1) shape[kMissile0 + n] = missile(n);
    }
    if (stale >> kBall & 1) shape[kBall] = ball();
    if (stale >> kPlayfield & 1) shape[kPlayfield] = playfield();
    stale = 0;
  }

  __device__ CULE_INLINE LineMask player(u32 n) const {
    const u32 graphics = shown_player(n);
    if (graphics == 0) return {};
    const u32 mode = s[NUSIZ0 + n] & 7;
    const u32 bits = s[REFP0 + n] & 8 ? graphics : reverse_bits8(graphics);
    const bool is_wide = mode == 5 || mode == 7;
    const u32 pattern = is_wide ? u32(widen_byte(bits, mode == 5 ? 2 : 4)) : bits;
    const u32 x = wrap_position(i32(s[kLinePosition + n] + (is_wide ? 1 : 0)));
    return place_line_copies(pattern, mode, !s[kLineSkip + n], x);
  }
  __device__ CULE_INLINE LineMask missile(u32 n) const {
    if (!is_missile_shown(n)) return {};
    const u32 pattern = (1u << (1u << (s[NUSIZ0 + n] >> 4 & 3))) - 1;
    return place_line_copies(pattern, s[NUSIZ0 + n] & 7, true, s[kLinePosition + kMissile0 + n]);
  }
  __device__ CULE_INLINE LineMask ball() const {
    LineMask m{};
    if (!shown_ball_bit()) return m;
    m.word[0] = (1u << (1u << (s[CTRLPF] >> 4 & 3))) - 1;
    return rotate(m, s[kLinePosition + kBall]);
  }
  __device__ CULE_INLINE LineMask playfield() const {
    const u32 pf0 = s[PF0], pf1 = s[PF1], pf2 = s[PF2];
    const u32 left = pf0 >> 4 | reverse_bits8(pf1) << 4 | pf2 << 12;
    const u32 mirrored = reverse_bits8(pf2) | pf1 << 8 | (reverse_bits8(pf0) & 0xF) << 16;
    const u32 right = s[kLineMirror] ? mirrored : left;
    return {{widen_cells(left & 0xFF), widen_cells(left >> 8 & 0xFF),
             widen_cells((left >> 16 | right << 4) & 0xFF), widen_cells(right >> 4 & 0xFF),
             widen_cells(right >> 12)}};
  }
};

// The registers of a scanline as a TiaState has them.
__device__ inline void read_registers(const LineState& s, TiaState& out) {
  for (u32 i = 0; i < 4; ++i) out.color[i] = u8((s[COLUP0 + i] & 0xFE) | out.color_loss);
  out.vblank = s[VBLANK] >> 1 & 1;
  out.ctrlpf = s[CTRLPF];
  out.pf_mirror = s[kLineMirror];
  for (u32 n = 0; n < 2; ++n) {
    out.nusiz[n] = s[NUSIZ0 + n];
    out.refp[n] = s[REFP0 + n] >> 3 & 1;
    out.grp[n] = s[GRP0 + n];
    out.old_grp[n] = s[kLineOldGraphics + n];
    out.vdelp[n] = s[VDELP0 + n] & 1;
    out.enam[n] = s[ENAM0 + n] >> 1 & 1;
    out.resmp[n] = s[RESMP0 + n] >> 1 & 1;
    out.skip[n] = s[kLineSkip + n];
  }
  out.enabl = s[ENABL] >> 1 & 1;
  out.old_enabl = s[kLineOldBall] >> 1 & 1;
  out.vdelbl = s[VDELBL] & 1;
  for (u32 i = 0; i < 3; ++i) out.pf[i] = s[PF0 + i];
  for (u32 i = 0; i < 5; ++i) {
    out.hm[i] = s[HMP0 + i] >> 4;
    out.position[i] = s[kLinePosition + i];
  }
  out.hmove_blank = s[kLineHmoveBlank];
}

// The last writes to the sound registers, which no picture depends on.
template <class Team>
__device__ inline void keep_sound(const LineScan<Team>& scan, TiaState& tia) {
  const u64 present = scan.team.any_bits64(scan.present & register_bits(AUDC0, AUDV1));
  for (u64 left = present; left != 0; left &= left - 1) {
    const u32 reg = u32(CULE_COUNT_TRAILING_ZEROS_64(left));
    const u32 writer = highest_bit(scan.team.ballot(scan.present >> reg & 1));
    if (scan.team.leads()) tia.audio[reg - AUDC0] = scan.written.of(scan.lane, writer)[reg];
  }
}

// Brings a state that all lanes see from entry `from` of a log to its end. Returns false if the log
// needs another renderer. `memory`: where kLineScanBytes of the warp's shared memory are, with the
// rules.
template <class Team>
__device__ CULE_NOINLINE bool render_together(const Team& team, ConsoleState& s,
                                              const ConsoleProperties& properties,
                                              const TiaWriteLog& log, u32 from, u32 memory) {
  TiaState& tia = s.tia;
  const Beam beam = s.beam;
  const VisibleWindow window = make_window(properties.first_line, properties.height);
  const u32 first_line = window.begin_clocks / kClocksPerLine;
  const u32 last_line = window.end_clocks / kClocksPerLine - 1;
  const bool has_stars = tia.stars || tia.missile0_look != Missile0Look::kNormal;
  const bool is_unusual = has_stars || beam.first != window.begin_clocks || first_line == 0;
  if (team.any(is_unusual)) return false;  // a vote: no lane looks at the state any more
  const auto clock_of = [&](u32 entry) {
    return log.base_clock + clocks_from_cycles(log_cycle(log.entries[entry]));
  };
  // At the end of a scanline, what follows from it has not happened.
  const bool is_above = beam.mark == beam.first;
  const u32 next_line = clock_of(from) / kClocksPerLine;
  const u32 line = !is_above                ? (beam.mark - 1) / kClocksPerLine
                   : next_line < first_line ? next_line
                                            : first_line - 1;
  const bool is_behind_blank =
      !is_above && beam.mark >= line * kClocksPerLine + kHblankClocks + kHmoveBlankPixels;
  LineScan<Team> scan(log, team, {first_line, last_line, 1, properties.hmove_blanks != 0},
                      {tia, from, line, is_behind_blank}, memory);
  u32 mark = clock_of(log.size - 1);
  if (mark < beam.mark) mark = beam.mark;
  u32 collisions = tia.collisions;
  for (bool is_first = true;; is_first = false) {
    if (!scan.find_lines()) return false;
    const bool continues = is_first && team.leads() && !is_above;
    LineCollisions<Team> lane(scan, continues ? beam.mark : scan.line_begin());
    lane.run();
    const u32 reached = team.highest(scan.begin < scan.end ? lane.mark : 0);
    if (mark < reached) mark = reached;
    lane.finish(scan.end < log.size ? scan.line_begin() + kClocksPerLine : mark);

    const u32 clearing = team.ballot(lane.is_cleared);
    const u32 since = clearing != 0 ? highest_bit(clearing) : 0;
    if (clearing != 0) collisions = 0;
    collisions |= team.any_bits(team.lane() >= since ? lane.latches() : 0);
    keep_sound(scan, tia);

    const u32 round_end = team.take_from(scan.line, team.size() - 1);
    const bool is_last = team.take_from(scan.end, team.size() - 1) == log.size &&
                         (mark <= (round_end + 1) * kClocksPerLine || round_end >= last_line ||
                          mark <= window.begin_clocks);
    if (!is_last) continue;
    const u32 end = mark < window.begin_clocks ? window.begin_clocks
                    : mark < window.end_clocks ? mark
                                               : window.end_clocks;
    const bool owns_last = scan.begin < scan.end && scan.end == log.size;
    const bool is_at_end =
        end == window.begin_clocks ? owns_last : scan.line == (end - 1) / kClocksPerLine;
    team.sync();
    if (is_at_end) {
      read_registers(lane.s, tia);
      tia.hmove_clock = lane.last_hmove;
    }
    if (team.leads()) {
      tia.collisions = u16(collisions);
      s.beam = {end, end, end - end % kClocksPerLine, beam.first};
    }
    team.sync();
    return true;
  }
}

}  // namespace cule
