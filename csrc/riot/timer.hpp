// riot/timer.hpp: interval timer of the 6532.
//
// In: current CPU cycle (the console's rebased counter). Out: INTIM, INSTAT.
// Counts down once every 1, 8, 64 or 1024 cycles. After expiry the first late read of INTIM freezes
// the value against later reads: a quirk of the reference (NOTES.md 3.2). Only that read has a side
// effect.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

struct Timer {
  i32 set_cycle;        // counter at the last write; rebased at frame starts
  i32 late_read_cycle;  // counter at the first read after expiry; rebased likewise
  u8 start;             // value written
  u8 shift;             // 0, 3, 6, 10
  u8 is_late_read;      // late_read_cycle is valid
  u8 reserved;
};

CULE_HD CULE_INLINE constexpr u32 timer_shift(u32 interval_index) {
  return (0xA630u >> (4 * interval_index)) & 0xF;
}
static_assert(timer_shift(0) == 0 && timer_shift(1) == 3 && timer_shift(2) == 6 &&
              timer_shift(3) == 10);

CULE_HD CULE_INLINE void set_timer(Timer& t, u32 interval_index, u32 value, u32 cycle) {
  t.start = u8(value);
  t.shift = u8(timer_shift(interval_index));
  t.set_cycle = i32(cycle);
  t.is_late_read = 0;
}

CULE_HD CULE_INLINE u32 timer_elapsed(const Timer& t, u32 cycle) {
  return cycle - 1 - u32(t.set_cycle);
}

// What the timer shows until it expires; negative from then on. An opcode fetched from the timer in
// the very cycle of its write finds elapsed = -1, shifted unsigned: TIM1T has not expired, the
// others have.
CULE_HD CULE_INLINE i32 timer_value(const Timer& t, u32 cycle) {
  return i32(t.start - (timer_elapsed(t, cycle) >> t.shift) - 1u);
}

CULE_HD CULE_INLINE u32 read_intim(Timer& t, u32 cycle) {
  const i32 value = timer_value(t, cycle);
  if (value >= 0) return u32(value);
  const u32 elapsed = timer_elapsed(t, cycle);
  const u32 intervals = elapsed >> t.shift;
  const u32 span = u32(t.start) << t.shift;
  const bool is_past_expiry = i32(span - elapsed - 1) <= -2;
  if (!t.is_late_read && is_past_expiry) {
    t.is_late_read = 1;
    t.late_read_cycle = i32(cycle);
  }
  if (!t.is_late_read) return (span - elapsed - 1) & 0xFF;
  return (t.start - intervals - (u32(t.late_read_cycle) - u32(t.set_cycle) - span)) & 0xFF;
}

CULE_HD CULE_INLINE u32 read_instat(const Timer& t, u32 cycle) {
  return timer_value(t, cycle) < 0 && !t.is_late_read ? 0x80 : 0;
}

CULE_HD CULE_INLINE void rebase_timer(Timer& t, u32 cycles) {
  t.set_cycle = i32(u32(t.set_cycle) - cycles);
  t.late_read_cycle = i32(u32(t.late_read_cycle) - cycles);
}

}  // namespace cule
