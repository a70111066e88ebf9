// console/idle.hpp: idle loops advanced arithmetically, exactly.
//
// Two kinds of loops make up a good part of every game: polling the timer (LDA INTIM / BNE, BIT
// INSTAT / BPL) and counting a register down (DEX / BNE, DEX / BPL). At a taken backward branch
// into such a loop the iterations whose outcome is known are skipped: the clock, the instruction
// count and the register get the values they would have, and the last iterations run as usual.
#pragma once

#include "console/machine.hpp"

namespace cule {

constexpr u32 kShortestIdleLoop = 0xFB;  // branch offsets -5 (the timer) and -3 (DEX, DEY)

// Instructions a skip may add: the step's limit must be reached in the counting loop.
constexpr u32 kMaxSkippedInstructions = 512 * 16;

template <class Bus>
CULE_HD CULE_INLINE void skip_iterations(Bus& bus, u32 iterations, u32 cycles) {
  bus.clock += (Clock(iterations) * cycles << kClockShift) + 2 * iterations;
}

// A loop that polls the timer: LDA, LDX or LDY INTIM, then BNE, BPL or BMI; or INSTAT, BIT too,
// then BPL. It is repeated while the timer shows `lowest` to `highest`.
struct TimerPoll {
  bool is_one;
  u32 lowest = 0;
  u32 highest = 0xFF;
};

// `loop`: the four bytes at its start; `branch`: the branch's opcode.
CULE_HD CULE_INLINE constexpr TimerPoll timer_poll(u32 loop, u32 branch) {
  const u32 opcode = loop & 0xFF;
  const bool is_load = opcode >= 0xAC && opcode <= 0xAE;
  if ((loop & 0xFFFF00) == 0x028400 && is_load) {
    if (branch == 0xD0) return {true, 1, 0xFF};
    if (branch == 0x10) return {true, 0, 0x7F};
    if (branch == 0x30) return {true, 0x80, 0xFF};
  }
  const bool is_status = (loop & 0xFFFF00) == 0x028500 && (is_load || opcode == 0x2C);
  return {is_status && branch == 0x10};
}

// Iterations, from `cycle` on and of `period` cycles each, that only lead to the next one.
CULE_HD CULE_INLINE u32 skipped_polls(const Timer& t, const TimerPoll& poll, u32 cycle,
                                      u32 period) {
  const u32 elapsed = timer_elapsed(t, cycle + 4);
  const u32 value = t.start - 1u - (elapsed >> t.shift);
  if (value < poll.lowest || value > poll.highest) return 0;  // expired, or falls through at once
  const u32 end = (t.start - poll.lowest) << t.shift;
  const u32 iterations = (end - elapsed + period - 1) / period;
  return iterations < kMaxSkippedInstructions / 2 ? iterations : 0;
}

// Cycles of an iteration of a loop at pc that is so many bytes long: of the instruction before the
// branch, and of the branch.
CULE_HD CULE_INLINE constexpr u32 loop_period(u32 pc, u32 bytes, u32 cycles) {
  return cycles + (((pc ^ (pc + bytes)) & 0xFF00) ? 4 : 3);
}

// `loop`: the four bytes at the branch target (execution.pc); `branch`: the branch's opcode. Called
// with the branch fully executed.
template <class Execution, class Bus>
CULE_HD CULE_INLINE void skip_idle_loop(Execution& e, Bus& bus, u32 loop, u32 branch, u32 offset) {
  if (instructions_of(bus.clock) >= kMaxSkippedInstructions) return;
  const u32 opcode = loop & 0xFF;
  if (offset == 0xFD) {
    // DEX or DEY, then BNE or BPL: all but the last iteration are taken.
    if ((branch != 0xD0 && branch != 0x10) || (opcode != 0xCA && opcode != 0x88)) return;
    const u32 counter = opcode == 0xCA ? e.x : e.y;
    const u32 last = branch == 0xD0 ? 1 : 0;          // not taken from here
    const u32 iterations = (counter - last) & 0xFF;   // BNE: 0 wraps to 255 first
    if (branch == 0x10 && iterations > 0x80) return;  // BPL: falls through at once
    skip_iterations(bus, iterations, loop_period(e.pc, 3, 2));
    e.x = opcode == 0xCA ? last : e.x;
    e.y = opcode == 0xCA ? e.y : last;
  } else if (offset == 0xFB) {
    const TimerPoll poll = timer_poll(loop, branch);
    if (!poll.is_one) return;
    const u32 period = loop_period(e.pc, 5, 4);
    skip_iterations(bus, skipped_polls(bus.m.s.timer, poll, cycles_of(bus.clock), period), period);
  }
}

}  // namespace cule
