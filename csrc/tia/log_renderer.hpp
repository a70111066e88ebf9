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
#include "tia/registers.hpp"
#include "tia/shapes.hpp"

namespace cule {

constexpr bool are_delays_equal() {
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    for (u32 clock = 0; clock < kClocksPerLine; clock += kClocksPerCycle) {
      if (delay_clocks(kRegisters.of[reg], clock) != write_delay_clocks(reg, clock)) return false;
    }
  }
  return true;
}
static_assert(are_delays_equal());
static_assert(kEffectiveRegisters ==
              (((2ULL << CXCLR) - 1) & ~(1ULL << VSYNC | 1ULL << WSYNC | 1ULL << RSYNC)));

// State and BeamState are references to what is brought forward, or copies that the caller reads
// back after rendering: a compiler can keep copies in registers.
template <class Sink, class State = TiaState&, class BeamState = Beam&>
struct LogRenderer {
  State s;
  BeamState beam;
  Shapes& shapes;
  Sink& sink;
  const VisibleWindow window;
  const bool hmove_blanks;

  CULE_HD void run(const LogEntry* log, u32 from, u32 to, u32 base_clock) {
    if (from == to) return;
    for (u32 i = from; i < to; ++i) {
      const LogEntry e = log[i];
      if constexpr (!Sink::kExact) {
        if (!(kEffectiveRegisters >> log_register(e) & 1)) continue;
      }
      write(base_clock + clocks_from_cycles(log_cycle(e)), log_register(e), log_value(e), i);
    }
    // An access without an effect moves the mark only; nothing depends on it before the next one
    // that has.
    move_mark(base_clock + clocks_from_cycles(log_cycle(log[to - 1])));
  }

  // Replaces the state; what follows is rendered from it.
  void continue_from(const TiaState& state, const Beam& state_beam) {
    s = state;
    beam = state_beam;
    shapes.change((1u << kObjects) - 1);
    sink.state_changed();
  }

  // Draws everything before the mark.
  CULE_HD CULE_INLINE void flush(u32 index) {
    if (beam.drawn >= beam.mark) return;
    if constexpr (!Sink::kPaints) {
      if (CULE_LIKELY(!s.stars && !sink.needs_pixels(s, shapes))) {
        pass_over();
        return;
      }
    }
    draw(index);
  }

  CULE_HD CULE_INLINE void move_mark(u32 target) {
    if (target <= beam.mark || target < window.begin_clocks) return;
    beam.mark = target < window.end_clocks ? target : window.end_clocks;
  }

  // Applies one access. Delays between a write and its effect on the picture: NOTES.md 5. There is
  // one place that draws, so that lanes which apply writes to different registers draw together.
  CULE_HD CULE_INLINE void write(u32 clock, u32 reg, u32 v, u32 index) {
    if constexpr (Sink::kExact) draw_up_to(clock + write_delay_clocks(reg, clock), index);
    u8* field = nullptr;  // where the register is a field of the state and nothing else
    u32 value = v;
    u32 shows = 0;
    switch (reg) {
      case VBLANK:
        move_mark(clock + write_delay_clocks(VBLANK, clock));
        field = &s.vblank;
        value = v >> 1 & 1;
        shows = kShowsBlank;
        break;
      case NUSIZ0:
      case NUSIZ1:
      case RESM0:
      case RESM1:
        move_mark(clock + write_delay_clocks(NUSIZ0, clock));
        shows = kShowsAll;
        break;
      case COLUP0:
      case COLUP1:
      case COLUPF:
      case COLUBK:
        field = &s.color[reg - COLUP0];
        value = (v & 0xFE) | s.color_loss;
        shows = kShowsColor;
        break;
      case REFP0:
      case REFP1:
        move_mark(clock + write_delay_clocks(REFP0, clock));
        field = &s.refp[reg - REFP0];
        value = v >> 3 & 1;
        shows = 1u << (reg - REFP0);
        break;
      case PF0:
      case PF1:
      case PF2:
        move_mark(clock + write_delay_clocks(PF0, clock));
        field = &s.pf[reg - PF0];
        shows = 1u << kPlayfield;
        break;
      case AUDC0:
      case AUDC1:
      case AUDF0:
      case AUDF1:
      case AUDV0:
      case AUDV1:
        s.audio[reg - AUDC0] = u8(v);
        return;
      case GRP0:
      case GRP1:
        move_mark(clock + write_delay_clocks(GRP0, clock));
        shows = graphics_shows(reg - GRP0, v);
        break;
      case ENAM0:
      case ENAM1:
        field = &s.enam[reg - ENAM0];
        value = v >> 1 & 1;
        shows = 1u << (kMissile0 + reg - ENAM0);
        break;
      case ENABL:
        field = &s.enabl;
        value = v >> 1 & 1;
        shows = 1u << kBall;
        break;
      case HMM0:
        if (begins_stars(v, clock)) {
          shows = kShowsAll;
          break;
        }
        [[fallthrough]];
      case HMP0:
      case HMP1:
      case HMM1:
      case HMBL:
        s.hm[reg - HMP0] = u8(v >> 4);
        return;
      case VDELP0:
      case VDELP1:
        field = &s.vdelp[reg - VDELP0];
        value = v & 1;
        shows = 1u << (reg - VDELP0);
        break;
      case VDELBL:
        field = &s.vdelbl;
        value = v & 1;
        shows = 1u << kBall;
        break;
      case RESMP0:
      case RESMP1:
        value = v >> 1 & 1;
        shows = s.resmp[reg - RESMP0] == value ? kShowsSame : kShowsAll;
        break;
      case HMCLR:
        for (u8& hm : s.hm) hm = 0;
        return;
      case CTRLPF:
      case RESP0:
      case RESP1:
      case RESBL:
      case HMOVE:
      case CXCLR:
        shows = kShowsAll;
        break;
      default:
        return;  // VSYNC, WSYNC, RSYNC, unused
    }
    if (field != nullptr ? *field == value : shows == kShowsSame) return;
    if constexpr (!Sink::kExact) {
      if (must_draw(shows)) draw_up_to(clock, index);
    }
    if (field != nullptr) {
      *field = u8(value);
      if (shows & kShowsColor) sink.colors_changed();
      if (shows & kAllObjects) shapes.change(shows & kAllObjects);
      return;
    }
    switch (reg) {
      case NUSIZ0:
      case NUSIZ1:
        set_copies(reg - NUSIZ0, v);
        break;
      case CTRLPF:
        set_control(v, clock);
        break;
      case RESP0:
      case RESP1:
        reset_player(reg - RESP0, clock, index);
        break;
      case RESM0:
      case RESM1:
      case RESBL:
        reset_small(reg, clock);
        break;
      case GRP0:
      case GRP1:
        set_graphics(reg - GRP0, v, shows);
        break;
      case HMM0:
        start_stars(v);
        break;
      case RESMP0:
      case RESMP1:
        set_missile_lock(reg - RESMP0, value);
        break;
      case HMOVE:
        move_objects(clock);
        break;
      default:  // CXCLR
        s.collisions = 0;
        sink.latches_cleared();
        break;
    }
  }

