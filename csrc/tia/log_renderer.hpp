// tia/log_renderer.hpp: renders a write log into a sink (collisions, pixels).
//
// In: TiaState and Beam as of the last entry rendered, log entries in order. Out: both brought
// forward; the sink has received every stretch of pixels drawn, in order, with the state it was
// drawn with.
//
// Each access moves the beam mark: everything before the mark is drawn with the state as it was
// (NOTES.md 4). Drawing is postponed until a write changes something that shows: `drawn` trails
// `mark`. Writes whose meaning depends on what a line end changes (positions, copies, reflection)
// draw first. A sink with kExact draws at every access and reproduces the cells touched ahead of
// the beam (NOTES.md 12), which show only in frames that end before the window does.
#pragma once

#include "tia/log.hpp"
#include "tia/tia_view.hpp"

namespace cule {

// State and BeamState are references to what is brought forward, or copies that the caller reads
// back after rendering: a compiler can keep copies in registers.
template <class Sink, class State = TiaState&, class BeamState = Beam&>
struct LogRenderer {
  BeamState beam;
  State s;
  Shapes& shapes;
  Sink& sink;
  const VisibleWindow window;
  const bool hmove_blanks;
  // The mark moves to clocks beyond this: itself, or the last one above the window.
  u32 passed = beam.mark < window.begin_clocks ? window.begin_clocks - 1 : beam.mark;

  // Other lanes may render logs at the same time: all stay at the same scanline, in which programs
  // write much the same.
  CULE_HD void run(const LogEntry* log, u32 from, u32 to, u32 base_clock) {
    if (from == to) return;
    assume_local();
    u32 reached = 0;            // by the mark, before the next write that is not plain
    LogEntry next = log[from];  // each is loaded while the one before it is applied
    for (u32 i = from; i < to;) {
      const u32 line = line_of(next, base_clock);
      if (line > CULE_LEAST_HERE(line)) continue;
      const LogEntry last = last_of_line(line, base_clock);  // to be rendered now
      while (i < to && next <= last) {
        const LogEntry e = next;
        if (++i < to) next = log[i];
        if (CULE_LIKELY(is_passed(e, base_clock, reached))) continue;
        if constexpr (!Sink::kPaints) move_mark(reached);
        const u32 clock = base_clock + clocks_from_cycles(log_cycle(e));
        write(clock, log_register(e), log_value(e));
      }
    }
    // An access without an effect moves the mark only; nothing depends on it before the next one
    // that has.
    const u32 last = base_clock + clocks_from_cycles(log_cycle(log[to - 1]));
    move_mark(last > reached ? last : reached);
  }

  // The same on a host thread, with code of its own for each register.
  void run_by_register(const LogEntry* log, u32 from, u32 to, u32 base_clock) {
    if (from == to) return;
    for (u32 i = from; i < to; ++i) {
      const u32 clock = base_clock + clocks_from_cycles(log_cycle(log[i]));
      write_by_register(log_register(log[i]), *this, clock, log_value(log[i]));
    }
    move_mark(base_clock + clocks_from_cycles(log_cycle(log[to - 1])));
  }

  // Replaces the state; what follows is rendered from it.
  void continue_from(const TiaState& state, const Beam& state_beam) {
    s = state;
    beam = state_beam;
    passed = beam.mark < window.begin_clocks ? window.begin_clocks - 1 : beam.mark;
    shapes.change((1u << kObjects) - 1);
    sink.state_changed();
  }

  // Draws everything before the mark.
  CULE_HD CULE_INLINE void flush() {
    if (beam.drawn >= beam.mark) return;
    if constexpr (!Sink::kPaints) {
      if (CULE_LIKELY(!s.stars && !sink.needs_pixels(s, shapes))) {
        pass_over();
        return;
      }
    }
    draw();
  }

  CULE_HD CULE_INLINE void move_mark(u32 target) {
    if (target <= passed) return;
    passed = beam.mark = target < window.end_clocks ? target : window.end_clocks;
  }

  // Once more, within a write.
  CULE_HD CULE_NOINLINE void draw_again_up_to(u32 clock) {
    assume_local();
    move_mark(clock);
    flush();
  }

