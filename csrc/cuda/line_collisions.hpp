// cuda/line_collisions.hpp: what a write log does to the TIA, found by a team of lanes together.
//
// In: the state at an entry of a log, and the collision latches to record. Out: the state after its
// last entry, with these latches, as LogRenderer leaves it. Each lane takes a scanline
// (cuda/line_scan.hpp). Where both objects of a latch may be shown, all lanes go over theirs and
// collect, for each object, the pixels where it was shown; two objects with a pixel in common set
// their latch.
#pragma once

#include "cuda/line_painter.hpp"
#include "warp/lane_access.hpp"

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
  u32 counted = 0;             // objects whose pixels are counted
  u32 stale = 0;
  u32 painted;  // pixels before it are in `shown`
  u32 mark;     // frame clock

  // Pixels before frame clock `clock` have been counted.
  __device__ LineCollisions(const LineScan<Team>& l, u32 clock)
      : LineView{l.state, l.hmove_clock}, scan(l), mark(clock) {
    painted = is_seen() ? visible(clock) : kScreenWidth;
  }

  // Those of some latches that pixels of the scanline may set.
  __device__ CULE_INLINE u32 possible(u32 latches) const {
    const auto is_written = [&](u32 first, u32 last) {
      return (scan.present & register_bits(first, last)) != 0;
    };
    const bool is_blank = (s[VBLANK] & 2) && !is_written(VBLANK, VBLANK);
    if (is_blank || !is_seen()) return 0;
    bool may_show[kObjects];
    for (u32 n = 0; n < 2; ++n) {
      may_show[n] = (s[GRP0 + n] | s[kLineOldGraphics + n]) != 0 || (scan.drawn >> n & 1);
      may_show[kMissile0 + n] = (s[ENAM0 + n] & 2) || is_written(ENAM0 + n, ENAM0 + n);
    }
    may_show[kBall] = ((s[ENABL] | s[kLineOldBall]) & 2) || is_written(ENABL, ENABL);
    may_show[kPlayfield] = (s[PF0] & 0xF0) | s[PF1] | s[PF2] || is_written(PF0, PF2);
    for (u32 n = 0; n < kObjects; ++n) {
      if (!may_show[n]) latches &= ~latches_of(n);
    }
    return latches;
  }
  // Counts pixels for some latches.
  __device__ CULE_INLINE void count(u32 latches) { counted = stale = objects_of_latches(latches); }

  // Of the rules:
  __device__ CULE_INLINE bool moves_at_once(u32 /*cycle*/) const { return false; }
  __device__ CULE_INLINE void blank_left() const {
    if (scan.window.hmove_blanks) s[kLineHmoveBlank] = 1;
  }
  __device__ CULE_INLINE void clear_latches() {
    for (LineMask& m : shown) m = LineMask{};
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

  // Those of some latches that the pixels since the last CXCLR set.
  __device__ CULE_INLINE u32 latches(u32 of) const {
    u32 found = 0;
    for (u32 bit = 0; bit < 16; ++bit) {
      if (!(of & kAllLatches & 1u << bit)) continue;
      const LineMask& a = shown[kLatchFirst >> (4 * bit) & 0xF];
      const LineMask& b = shown[kLatchSecond >> (4 * bit) & 0xF];
      u32 both = 0;
      for (u32 w = 0; w < kLineWords; ++w) both |= a.word[w] & b.word[w];
      if (both != 0) found |= 1u << bit;
    }
    return found;
  }

 private:
  // Extra bit: what is before the access matters even where no pixels are counted.
  static constexpr u32 kMatters = 1u << kObjects;

  __device__ CULE_INLINE bool is_seen() const {
    return scan.line >= scan.window.first_line && scan.line <= scan.window.last_line;
  }
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
    } else if (reg == CXCLR || reg == HMOVE) {
      changed |= kMatters;  // clears the pixels, and leaves a blank
    }
    if (target > mark) mark = target;
    return changed & (counted | kMatters);
  }

  // What is before the access has been counted.
  __device__ CULE_INLINE void apply(LogEntry e, u32 changed) {
    const u32 reg = log_register(e);
    const u32 v = log_value(e);
    const PackedRule rule = scan.rule_of(reg);
    stale |= changed & kAllObjects;
    if (rule.is_ordered()) {
      cule::apply(*this, reg, v, scan.clock_of(e));
    } else if (reg < kLinePosition) {  // no register beyond does anything
      keep(reg, v);
    }
  }

  __device__ CULE_INLINE void paint_to(u32 x) {
    const u32 from = painted;
    if (x <= from) return;
    painted = x;
    if (from < kHmoveBlankPixels && x >= kHmoveBlankPixels) s[kLineHmoveBlank] = 0;
    if (counted == 0 || (s[VBLANK] & 2)) return;
    refresh();
    LineMask range;
    for (u32 w = 0; w < kLineWords; ++w) {
      range.word[w] = pixels_below(x, w) & ~pixels_below(from, w);
    }
    for (u32 n = 0; n < kObjects; ++n) {
      if (!(counted >> n & 1)) continue;
      for (u32 w = 0; w < kLineWords; ++w) shown[n].word[w] |= shape[n].word[w] & range.word[w];
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

// A part of a log, from an entry on, which some lanes of a warp render.
struct LogPart {
  const TiaWriteLog& log;
  const u32 from;
  const TiaState& start;
  const Beam beam;    // as `start`
  const u32 latches;  // to record
  u32 set;            // latches
  // Out:
  bool has_cleared = false;  // CXCLR was written
  Beam end = {};
};

// Goes over a part of a log. `tia`: takes the state after it from one of the lanes, or null.
// Returns false if the log needs another renderer; `tia` is as before, but for sound. `memory`:
// where kLineScanBytes of the warp's shared memory are, with the rules.
template <class Team>
__device__ CULE_NOINLINE bool go_over(const Team& team, LogPart& part, TiaState* tia,
                                      const ConsoleProperties& properties, u32 memory) {
  const TiaWriteLog& log = part.log;
  const Beam beam = part.beam;
  const VisibleWindow window = make_window(properties.first_line, properties.height);
  const u32 first_line = window.begin_clocks / kClocksPerLine;
  const u32 last_line = window.end_clocks / kClocksPerLine - 1;
  const bool has_stars = part.start.stars || part.start.missile0_look != Missile0Look::kNormal;
  const bool is_unusual = has_stars || beam.first != window.begin_clocks || first_line == 0;
  if (team.any(is_unusual)) return false;  // a vote: no lane looks at the state any more
  const auto clock_of = [&](u32 entry) {
    return log.base_clock + clocks_from_cycles(log_cycle(log.entries[entry]));
  };
  // At the end of a scanline, what follows from it has not happened.
  const bool is_above = beam.mark == beam.first;
  const u32 next_line = clock_of(part.from) / kClocksPerLine;
  const u32 line = !is_above                ? (beam.mark - 1) / kClocksPerLine
                   : next_line < first_line ? next_line
                                            : first_line - 1;
  const bool is_behind_blank =
      !is_above && beam.mark >= line * kClocksPerLine + kHblankClocks + kHmoveBlankPixels;
  LineScan<Team> scan(log, team, {first_line, last_line, 1, properties.hmove_blanks != 0},
                      {part.start, part.from, line, is_behind_blank}, memory);
  const u32 last_clock = clock_of(log.size - 1);
  u32 mark = last_clock < beam.mark ? beam.mark : last_clock;
  for (bool is_first = true;; is_first = false) {
    if (!scan.find_lines()) return false;
    const bool continues = is_first && team.leads() && !is_above;
    const u32 round_end = team.take_from(scan.line, team.size() - 1);
    const bool has_all = team.take_from(scan.end, team.size() - 1) == log.size;
    const u32 clearing = team.ballot(scan.present >> CXCLR & 1);
    const u32 open = clearing != 0 ? part.latches : part.latches & ~part.set;
    LineCollisions<Team> lane(scan, continues ? beam.mark : scan.line_begin());
    const u32 counted = team.any_bits(lane.possible(open));
    // An access moves the mark no further than into the next scanline.
    const bool may_end = has_all || (round_end + 2) * kClocksPerLine > last_clock;
    if (counted != 0 || may_end) {
      lane.count(counted);
      lane.run();
      const u32 reached = team.highest(scan.begin < scan.end ? lane.mark : 0);
      if (mark < reached) mark = reached;
      lane.finish(scan.end < log.size ? scan.line_begin() + kClocksPerLine : mark);
    }
    const u32 since = clearing != 0 ? highest_bit(clearing) : 0;
    if (clearing != 0) {
      part.set = 0;
      part.has_cleared = true;
    }
    if (counted != 0) {
      part.set |= team.any_bits(team.lane() >= since ? lane.latches(counted) : 0);
    }
    if (tia != nullptr) keep_sound(scan, *tia);

    const bool is_last = has_all && (mark <= (round_end + 1) * kClocksPerLine ||
                                     round_end >= last_line || mark <= window.begin_clocks);
    if (!is_last) continue;
    const u32 end = mark < window.begin_clocks ? window.begin_clocks
                    : mark < window.end_clocks ? mark
                                               : window.end_clocks;
    const bool owns_last = scan.begin < scan.end && scan.end == log.size;
    const bool is_at_end =
        end == window.begin_clocks ? owns_last : scan.line == (end - 1) / kClocksPerLine;
    part.end = {end, end, end - end % kClocksPerLine, beam.first};
    if (tia == nullptr) return true;
    team.sync();
    if (is_at_end) {
      read_registers(lane.s, *tia);
      tia->hmove_clock = lane.last_hmove;
    }
    team.sync();
    return true;
  }
}

struct Rendered {
  bool is_rendered;
  bool has_cleared;
};

// Brings the state of a console that all lanes see from an entry of its log to the end, with the
// latches of the request; the part may be empty. Returns false if the log needs another renderer.
template <class Team>
__device__ CULE_NOINLINE Rendered render_together(const Team& team, const Console& c,
                                                  const TiaWriteLog& log, RenderRequest request,
                                                  u32 memory) {
  ConsoleState& s = c.s;
  const u32 recorded = request.recorded();
  Latches latches{0, s.tia.missing_latches};
  LogPart part{log, request.from(), s.tia, s.beam, recorded, s.tia.collisions};
  part.end = s.beam;
  if (request.from() < log.size) {
    if (!go_over(team, part, &s.tia, c.properties, memory)) return {false, false};
    latches.note(part.set, recorded, part.has_cleared);
  } else {
    latches.set = part.set;
    team.sync();  // no lane looks at the state any more
  }
  const bool can_wait = (request.has_cleared() || part.has_cleared) && !s.is_unfinished &&
                        !s.picture.is_painted && part.end.mark == picture_window(c).end_clocks;
  latches = settle_latches(c, log, latches, recorded, request.is_end(), can_wait,
                           [&](const TiaWriteLog& whole, u32 start, u32 wanted) {
                             LogPart all{whole, 0, whole.start, whole.start_beam, wanted, start};
                             if (go_over(team, all, nullptr, c.properties, memory)) return all.set;
                             const u32 found =
                                 team.leads() ? find_latches(c, whole, u16(start), wanted) : 0;
                             return team.take_from(found, 0);
                           });
  team.sync();
  if (team.leads()) {
    s.tia.collisions = u16(latches.set);
    s.tia.missing_latches = u16(latches.missing);
    s.beam = part.end;
  }
  team.sync();
  return {true, part.has_cleared};
}

}  // namespace cule
