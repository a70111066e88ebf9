// console/lanes.hpp: the instruction loop of consoles that run side by side in the lanes of a warp.
//
// Every lane runs its console to the end of the scan line, then waits for the others: lanes that
// are at the same place on the screen are mostly at the same place in the program, so they execute
// the same stages together. Results do not depend on who else is in the warp.
//
// Lanes stands for the lanes that take part. It has
//   ballot(bool)  mask of the lanes that say yes; all lanes of the group call it together
//   only(mask)    the group of those lanes
//   any(bool)     whether one of the group says yes; all call it together
#pragma once

#include "console/word_bus.hpp"
#include "cpu/staged.hpp"

namespace cule {

template <class Access>
CULE_HD CULE_NOINLINE Clock step_staged_slowly(Machine<Access>& m, Clock clock,
                                               const u32* micro_ops) {
  using Bus = SlowBus<Access>;
  Bus bus{m, clock};
  Execution<Bus> e(bus, m.s.cpu);
  const u32 opcode = bus.read(e.pc, 0);
  const u32 op = micro_ops[opcode];
  if (micro_function(op) == Function::kJam) {
    bus.jam(e);
  } else {
    Staged<Bus>::step(e, opcode, op);
  }
  e.store(m.s.cpu);
  return bus.clock;
}

template <class Fetch, class Access, class Lanes>
CULE_HD CULE_NOINLINE void run_step_in_lanes(Machine<Access>& m, const u32* micro_ops,
                                             const Lanes& lanes) {
  using Bus = WordBus<Fetch, Access>;
  Bus bus(m, Clock(m.s.cycles) << kClockShift);
  Execution<Bus> e(bus, m.s.cpu);
  bool is_running = !e.is_jammed;
  Clock line_end = Clock((current_line(m.s) + 1) * kCyclesPerLine - m.s.phase_cycles)
                   << kClockShift;
  do {
    while (is_running && bus.clock < line_end) {
      if (CULE_LIKELY(bus.fetch(e.pc))) {
        const u32 opcode = bus.word & 0xFF;
        Staged<Bus>::step(e, opcode, micro_ops[opcode]);
        continue;
      }
      if (m.must_stop) {
        is_running = false;
        continue;
      }
      e.store(m.s.cpu);
      bus.clock = step_staged_slowly(m, bus.clock, micro_ops);
      e.load(m.s.cpu);
      if (instructions_of(bus.clock) >= kCountFrom) m.opcodes = m.console.cart.traps;
      bus.reload();
      is_running = !(m.must_stop || e.is_jammed || instructions_of(bus.clock) >= kMaxInstructions);
    }
    line_end += Clock(kCyclesPerLine) << kClockShift;
  } while (lanes.any(is_running));
  e.store(m.s.cpu);
  m.s.cycles = cycles_of(bus.clock);
}

// Runs frame steps in a lane, in step with the others (Engine of BasicAle).
template <class Fetch, class Lanes>
struct LaneEngine {
  using Access = LaneAccess;

  InterleavedRam working_ram;
  const u32* micro_ops;  // MicroOps::op
  Lanes all;             // who steps at all
  Lanes emulating;       // who emulates the running frame

  CULE_HD InterleavedRam ram(ConsoleState&) const { return working_ram; }

  CULE_HD bool align(bool is_running, bool emulates) {
    emulating = all.only(all.ballot(emulates));
    return all.any(is_running);
  }

  CULE_HD void run(Machine<LaneAccess>& m) const {
    for (u32 i = 0; i < kRamBytes; ++i) working_ram[i] = m.s.ram[i];
    run_step_in_lanes<Fetch>(m, micro_ops, emulating);
    for (u32 i = 0; i < kRamBytes; ++i) m.s.ram[i] = working_ram[i];
  }
};

}  // namespace cule