  // Applies one access. There is one place that draws, so that lanes which apply writes to
  // different registers draw together.
  CULE_HD CULE_INLINE void write(u32 clock, u32 reg, u32 v) {
    const Register& r = register_row(reg);
    if constexpr (Sink::kExact) draw_up_to(clock + delay_clocks(r, clock));
    const Change change =
        with_kind(r.kind, [&](auto kind) { return prepare<kind.kKind>(reg, v, clock); });
    finish<false>(change, clock, reg, v);
  }

  // The same with code of its own for the register.
  template <u32 reg>
  CULE_INLINE void write(u32 clock, u32 v) {
    constexpr RegisterKind kKind = kRegisters.of[reg].kind;
    finish<(kind_row(kKind).delay != 0)>(prepare<kKind>(reg, v, clock), clock, reg, v);
  }

 private:
  // They are on the stack, where the device reaches them without generic addresses.
  CULE_HD CULE_INLINE void assume_local() const {
    CULE_ASSUME_LOCAL(this);
    CULE_ASSUME_LOCAL(&shapes);
    CULE_ASSUME_LOCAL(&sink);
  }

  CULE_HD CULE_INLINE static u32 line_of(LogEntry e, u32 base_clock) {
    return (base_clock + clocks_from_cycles(log_cycle(e))) / kClocksPerLine;
  }
  // No entry of the scanline comes after it.
  CULE_HD CULE_INLINE static LogEntry last_of_line(u32 line, u32 base_clock) {
    const u32 end_cycle = (line + 1) * kCyclesPerLine - base_clock / kClocksPerCycle;
    return end_cycle < 1u << 18 ? pack_log_entry(end_cycle, 0, 0) - 1 : ~0u;
  }

  // Whether an entry has no effect, or has been applied here.
  CULE_HD CULE_INLINE bool is_passed(LogEntry e, u32 base_clock, u32& reached) {
    const u32 reg = log_register(e);
    if (!Sink::kExact && !(kEffectiveRegisters >> reg & 1)) return true;
    if constexpr (Sink::kPaints) {
      return false;
    } else {
      const u32 clock = base_clock + clocks_from_cycles(log_cycle(e));
      return is_plain_write(clock, reg, log_value(e), reached);
    }
  }

  // A write before which nothing must be drawn, of the kinds that are common; false: another one.
  // The same code for all fields, so that lanes at different registers stay together. `reached`:
  // as far as such writes move the mark.
  CULE_HD CULE_INLINE bool is_plain_write(u32 clock, u32 reg, u32 v, u32& reached) {
    const u32 player = reg - GRP0;
    const bool is_graphics = player < 2;
    if (is_graphics || (kFieldRegisters >> reg & 1)) {
      const Register r = register_row(reg);
      u8& field = reinterpret_cast<u8*>(&s)[r.field];
      const u32 color_loss = r.kind == RegisterKind::kColor ? s.color_loss : 0;
      const u32 value = (v & r.kept) >> r.shift | color_loss;
      u32 shows = field != value ? r.shows : 0;
      if (is_graphics) shows = graphics_shows(player, v) & ~u32(kShowsSame);
      if (shows != 0 && must_draw(shows)) return false;
      field = u8(value);
      if (is_graphics) s.old_grp[1 - player] = s.grp[1 - player];
      if (reg == GRP1) s.old_enabl = s.enabl;
      if (shows & kShowsColor) sink.colors_changed();
      if (shows & kAllObjects) shapes.change(shows & kAllObjects);
      const u32 target = clock + delay_clocks(r, clock);
      reached = reached < target ? target : reached;
      return true;
    }
    if (reg == HMOVE) return moves_nothing(clock, reached);
    if (reg == HMCLR) {
      view().clear_motion();
      return true;
    }
    return reg == CTRLPF && s.ctrlpf == v && s.pf_mirror == (v & 1);
  }

  // An HMOVE right after a WSYNC that moves nothing, as many programs have in each line; false:
  // another one.
  CULE_HD CULE_INLINE bool moves_nothing(u32 clock, u32 reached) {
    const u32 motion = s.hm[0] | s.hm[1] | s.hm[2] | s.hm[3] | s.hm[4];
    const bool is_still = !(motion | s.skip[0] | s.skip[1] | s.stars) &&
                          s.missile0_look == Missile0Look::kNormal &&
                          moves_fully(cycle_of_line(clock)) && !sink.needs_pixels(s, shapes);
    if (is_still) {
      move_mark(clock > reached ? clock : reached);
      if (beam.drawn < beam.mark) pass_over();
      if (hmove_blanks) s.hmove_blank = 1;
      s.hmove_clock = i32(clock);
    }
    return is_still;
  }

