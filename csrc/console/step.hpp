// console/step.hpp: the instruction loop of one frame step.
//
// Runs until the frame ends, 25,000 instructions have been executed or the processor has jammed.
#pragma once

#include "console/bus.hpp"

namespace cule {

// One instruction with every access through the decoder.
template <class Access>
CULE_HD CULE_NOINLINE Clock step_slowly(Machine<Access>& m, Clock clock) {
  CULE_ASSUME_LOCAL(&m);
  SlowBus<Access> bus{m, clock};
  Execution<SlowBus<Access>> e(bus, m.s.cpu);
  const u32 opcode = bus.read(e.pc, 0);
  e.step(opcode);
  e.store(m.s.cpu);
  return bus.clock;
}

// Instructions up to the first that has to be executed slowly. Enters with pc in the cartridge.
template <class Fetch, class Access>
CULE_HD CULE_INLINE Clock run_fast(Machine<Access>& m, Clock clock) {
  FastBus<Fetch, Access> bus(m, clock, m.s.cpu.pc);
  Execution<FastBus<Fetch, Access>> e(bus, m.s.cpu);
  for (;;) {
    e.step(bus.fetch(e.pc));
    if (CULE_UNLIKELY(e.is_jammed)) break;
  }
  e.is_jammed = false;  // a trap
  e.store(m.s.cpu);
  return bus.clock;
}

// `run_fast` as the function above. Returns the clock at the end.
template <class Access, class RunFast>
CULE_HD CULE_INLINE Clock run_step(Machine<Access>& m, const RunFast& run_fast) {
  Clock clock = Clock(m.s.cycles) << kClockShift;
  while (!m.s.cpu.is_jammed) {
    if (m.s.cpu.pc & 0x1000) {
      clock = run_fast(m, clock);
      if (m.must_stop) break;
    }
    clock = step_slowly(m, clock);
    if (instructions_of(clock) >= kCountFrom) m.opcodes = m.console.cart.traps;
    if (m.must_stop || instructions_of(clock) >= kMaxInstructions) break;
  }
  m.s.cycles = cycles_of(clock);
  return clock;
}

}  // namespace cule
