// warp/interpreter.hpp: the instruction loop of consoles that run in the lanes of one warp.
//
// A warp executes one machine instruction at a time for the lanes that need it. Lanes meet at the
// end of every scanline: lanes at the same place on the screen are mostly in the same routine of
// their program. In between they may execute different opcodes, because most opcodes share one
// instruction sequence (warp/branch_free.hpp). Results do not depend on the other lanes of a warp.
#pragma once

#include "console/step.hpp"
#include "warp/branch_free.hpp"
#include "warp/word_bus.hpp"

namespace cule {

// Executes one instruction of a lane. Returns whether the lane still runs.
template <class Fetch, class Lanes>
CULE_HD CULE_INLINE bool step_lane(Machine<LaneAccess>& m, Execution<WordBus<Fetch>>& e,
                                   const LaneOpcode* opcodes, const Lanes& lanes) {
  WordBus<Fetch>& bus = e.bus;
  if (CULE_LIKELY(bus.fetch(e.pc))) {
    lanes.note_instruction(false);
    const u32 opcode = bus.word & 0xFF;
    BranchFree<WordBus<Fetch>>::step(e, opcode, opcodes[opcode]);
    return true;
  }
  if (m.must_stop) return false;
  lanes.note_instruction(true);
  e.store(m.s.cpu);
  bus.clock = step_slowly(m, bus.clock);
  e.load(m.s.cpu);
  if (instructions_of(bus.clock) >= kCountFrom) m.opcodes = m.console.cart.traps;
  bus.reload();
  return !(m.must_stop || e.is_jammed || instructions_of(bus.clock) >= kMaxInstructions);
}

// Clock at the end of the scanline that contains `clock`.
CULE_HD CULE_INLINE Clock line_end(Clock clock, u32 phase_cycles) {
  const u32 beam = cycles_of(clock) + phase_cycles;
  return Clock((beam / kCyclesPerLine + 1) * kCyclesPerLine - phase_cycles) << kClockShift;
}

// Registers and bus are two local variables, and no call gets their address: the compiler keeps
// both in registers of the GPU.
template <class Fetch, class Lanes>
CULE_HD CULE_NOINLINE void run_step_in_lanes(Machine<LaneAccess>& m, const LaneOpcode* opcodes,
                                             const Lanes& lanes) {
  WordBus<Fetch> bus(m, Clock(m.s.cycles) << kClockShift);
  Execution<WordBus<Fetch>> e(bus, m.s.cpu);
  CULE_ASSUME_LOCAL(&m);
  CULE_ASSUME_SHARED(opcodes);
  CULE_ASSUME_SHARED(bus.ram.base);
  bool is_running = !e.is_jammed;
  Clock end = line_end(bus.clock, m.s.phase_cycles);
  do {
    while (is_running && bus.clock < end) is_running = step_lane(m, e, opcodes, lanes);
    end += Clock(kCyclesPerLine) << kClockShift;
  } while (lanes.any(is_running));
  e.store(m.s.cpu);
  m.s.cycles = cycles_of(bus.clock);
}

// The interpreter, as LaneEngine calls it.
template <class Fetch>
struct Interpreter {
  using Access = LaneAccess;

  const LaneOpcode* opcodes;  // [256]; on the device in shared memory

  template <class Lanes>
  CULE_HD void run(Machine<LaneAccess>& m, const Lanes& lanes) const {
    run_step_in_lanes<Fetch>(m, opcodes, lanes);
  }
};

}  // namespace cule