  CULE_HD CULE_INLINE TiaView<LogRenderer> view(u32 changed = 0) {
    return {*this, s, shapes, changed};
  }

  struct Change {
    u32 shows;
    u32 value;
    u8* field;  // of the state, which takes the value; null: apply() does more
  };

  // Moves the mark by the write's delay, and finds what it will change.
  template <RegisterKind kKind>
  CULE_HD CULE_INLINE Change prepare(u32 reg, u32 v, u32 clock) {
    using K = RegisterKind;
    constexpr Register kRow = kind_row(kKind);
    const u32 n = column_of<kKind, &Register::n>(reg);
    if constexpr (kRow.delay != 0) move_mark(clock + delay_clocks(kRow, clock));
    const u32 value = (v & kRow.kept) >> kRow.shift | (kKind == K::kColor ? s.color_loss : 0);
    const bool is_start = kKind == K::kStarMotion && view().begins_stars(v, clock);
    if constexpr (is_field(kKind) || kKind == K::kStarMotion || kKind == K::kLock) {
      u8* const field = reinterpret_cast<u8*>(&s) + column_of<kKind, &Register::field>(reg);
      const u32 shows = column_of<kKind, &Register::shows>(reg);
      if constexpr (is_field(kKind) && kRow.shows == 0) {
        *field = u8(value);
        return {kShowsSame, 0, nullptr};
      }
      if (*field == value) return {kShowsSame, 0, nullptr};
      if (kKind == K::kLock || is_start) return {kShowsAll | shows, 0, nullptr};
      if constexpr (kKind == K::kColor && Sink::kPaints) {
        if (!is_color_shown(s, n)) return {kHiddenColor, value, field};
      }
      return {shows, value, field};
    } else if constexpr (kKind == K::kGraphics) {
      return {graphics_shows(n, v), 0, nullptr};
    } else if constexpr (kKind == K::kNone) {
      return {kShowsSame, 0, nullptr};
    } else if constexpr (kKind == K::kCopies) {
      const bool is_plain = n == 1 || (!s.stars && s.missile0_look == Missile0Look::kNormal);
      return {s.nusiz[n] == v && !s.skip[n] && is_plain ? kShowsSame : kShowsAll, 0, nullptr};
    } else if constexpr (kKind == K::kControl) {
      return {s.ctrlpf == v && s.pf_mirror == (v & 1) ? kShowsSame : kShowsAll, 0, nullptr};
    } else if constexpr (kKind == K::kPlaceMissile || kKind == K::kPlaceBall) {
      return {s.stars || is_active_small(s, n) ? u32(kShowsAll) : 0, 0, nullptr};
    } else if constexpr (kKind == K::kClearLatches) {
      return {s.stars || sink.could_set_any(s, shapes) ? u32(kShowsAll) : 0, 0, nullptr};
    } else {
      return {kKind == K::kClearMotion ? 0 : u32(kShowsAll), 0, nullptr};
    }
  }

  // Draws what is before a write where it shows, and applies it. is_past: the mark has moved beyond
  // it.
  template <bool is_past>
  CULE_HD CULE_INLINE void finish(const Change& change, u32 clock, u32 reg, u32 v) {
    if (change.shows == kShowsSame) return;
    if (must_draw(change.shows)) {
      if constexpr (!is_past) move_mark(clock);
      if (!is_unseen()) flush();
    }
    if (change.field == nullptr) {
      TiaView<LogRenderer> rules = view(change.shows & kAllObjects);
      apply(rules, reg, v, clock);
      return;
    }
    *change.field = u8(change.value);
    if (change.shows & (kShowsColor | kHiddenColor)) sink.colors_changed();
    if (change.shows & kAllObjects) shapes.change(change.shows & kAllObjects);
  }

  CULE_HD CULE_INLINE u32 graphics_shows(u32 n, u32 v) const {
    const u32 other = 1 - n;
    const bool is_same = s.grp[n] == v && s.old_grp[other] == s.grp[other];
    if (is_same && (n == 0 || s.old_enabl == s.enabl)) return kShowsSame;
    u32 shows = 0;
    if (!s.vdelp[n] && s.grp[n] != v) shows |= 1u << n;
    if (s.vdelp[other] && s.old_grp[other] != s.grp[other]) shows |= 1u << other;
    if (n == 1 && s.vdelbl && s.old_enabl != s.enabl) shows |= 1u << kBall;
    return shows;
  }

