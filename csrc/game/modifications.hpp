// game/modifications.hpp: programs that change RAM, actions and rewards: at a reset, and before and
// after each frame of an episode.
//
// In: RAM, slots, the words that cule/games/modifications.py makes of the modifications of a game,
// and the number of the environment's modification. Out: changed RAM and slots. Slots keep what a
// program leaves there, and the program of a reset gives each its first value. The last slot has
// the first player's action before a frame, and their reward after it.
//
// Words: how many modifications there are; the places of the programs of each (Moment); then
// the programs, in the same order. Modification 0 has no programs: the game is as it was.
#pragma once

#include "base/random.hpp"
#include "game/vm.hpp"

namespace cule {

enum Moment : u32 { kAtReset, kBeforeFrame, kAfterFrame, kMoments };
constexpr u32 kValueSlot = kMaxSlots - 1;

// The programs' effects and random numbers: a counter-based stream of the environment's own.
struct PokedRam {
  static constexpr ProgramKind kKind = ProgramKind::kModification;
  u8* ram;
  u64 seed;
  u64 step;
  u32 num_draws = 0;

  CULE_HD void poke(i32 cell, i32 value) { ram[cell & 0x7F] = u8(value); }
  // Uniform in 0 to n - 1; 0 if there is none.
  CULE_HD i32 draw_below(i32 n) {
    const u32 draw = counter_random(seed, num_draws++, step, Purpose::kModification);
    return n > 0 ? i32(u64(draw) * u32(n) >> 32) : 0;
  }
};

// words: null if there are none.
CULE_HD CULE_INLINE u32 count_modifications(const i32* words) {
  return words == nullptr ? 0 : u32(words[0]);
}

CULE_HD CULE_INLINE const i32* modification_program(const i32* words, u32 number, Moment moment) {
  return words + words[1 + (number - 1) * kMoments + moment];
}

// Whether every program stays within the words.
inline bool is_valid_modifications(const i32* words, u32 size) {
  if (size < 1 || words[0] < 1 || u32(words[0]) > (size - 1) / kMoments) return false;
  const u32 num_programs = u32(words[0]) * kMoments;
  for (u32 i = 0; i < num_programs; ++i) {
    const i32 at = words[1 + i];
    const i32 end = i + 1 < num_programs ? words[2 + i] : i32(size);
    if (at < i32(1 + num_programs) || end <= at || u32(end) > size) return false;
    if (find_program_error(words + at, u32(end - at), ProgramKind::kModification) >= 0)
      return false;
  }
  return true;
}

}  // namespace cule
