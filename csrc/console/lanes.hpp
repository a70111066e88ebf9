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
//   part(mask)     some of the group's lanes, which vote among themselves for a while
//   everyone()     what ballot() gives when all say yes
//   sync()         waits for all
//   any(bool)      whether one of the group says yes; all call it together
//   lowest(u32)    the least of the numbers that they give; all call it together
//   executes(u32)  told of every instruction: its opcode, or a code below; for counting
#pragma once

#include "console/word_bus.hpp"
#include "cpu/branch_free.hpp"

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
  kBranchFree,   // as kLine, and lanes do not part over their opcodes
};
constexpr u32 kSchedules = 4;

constexpr u32 kSlowOpcode = 0x100;
constexpr u32 kCommonOpcode = 0x101;  // one of those that do not part in a branch-free step

constexpr u32 kNumMicroOps = 256;

// Behind the micro-operations a branch-free step has a table of its own.
CULE_HD constexpr u32 table_bytes(Schedule schedule) {
  return kNumMicroOps *
         u32(schedule == Schedule::kBranchFree ? sizeof(u32) + sizeof(Selects) : sizeof(u32));
}

// Runs one instruction of a lane. True: the one that follows it in memory is next.
template <Schedule kSchedule, class Bus, class Access, class Lanes>
CULE_HD CULE_INLINE bool step_lane(Machine<Access>& m, Execution<Bus>& e, bool& is_running,
                                   const u32* micro_ops, const Lanes& lanes) {
  Bus& bus = e.bus;
  if (CULE_LIKELY(bus.fetch(e.pc))) {
    const u32 opcode = bus.word & 0xFF;
    if constexpr (kSchedule == Schedule::kBranchFree) {
      const Selects select = reinterpret_cast<const Selects*>(micro_ops + kNumMicroOps)[opcode];
      lanes.executes(BranchFree<Bus>::is_rare(e, select) ? opcode : kCommonOpcode);
      BranchFree<Bus>::step(e, opcode, select, micro_ops);
      return true;
    }
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

// Clock at which the line ends that the beam is in.
CULE_HD CULE_INLINE Clock line_end(Clock clock, u32 phase_cycles) {
  const u32 beam = cycles_of(clock) + phase_cycles;
  return Clock((beam / kCyclesPerLine + 1) * kCyclesPerLine - phase_cycles) << kClockShift;
}

template <Schedule kSchedule, class Bus, class Access, class Lanes>
CULE_HD CULE_INLINE void run_lines(Machine<Access>& m, Execution<Bus>& e, const u32* micro_ops,
                                   const Lanes& lanes) {
  bool is_running = !e.is_jammed;
  Clock end = line_end(e.bus.clock, m.s.phase_cycles);
  do {
    while (is_running && e.bus.clock < end)
      step_lane<kSchedule>(m, e, is_running, micro_ops, lanes);
    end += Clock(kCyclesPerLine) << kClockShift;
  } while (lanes.any(is_running));
}

// One vote finds both the lane that is furthest behind and the lanes that can run with it: the beam
// in the upper bits, the place in the lower ones. Frames without an end count as one from where the
// bits no longer suffice.
constexpr u32 kPlaceBits = 13;
constexpr u32 kPlace = (1u << kPlaceBits) - 1;
constexpr u32 kNobody = ~0u;
CULE_HD CULE_INLINE u32 meeting_key(u32 beam, u32 place) {
  constexpr u32 kLast = (kNobody >> kPlaceBits) - 1;
  return (beam < kLast ? beam : kLast) << kPlaceBits | place;
}

template <Schedule kSchedule, class Bus, class Access, class Lanes>
CULE_HD CULE_INLINE void run_furthest_behind(Machine<Access>& m, Execution<Bus>& e,
                                             const u32* micro_ops, const Lanes& lanes) {
  const u32 phase_cycles = m.s.phase_cycles;
  bool is_running = !e.is_jammed;
  for (;;) {
    const u32 beam = cycles_of(e.bus.clock) + phase_cycles;
    const u32 key = is_running ? meeting_key(beam, e.pc & kPlace) : kNobody;
    const u32 first = lanes.lowest(key);
    if (first == kNobody) return;
    if (!is_running || ((key ^ first) & kPlace)) continue;
    if (kSchedule == Schedule::kInstruction) {
      step_lane<kSchedule>(m, e, is_running, micro_ops, lanes);
      continue;
    }
    const Clock end = line_end(e.bus.clock, phase_cycles);
    while (step_lane<kSchedule>(m, e, is_running, micro_ops, lanes) && e.bus.clock < end) {
    }
  }
}

// The processor's registers and the bus are two variables, and neither is ever handed to a call: so
// the compiler keeps all of them in registers of the machine.
template <Schedule kSchedule, class Fetch, class Access, class Lanes>
CULE_HD CULE_NOINLINE void run_step_in_lanes(Machine<Access>& m, const u32* micro_ops,
                                             const Lanes& lanes) {
  using Bus = WordBus<Fetch, Access>;
  Bus bus(m, Clock(m.s.cycles) << kClockShift);
  Execution<Bus> e(bus, m.s.cpu);
  CULE_ASSUME_SHARED(micro_ops);
  CULE_ASSUME_SHARED(bus.ram.base);
  if (kSchedule == Schedule::kLine || kSchedule == Schedule::kBranchFree) {
    run_lines<kSchedule>(m, e, micro_ops, lanes);
  } else {
    run_furthest_behind<kSchedule>(m, e, micro_ops, lanes);
  }
  e.store(m.s.cpu);
  m.s.cycles = cycles_of(bus.clock);
}

// A step by interpretation, as LaneEngine takes it.
template <class Fetch, Schedule kHow>
struct Interpreted {
  static constexpr Schedule kSchedule = kHow;

  template <class Lanes>
  CULE_HD static void run(Machine<LaneAccess>& m, const u32* micro_ops, const Lanes& lanes) {
    run_step_in_lanes<kSchedule, Fetch>(m, micro_ops, lanes);
  }
};

// Runs frame steps in a lane, in step with the others (Engine of BasicAle). Program: who executes
// them.
template <class Program, class Lanes>
struct LaneEngine {
  using Access = LaneAccess;

  InterleavedRam working_ram;
  const u32* micro_ops;  // MicroOps::op, and behind it what the schedule has besides
  Lanes all;             // who steps at all
  Lanes emulating;       // who emulates the running frame

  CULE_HD InterleavedRam ram(ConsoleState&) const { return working_ram; }

  CULE_HD bool align(bool is_running, bool emulates) {
    emulating = all.only(all.ballot(emulates));
    return all.any(is_running);
  }

  CULE_HD void run(Machine<LaneAccess>& m) const {
    for (u32 i = 0; i < kRamBytes; ++i) working_ram[i] = m.s.ram[i];
    Program::run(m, micro_ops, emulating);
    for (u32 i = 0; i < kRamBytes; ++i) m.s.ram[i] = working_ram[i];
  }
};

}  // namespace cule
