// tia/rules.hpp: what a write does to the state, over any view of it.
//
// In: a register, its value and the frame clock of the write. apply() is the rule; a view says how
// the state is kept (tia/tia_view.hpp, cuda/line_view.hpp). Positions and times are computed from
// the write's own clock, not from the delayed one (NOTES.md 5). What is before the write has been
// drawn.
#pragma once

#include "tia/registers.hpp"

namespace cule {

// A write to CTRLPF from this clock of a line on reflects the playfield only from the next line.
constexpr u32 kLatestMirrorClock = 147;

// HMOVE by the cycle of the line (NOTES.md 9). In the last cycle and the first ones it moves
// objects by all of their motion; up to kLatestBlankCycle it blanks the first pixels.
constexpr u32 kLastCycle = kCyclesPerLine - 1;
constexpr u32 kLatestFullMoveCycle = 3;
constexpr u32 kLatestBlankCycle = 20;
constexpr u32 kHmoveBlankPixels = 8;

CULE_HD CULE_INLINE constexpr u32 cycle_of_line(u32 clock) {
  return clock % kClocksPerLine / kClocksPerCycle;
}
CULE_HD CULE_INLINE constexpr bool moves_fully(u32 cycle) {
  return cycle == kLastCycle || cycle <= kLatestFullMoveCycle;
}
CULE_HD CULE_INLINE constexpr bool is_blanking(u32 cycle) {
  return cycle == kLastCycle || cycle <= kLatestBlankCycle;
}

// Pixels an object moves right when HMOVE is written in `cycle` of a line.
CULE_HD CULE_INLINE i32 hmove_pixels(u32 cycle, u32 nibble) {
  const i32 s = nibble < 8 ? i32(nibble) : i32(nibble) - 16;
  const i32 q = i32((3 * cycle + 1) / 4);
  if (moves_fully(cycle)) return -s;
  if (cycle <= kLatestBlankCycle) return -s > q - 9 ? -s : q - 9;
  const i32 late = 47 - q - s;
  return late < 0 ? late : 0;
}

// Positions of several objects, a byte each, after they have moved by all of their motion, the
// nibbles: as hmove_pixels() has it.
CULE_HD CULE_INLINE constexpr u64 moved_fully(u64 positions, u64 nibbles) {
  constexpr u64 kBytes = 0x0101010101010101ULL, kTops = 0x80 * kBytes;
  // 64 too much, so that no byte overflows.
  const u64 x = positions + (64 + 8) * kBytes - (nibbles ^ 8 * kBytes);
  const u64 is_left = ~(x | x << 1) & kTops;         // below 64
  const u64 is_right = x & x << 1 & x << 2 & kTops;  // 224 at least
  static_assert(kScreenWidth == 0x80 + 0x20);
  return x + (is_left | is_left >> 2) - 64 * kBytes - (is_right | is_right >> 2);
}

constexpr bool moves_as_one_by_one() {
  for (u32 position = 0; position < kScreenWidth; ++position) {
    for (u32 nibble = 0; nibble < 16; ++nibble) {
      const i32 x = i32(position) - (nibble < 8 ? i32(nibble) : i32(nibble) - 16);
      const u32 wrapped = u32(x + i32(kScreenWidth)) % kScreenWidth;
      if (moved_fully(position << 8, nibble << 8) != (u64(wrapped) << 8)) return false;
    }
  }
  return true;
}
static_assert(moves_as_one_by_one());

// The star field starts with HMM0 changed from 7 to 6 exactly 21 cycles after an HMOVE (NOTES.md
// 10).
constexpr u32 kStarNibble = 6;
CULE_HD CULE_INLINE bool begins_stars(u32 v, u32 nibble_before, u32 clock, i32 hmove_clock) {
  return v >> 4 == kStarNibble && nibble_before == 7 && clock == u32(hmove_clock) + 63;
}

// Where RESPn puts a player, at this clock of a line (NOTES.md 6.2).
CULE_HD CULE_INLINE u32 reset_player_position(u32 h) {
  return h < kHblankClocks ? 3 : (h - kHblankClocks + 5) % kScreenWidth;
}

CULE_HD CULE_INLINE u32 small_object(u32 reg) {
  return reg == RESBL ? u32(kBall) : kMissile0 + reg - RESM0;
}

// Where RESMn or RESBL puts its object. Resets shortly after an HMOVE land elsewhere
// (NOTES.md 6.3).
CULE_HD CULE_INLINE u32 reset_small_position(u32 object, u32 clock, i32 hmove_clock) {
  const u32 h = clock % kClocksPerLine;
  const i32 gap = i32(clock - u32(hmove_clock));
  if (object == kMissile0 && gap == 60 && h == 69) return 8;
  if (object == kBall) {
    if (gap == 54 && (h == 60 || h == 69)) return 10;
    if (gap == 21 && h == 30) return 6;
    if (gap == 18 && h == 27) return 5;
  }
  if (object != kMissile0 && gap == 9 && h == 18) return 3;
  return h < kHblankClocks ? 2 : (h - kHblankClocks + 4) % kScreenWidth;
}

// A missile that RESMPn frees is this far right of its player, by NUSIZ bits 0-2.
CULE_HD CULE_INLINE u32 locked_missile_offset(u32 mode) {
  return mode == 5 ? 8 : mode == 7 ? 16 : 4;
}

// Kind of a RESPn write: how the new position relates to the copies being drawn (NOTES.md 6.2).
enum class PlayerReset { kHideFirst, kDelay, kDisplay };

constexpr u32 kResetDrawClocks = 11;  // kDisplay: the old position is drawn for so long

CULE_HD inline PlayerReset classify_player_reset(u32 mode, u32 distance) {
  const PlayerCopies copies = player_copies(mode);
  const u32 end = mode == 5 ? 20 : mode == 7 ? 36 : 12;
  if (distance < 4) return PlayerReset::kDelay;
  if (distance < end) return PlayerReset::kDisplay;
  for (u32 n = 0; n < 2; ++n) {
    const u32 copy = n == 0 ? copies.second : copies.third;
    if (copy == 0 || distance < copy) continue;
    if (distance < copy + 4) return PlayerReset::kDelay;
    if (distance < copy + 12) return PlayerReset::kDisplay;
  }
  return PlayerReset::kHideFirst;
}

// How player n is drawn after a RESPn at this clock.
template <class View>
CULE_HD CULE_INLINE PlayerReset player_reset(const View& s, u32 n, u32 clock) {
  const u32 x = reset_player_position(clock % kClocksPerLine);
  return classify_player_reset(s.mode(n), wrap_position(i32(x) - i32(s.position(n))));
}

// HMOVE.
template <class View>
CULE_HD CULE_INLINE void move_objects(View& s, u32 clock) {
  const u32 cycle = cycle_of_line(clock);
  if (is_blanking(cycle)) s.blank_left();
  const u32 objects = s.moves_at_once(cycle) ? 0 : u32(kPlayfield);
  for (u32 object = 0; object < objects; ++object) {
    const i32 pixels = hmove_pixels(cycle, s.motion(object));
    if (pixels != 0) s.place(object, wrap_position(i32(s.position(object)) + pixels));
  }
  for (u32 n = 0; n < 2; ++n) s.set_skip(n, false);
  s.stop_stars();
  s.set_hmove_clock(clock);
}

// A write to a register that is more than a field of the state. The cases are registers: on a GPU a
// look-up of the kind costs more than they do.
template <class View>
CULE_HD CULE_INLINE void apply(View& s, u32 reg, u32 v, u32 clock) {
  switch (reg) {
    case NUSIZ0:
    case NUSIZ1:
      s.set_copies(reg - NUSIZ0, v);  // and shows the first one
      if (reg == NUSIZ0) s.show_normal_missile0();
      break;
    case CTRLPF:
      s.set_control(v);
      if (clock % kClocksPerLine < kLatestMirrorClock) s.set_mirror(v & 1);
      break;
    case RESP0:
    case RESP1: {
      const u32 n = reg - RESP0;
      const PlayerReset reset = player_reset(s, n, clock);
      if (reset == PlayerReset::kDisplay) s.draw_until(clock + kResetDrawClocks);
      s.set_skip(n, reset != PlayerReset::kDelay);
      s.place(n, reset_player_position(clock % kClocksPerLine));
      break;
    }
    case RESM0:
    case RESM1:
    case RESBL:
      s.place(small_object(reg), reset_small_position(small_object(reg), clock, s.hmove_clock()));
      if (reg == RESM0) s.show_normal_missile0();
      break;
    case GRP0:
      s.set_graphics(0, v);
      s.copy_graphics(1);
      break;
    case GRP1:
      s.set_graphics(1, v);
      s.copy_graphics(0);
      s.copy_ball();
      break;
    case RESMP0:
    case RESMP1: {
      const u32 n = reg - RESMP0;
      if (s.is_locked(n) && !(v & 2)) {
        const u32 x = s.position(n) + locked_missile_offset(s.mode(n));
        s.place(kMissile0 + n, wrap_position(i32(x)));
        if (n == 0) s.show_normal_missile0();
      }
      s.set_lock(n, v);
      break;
    }
    case HMOVE:
      move_objects(s, clock);
      break;
    case HMCLR:
      s.clear_motion();
      break;
    case CXCLR:
      s.clear_latches();
      break;
    default:
      if (reg == HMM0 && s.begins_stars(v, clock)) s.start_stars(v);
      break;
  }
}

}  // namespace cule
