// console/lanes.hpp: the instruction loop of consoles that run side by side in the lanes of a warp.
//
// A warp executes one thing at a time for the lanes that want it, so what matters is that lanes are
// at the same place in the program. Schedule says how they are kept there; every one of them goes
// by the beam, because lanes that are at the same place on the screen are mostly at the same place
// in the program. Results depend neither on the schedule nor on who else is in the warp.
//
// Lanes stands for the lanes that take part. It has
//   ballot(bool)   mask of the lanes that say yes; all lanes of the group call it together
//   only(mask)     the group of those lanes
//   any(bool)      whether one of the group says yes; all call it together
//   lowest(u32)    the least of the numbers that they give; all call it together
//   executes(u32)  told of every instruction: its opcode, or kSlowOpcode; for counting
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

// When the lanes of a warp wait for each other, and which of them run meanwhile.
enum class Schedule : u32 {
  kLine,         // every lane runs to the end of the scan line, then waits for all
  kInstruction,  // the lane furthest behind, and those at its pc, run one instruction
  kBlock,        // these run on to a transfer of control or to the end of the line
};
constexpr u32 kSchedules = 3;

constexpr u32 kSlowOpcode = 0x100;

// The processor of one lane.
template <class Fetch, class Access>
struct LaneProcessor {
  using Bus = WordBus<Fetch, Access>;

  Machine<Access>& m;
  const u32* micro_ops;
  Bus bus;
  Execution<Bus> e;
  bool is_running;

  CULE_HD CULE_INLINE LaneProcessor(Machine<Access>& machine, const u32* ops)
      : m(machine),
        micro_ops(ops),
        bus(machine, Clock(machine.s.cycles) << kClockShift),
        e(bus, machine.s.cpu),
        is_running(!e.is_jammed) {}

  // Runs one instruction. True: the one that follows it in memory is next.
  template <class Lanes>
  CULE_HD CULE_INLINE bool step(const Lanes& lanes) {
    if (CULE_LIKELY(bus.fetch(e.pc))) {
      const u32 opcode = bus.word & 0xFF;
      const u32 op = micro_ops[opcode];
      lanes.executes(opcode);
      Staged<Bus>::step(e, opcode, op);
      return !is_transfer(micro_function(op));
    }
    if (m.must_stop) {
      is_running = false;
      return false;
    }
    lanes.executes(kSlowOpcode);
    e.store(m.s.cpu);
    bus.clock = step_staged_slowly(m, bus.clock, micro_ops);
    e.load(m.s.cpu);
    if (instructions_of(bus.clock) >= kCountFrom) m.opcodes = m.console.cart.traps;
    bus.reload();
    is_running = !(m.must_stop || e.is_jammed || instructions_of(bus.clock) >= kMaxInstructions);
    return false;
  }

  // Cycles from the first line of the frame on.
  CULE_HD CULE_INLINE u32 beam() const { return cycles_of(bus.clock) + m.s.phase_cycles; }

  // Clock at which the line that the beam is in ends.
  CULE_HD CULE_INLINE Clock line_end() const {
    return Clock((beam() / kCyclesPerLine + 1) * kCyclesPerLine - m.s.phase_cycles) << kClockShift;
  }

  CULE_HD CULE_INLINE void finish() {
    e.store(m.s.cpu);
    m.s.cycles = cycles_of(bus.clock);
  }
};

template <class Fetch, class Access, class Lanes>
CULE_HD CULE_INLINE void run_lines(LaneProcessor<Fetch, Access>& p, const Lanes& lanes) {
  Clock line_end = p.line_end();
  do {
    while (p.is_running && p.bus.clock < line_end) p.step(lanes);
    line_end += Clock(kCyclesPerLine) << kClockShift;
  } while (lanes.any(p.is_running));
}

// One vote finds both the lane that is furthest behind and the lanes that can run with it: the beam
// in the upper bits, the address that matters in the lower ones.
template <Schedule kSchedule, class Fetch, class Access, class Lanes>
CULE_HD CULE_INLINE void run_furthest_behind(LaneProcessor<Fetch, Access>& p, const Lanes& lanes) {
  constexpr u32 kAddressBits = 13;
  constexpr u32 kAddress = (1u << kAddressBits) - 1;
  constexpr u32 kNobody = ~0u;
  for (;;) {
    const u32 key = p.is_running ? p.beam() << kAddressBits | (p.e.pc & kAddress) : kNobody;
    const u32 first = lanes.lowest(key);
    if (first == kNobody) return;
    if (!p.is_running || ((key ^ first) & kAddress)) continue;
    if (kSchedule == Schedule::kInstruction) {
      p.step(lanes);
      continue;
    }
    const Clock line_end = p.line_end();
    while (p.step(lanes) && p.bus.clock < line_end) {
    }
  }
}

template <Schedule kSchedule, class Fetch, class Access, class Lanes>
CULE_HD CULE_NOINLINE void run_step_in_lanes(Machine<Access>& m, const u32* micro_ops,
                                             const Lanes& lanes) {
  LaneProcessor<Fetch, Access> p(m, micro_ops);
  if (kSchedule == Schedule::kLine) {
    run_lines(p, lanes);
  } else {
    run_furthest_behind<kSchedule>(p, lanes);
  }
  p.finish();
}

// Runs frame steps in a lane, in step with the others (Engine of BasicAle).
template <class Fetch, class Lanes, Schedule kSchedule>
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
    run_step_in_lanes<kSchedule, Fetch>(m, micro_ops, emulating);
    for (u32 i = 0; i < kRamBytes; ++i) m.s.ram[i] = working_ram[i];
  }
};

}  // namespace cule
