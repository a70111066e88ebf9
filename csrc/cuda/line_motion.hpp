// cuda/line_motion.hpp: what a scanline does to the positions of the objects.
//
// In: its accesses, in order. Out: the positions after it, for any at its start.
#pragma once

#include "base/bits.hpp"
#include "tia/rules.hpp"

namespace cule {

// The five positions, in halves of words: players, missiles, ball.
struct Positions {
  u32 word[3];

  CULE_HD CULE_INLINE u32 operator[](u32 object) const {
    return word[object / 2] >> 16 * (object % 2) & 0xFFFF;
  }
};

CULE_HD CULE_INLINE u32 half_bits(u32 object) { return 0xFFFFu << 16 * (object % 2); }

// What a scanline does to the positions, and to what depends on them.
struct LineMotion {
  Positions offset{};  // to add, modulo 160; or the position itself
  Positions is_set{};  // all bits of an object: the position itself
  u32 follows = 0;     // all bits of a missile: the offset is to its player's position at the start
  u32 reset[2] = {};   // the last access that changes TiaState::skip: kCleared, or a RESPn

  static constexpr u32 kCleared = 1u << 31;
  static constexpr u32 kReset = 1u << 30;
  static constexpr u32 kLate = 1u << 29;  // its drawing reaches beyond the scanline
  static constexpr u32 kWasSet = 1u << 28;

  CULE_HD CULE_INLINE bool is_any() const {
    return (offset.word[0] | offset.word[1] | offset.word[2] | is_set.word[0] | is_set.word[1] |
            is_set.word[2] | follows) != 0;
  }
  CULE_HD CULE_INLINE Positions after(Positions start) const {
    const u32 missiles = (start.word[1] & ~follows) | (start.word[0] & follows);
    const u32 from[3] = {start.word[0], missiles, start.word[2]};
    Positions end;
    for (u32 w = 0; w < 3; ++w) {
      const u32 sum = (from[w] & ~is_set.word[w]) + offset.word[w];
      end.word[w] = CULE_WRAP_HALVES(sum, kScreenWidth);
    }
    return end;
  }
  CULE_HD CULE_INLINE void move(u32 object, i32 motion) {
    place(object, wrap_position(i32(offset[object]) + motion));
  }
  CULE_HD CULE_INLINE void put(u32 object, u32 x) {
    place(object, x);
    is_set.word[object / 2] |= half_bits(object);
    if (object / 2 == 1) follows &= ~half_bits(object);
  }
  // The missile is where its player is, whichever way that is known.
  CULE_HD CULE_INLINE void unlock_missile(u32 n, u32 mode) {
    const u32 missile = kMissile0 + n;
    put(missile, wrap_position(i32(offset[n] + locked_missile_offset(mode))));
    if (is_set.word[0] & half_bits(n)) return;
    is_set.word[1] &= ~half_bits(n);
    follows |= half_bits(n);
  }
  // RESPn in mode `mode` of NUSIZn. Which kind it is depends on the position before it.
  CULE_HD CULE_INLINE void reset_player(u32 n, u32 x, u32 mode, bool is_late) {
    const u32 was_set = is_set.word[0] & half_bits(n) ? kWasSet : 0;
    reset[n] = kReset | was_set | (is_late ? kLate : 0) | x << 16 | offset[n] << 8 | mode;
    put(n, x);
  }
  CULE_HD CULE_INLINE PlayerReset kind(u32 n, Positions start) const {
    const u32 r = reset[n];
    const u32 before = r >> 8 & 0xFF;
    const u32 old = r & kWasSet ? before : wrap_position(i32(start[n] + before));
    return classify_player_reset(r & 7, wrap_position(i32(r >> 16 & 0xFF) - i32(old)));
  }

 private:
  CULE_HD CULE_INLINE void place(u32 object, u32 x) {
    u32& w = offset.word[object / 2];
    w = (w & ~half_bits(object)) | x << 16 * (object % 2);
  }
};

}  // namespace cule