 private:
  // Whether what is before a write that shows this must be drawn.
  CULE_HD CULE_INLINE bool must_draw(u32 shows) {
    if constexpr (Sink::kPaints) {
      return shows != 0;
    } else {
      return shows >= kShowsBlank || sink.concerns(s, shows);
    }
  }

  CULE_HD CULE_INLINE void draw_up_to(u32 clock, u32 index) {
    move_mark(clock);
    flush(index);
  }
  // Once more, within a write.
  CULE_HD CULE_NOINLINE void draw_again_up_to(u32 clock, u32 index) { draw_up_to(clock, index); }

  CULE_HD CULE_INLINE void set_mirror(u32 value) {
    if (s.pf_mirror == value) return;
    s.pf_mirror = u8(value);
    shapes.invalidate(kPlayfield);
  }

  CULE_HD void set_control(u32 v, u32 clock) {
    if ((s.ctrlpf ^ v) & 0x30) shapes.invalidate(kBall);
    if ((s.ctrlpf ^ v) & 0x06) sink.control_changed();
    s.ctrlpf = u8(v);
    if (clock % kClocksPerLine < kLatestMirrorClock) set_mirror(v & 1);
  }

  CULE_HD CULE_INLINE void set_copies(u32 n, u32 v) {
    if (s.nusiz[n] != v || s.skip[n]) shapes.stale |= (1u << kPlayer0 | 1u << kMissile0) << n;
    s.nusiz[n] = u8(v);
    s.skip[n] = 0;
    if (n == 0) show_missile0(Missile0Look::kNormal);
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

  CULE_HD CULE_INLINE void set_graphics(u32 n, u32 v, u32 shows) {
    if (shows) shapes.change(shows);
    s.grp[n] = u8(v);
    s.old_grp[1 - n] = s.grp[1 - n];
    if (n == 1) s.old_enabl = s.enabl;
  }

  CULE_HD void reset_player(u32 n, u32 clock, u32 index) {
    const u32 position = reset_player_position(clock % kClocksPerLine);
    const u32 distance = wrap_position(i32(position) - i32(s.position[n]));
    const PlayerReset kind = classify_player_reset(s.nusiz[n] & 7, distance);
    if (kind == PlayerReset::kDisplay) {
      draw_again_up_to(clock + kResetDrawClocks, index);
    }
    const u32 skip = kind != PlayerReset::kDelay;
    if (s.position[n] != position || s.skip[n] != skip) shapes.invalidate(n);
    s.position[n] = u8(position);
    s.skip[n] = u8(skip);
  }

  CULE_HD void reset_small(u32 reg, u32 clock) {
    const u32 position = reset_small_position(reg, clock, s.hmove_clock);
    const u32 object = reg == RESBL ? u32(kBall) : kMissile0 + reg - RESM0;
    if (reg == RESM0) show_missile0(Missile0Look::kNormal);
    if (s.position[object] != position) shapes.invalidate(object);
    s.position[object] = u8(position);
  }

  // The star field starts with HMM0 changed from 7 to 6 exactly 21 cycles after an HMOVE (NOTES.md
  // 10).
  CULE_HD CULE_INLINE bool begins_stars(u32 v, u32 clock) const {
    return v >> 4 == 6 && s.hm[kMissile0] == 7 && clock == u32(s.hmove_clock) + 63;
  }
  CULE_HD CULE_INLINE void start_stars(u32 v) {
    s.hm[kMissile0] = u8(v >> 4);
    s.stars = 1;
    s.star_count = 0;
  }

  CULE_HD void set_missile_lock(u32 n, u32 locked) {
    s.resmp[n] = u8(locked);
    if (!locked) {
      const u32 middle = locked_missile_offset(s.nusiz[n] & 7);
      s.position[kMissile0 + n] = u8(wrap_position(i32(s.position[kPlayer0 + n] + middle)));
      if (n == 0) s.missile0_look = Missile0Look::kNormal;
    }
    shapes.change(1u << (kMissile0 + n));
  }

  CULE_HD void move_objects(u32 clock) {
    const u32 cycle = clock % kClocksPerLine / kClocksPerCycle;
    if (hmove_blanks && (cycle <= 20 || cycle == 75)) s.hmove_blank = 1;
    // Right after a WSYNC nothing moves but what has been told to.
    const bool is_early = cycle == 75 || cycle <= 3;
    const bool is_still = is_early && !(s.hm[0] | s.hm[1] | s.hm[2] | s.hm[3] | s.hm[4]);
    for (u32 object = 0; object < (is_still ? 0u : u32(kPlayfield)); ++object) {
      const i32 motion = hmove_pixels(cycle, s.hm[object]);
      if (motion == 0) continue;
      s.position[object] = u8(wrap_position(i32(s.position[object]) + motion));
      shapes.invalidate(object);
    }
    for (u32 n = 0; n < 2; ++n) {
      if (s.skip[n]) shapes.invalidate(n);
      s.skip[n] = 0;
    }
    show_missile0(Missile0Look::kNormal);
    s.hmove_clock = i32(clock);
    s.stars = 0;
  }

  CULE_HD CULE_INLINE void show_missile0(Missile0Look look) {
    if (s.missile0_look != look) shapes.invalidate(kMissile0);
    s.missile0_look = look;
  }

  // End of a window line: happens when drawing crosses into the next one (NOTES.md 4.1).
  CULE_HD CULE_INLINE void end_line() {
    set_mirror(s.ctrlpf & 1);
    if (s.skip[0] | s.skip[1]) {
      for (u32 n = 0; n < 2; ++n) {
        if (s.skip[n]) shapes.invalidate(n);
        s.skip[n] = 0;
      }
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
    u32 end_of_line =
        beam.drawn == beam.line_begin ? beam.line_begin : beam.line_begin + kClocksPerLine;
    if (end_of_line == beam.first) end_of_line += kClocksPerLine;
    if (end_of_line < beam.mark) end_line();  // further ones change nothing more
    u32 blank_end = beam.line_begin + kHblankClocks + 8;
    if (beam.drawn >= blank_end) blank_end += kClocksPerLine;
    if (beam.mark >= blank_end) s.hmove_blank = 0;
    beam.drawn = beam.mark;
    const u32 into_line = beam.mark - beam.line_begin;
    if (into_line >= kClocksPerLine) beam.line_begin += into_line - into_line % kClocksPerLine;
  }

  CULE_HD CULE_DEVICE_NOINLINE void draw(u32 index) {
    const u32 start = beam.drawn;
    while (beam.drawn < beam.mark) {
      const u32 begin = beam.line_begin;
      const u32 line = begin / kClocksPerLine;
      if (beam.drawn == begin) {
        sink.line_start(s, beam, line, index);
        if (begin != beam.first) end_line();
      }
      const u32 line_end = begin + kClocksPerLine;
      const u32 visible = begin + kHblankClocks;
      const u32 end = beam.mark < line_end ? beam.mark : line_end;
      if (end > visible) {
        const u32 x0 = beam.drawn > visible ? beam.drawn - visible : 0;
        const u32 x1 = end - visible;
        sink.segment(s, shapes, line, x0, x1);
        if (s.hmove_blank && x0 < 8) {
          sink.blank_left(line, x0, x1 < 8 ? x1 : 8);
          if (x1 >= 8) s.hmove_blank = 0;
        }
      }
      beam.drawn = end;
      if (end == line_end) beam.line_begin = end;
    }
    if constexpr (Sink::kExact) {
      if (beam.mark < window.end_clocks) sink.touch_ahead(s, shapes, start, beam.mark);
    }
  }
};

}  // namespace cule