  // Whether what is before a write that shows this must be drawn, or passed over.
  CULE_HD CULE_INLINE bool must_draw(u32 shows) {
    if constexpr (Sink::kPaints) {
      return (shows & ~u32(kHiddenColor)) != 0;
    } else {
      return shows >= kShowsBlank || sink.concerns(s, shapes, shows & kAllObjects);
    }
  }

  // Whether nothing between what is drawn and the mark can be seen, nor ends a line.
  CULE_HD CULE_INLINE bool is_unseen() const {
    return !Sink::kExact && beam.drawn != beam.line_begin &&
           beam.mark <= beam.line_begin + kHblankClocks;
  }

  CULE_HD CULE_INLINE void draw_up_to(u32 clock) {
    move_mark(clock);
    flush();
  }

  // End of a window line: happens when drawing crosses into the next one (NOTES.md 4.1).
  CULE_HD CULE_INLINE void end_line() {
    TiaView<LogRenderer> rules = view();
    rules.set_mirror(s.ctrlpf & 1);
    if (s.skip[0] | s.skip[1]) {
      for (u32 n = 0; n < 2; ++n) rules.set_skip(n, false);
    }
    if (s.stars) move_stars();
  }

  CULE_HD void move_stars() {
    s.star_count = (s.star_count + 1) & 3;
    const i32 motion = s.star_count == 0 ? 18 : s.star_count == 1 ? 33 : s.star_count == 2 ? 0 : 17;
    s.position[kMissile0] = u8(wrap_position(i32(s.position[kMissile0]) - motion));
    s.missile0_look = s.star_count == 1   ? Missile0Look::kWide
                      : s.star_count == 2 ? Missile0Look::kHidden
                                          : Missile0Look::kNormal;
    shapes.invalidate(kMissile0);
  }

  // Goes over what is before the mark without drawing: the ends of lines and of the HMOVE blank.
  CULE_HD CULE_NOINLINE void pass_over() {
    assume_local();
    u32 end_of_line =
        beam.drawn == beam.line_begin ? beam.line_begin : beam.line_begin + kClocksPerLine;
    if (end_of_line == beam.first) end_of_line += kClocksPerLine;
    if (end_of_line < beam.mark) end_line();  // further ones change nothing more
    u32 blank_end = beam.line_begin + kHblankClocks + kHmoveBlankPixels;
    if (beam.drawn >= blank_end) blank_end += kClocksPerLine;
    if (beam.mark >= blank_end) s.hmove_blank = 0;
    beam.drawn = beam.mark;
    const u32 into_line = beam.mark - beam.line_begin;
    if (into_line >= kClocksPerLine) beam.line_begin += into_line - into_line % kClocksPerLine;
  }

  CULE_HD CULE_DEVICE_NOINLINE void draw() {
    assume_local();
    const u32 start = beam.drawn, mark = beam.mark;
    u32 drawn = start, begin = beam.line_begin;
    u32 line = begin / kClocksPerLine;
    for (;;) {
      if (drawn == begin && begin != beam.first) end_line();
      const u32 line_end = begin + kClocksPerLine;
      const u32 visible = begin + kHblankClocks;
      const u32 end = mark < line_end ? mark : line_end;
      if (end > visible) {
        const u32 x0 = drawn > visible ? drawn - visible : 0;
        const u32 x1 = end - visible;
        sink.segment(s, shapes, line, x0, x1);
        if (s.hmove_blank && x0 < kHmoveBlankPixels) {
          sink.blank_left(line, x0, x1 < kHmoveBlankPixels ? x1 : kHmoveBlankPixels);
          if (x1 >= kHmoveBlankPixels) s.hmove_blank = 0;
        }
      }
      drawn = end;
      if (end == line_end) begin = end;
      if (drawn >= mark) break;
      ++line;
    }
    beam.drawn = drawn;
    beam.line_begin = begin;
    if constexpr (Sink::kExact) {
      if (beam.mark < window.end_clocks) sink.touch_ahead(s, shapes, start, beam.mark);
    }
  }
};

}  // namespace cule
