// console/step.hpp: the instruction loop of one frame step.
//
// Runs until the frame ends, 25,000 instructions have been executed or the processor has jammed.
#pragma once

#include "console/bus.hpp"

namespace cule {

// One instruction with every access through the decoder.
CULE_HD CULE_NOINLINE inline Clock step_slowly(Machine& m, Clock clock) {
  SlowBus bus{m, clock};
  Execution<SlowBus> e(bus, m.s.cpu);
  const u32 opcode = bus.read(e.pc, 0);
  e.step(opcode);
  e.store(m.s.cpu);
  return bus.clock;
}

// Instructions as long as they can be fetched fast.
template <class Fetch>
CULE_HD CULE_INLINE Clock run_fast(Machine& m, Clock clock) {
  FastBus<Fetch> bus(m, clock);
  Execution<FastBus<Fetch>> e(bus, m.s.cpu);
  for (;;) {
    const u32 offset = (e.pc - 0x1000 - bus.region_begin) & 0x1FFF;
    if (CULE_UNLIKELY(offset >= bus.limit || !Fetch::can_fetch(offset))) break;
    bus.instruction = load_u32(Fetch::at(m, bus.base, e.pc, offset));
    e.step(bus.instruction & 0xFF);
    if (CULE_UNLIKELY(e.is_jammed)) break;
  }
  e.store(m.s.cpu);
  return bus.clock;
}

template <class Fetch>
CULE_HD void run_step(Machine& m) {
  Clock clock = Clock(m.s.cycles) << kClockShift;
  while (!m.s.cpu.is_jammed) {
    clock = run_fast<Fetch>(m, clock);
    if (m.must_stop || m.s.cpu.is_jammed) break;
    clock = step_slowly(m, clock);
    if (instructions_of(clock) >= kCountFrom) m.fetch_limit = 0;
    if (m.must_stop || instructions_of(clock) >= kMaxInstructions) break;
  }
  m.s.cycles = cycles_of(clock);
}

}  // namespace cule
