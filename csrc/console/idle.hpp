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
    const u32 branch_cycles = ((e.pc ^ (e.pc + 3)) & 0xFF00) ? 4 : 3;
    skip_iterations(bus, iterations, 2 + branch_cycles);
    e.x = opcode == 0xCA ? last : e.x;
    e.y = opcode == 0xCA ? e.y : last;
  } else if (offset == 0xFB) {
    // LDA, LDX or LDY INTIM, then BNE, BPL or BMI; or INSTAT, BIT too, then BPL. Taken while the
    // timer shows `lowest` to `highest`.
    const bool is_load = opcode >= 0xAC && opcode <= 0xAE;
    u32 lowest = 0;
    u32 highest = 0xFF;
    if ((loop & 0xFFFF00) == 0x028400) {
      if (!is_load || (branch != 0xD0 && branch != 0x10 && branch != 0x30)) return;
      if (branch == 0xD0) lowest = 1;
      if (branch == 0x10) highest = 0x7F;
      if (branch == 0x30) lowest = 0x80;
    } else if ((loop & 0xFFFF00) == 0x028500) {
      if ((!is_load && opcode != 0x2C) || branch != 0x10) return;
    } else {
      return;
    }
    const Timer& t = bus.m.s.timer;
    const u32 branch_cycles = ((e.pc ^ (e.pc + 5)) & 0xFF00) ? 4 : 3;
    const u32 period = 4 + branch_cycles;
    const u32 elapsed = timer_elapsed(t, cycles_of(bus.clock) + 4);
    const u32 value = t.start - 1u - (elapsed >> t.shift);
    if (value < lowest || value > highest) return;  // expired, or falls through at once
    const u32 end = (t.start - lowest) << t.shift;
    const u32 iterations = (end - elapsed + period - 1) / period;
    if (iterations >= kMaxSkippedInstructions / 2) return;
    skip_iterations(bus, iterations, period);
  }
}

}  // namespace cule
