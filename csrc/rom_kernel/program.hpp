// rom_kernel/program.hpp: what the source of a ROM's own kernel is made of (rom_kernel/source.hpp).
//
// The source is blocks: straight stretches of the program, each instruction a call of the core's
// own functions with opcode, operand and address as constants. Lanes at the same block run it
// together and continue together while all of them agree at branches. Otherwise, and at the end of
// every scanline, all lanes meet: the lane that is furthest behind continues, with the lanes at its
// block. An instruction outside every block is interpreted. The blocks are in several functions,
// the parts, because a compiler's time grows faster than a function; all lanes are in the same
// part.
#pragma once

#include "console/step.hpp"
#include "cpu/execute.hpp"
#include "rom_kernel/limits.hpp"
#include "warp/lane_access.hpp"

namespace cule {

// The functions of the machine that are the same for all games (rom_kernel/kernel.hpp), which need
// not be compiled for each.
using LaneMachine = Machine<TeamAccess>;
CULE_HD u32 read_device(LaneMachine& m, Clock clock, u32 address, u32 open_bus);
CULE_HD u32 read_tia(LaneMachine& m, Clock clock, u32 address, u32 open_bus);
CULE_HD Clock write_device(LaneMachine& m, Clock clock, u32 address, u32 value);
CULE_HD Clock write_tia_slow(LaneMachine& m, Clock clock, u32 reg, u32 value, bool follows_write);
CULE_HD Clock step_slowly(LaneMachine& m, Clock clock);

// All lanes come, and those that ask have their logs rendered.
CULE_HD void render_logs(LaneMachine& m, bool asks);

// What an instruction can access, where the source knows more than the bus; kInput: perhaps
// registers 8 to 15 of the TIA.
enum class Reach : u8 { kAnything, kRom, kInput };

// Lanes of warp/lane_engine.hpp for a lane that has a warp to itself: votes cost nothing.
struct LoneLane {
  static constexpr bool kIsLone = true;
  u32 mask;

  CULE_HD u32 ballot(bool vote) const { return vote; }
  CULE_HD u32 all() const { return 1; }
  CULE_HD bool any(bool vote) const { return vote; }
  CULE_HD u32 lowest(u32 value) const { return value; }
  CULE_HD void note_instruction(bool) const {}
  CULE_HD void sync() const {}
  CULE_HD LoneLane only(u32) const { return *this; }
};

// One vote finds both the lane that is furthest behind and the lanes that can run with it: the beam
// is in the upper bits, the block in the lower ones. Frames without an end count as one from where
// the bits no longer suffice.
constexpr u32 kBlockBits = 13;
constexpr u32 kBlockMask = (1u << kBlockBits) - 1;
constexpr u32 kNoLane = ~0u;
constexpr u32 kAsks = 0;  // before all blocks: a lane that asks for its log to be rendered
CULE_HD CULE_INLINE u32 meeting_key(u32 beam, u32 block) {
  constexpr u32 kLast = (kNoLane >> kBlockBits) - 1;
  return (beam < kLast ? beam : kLast) << kBlockBits | block;
}

// How an instruction of a block reaches the machine. Program has Fetch, kFast and image(). What
// most instructions need is here, in registers of the GPU, and not in the machine, which is in
// memory: the clock and the end of the log.
template <class Program>
struct BlockBus {
  using Fetch = typename Program::Fetch;

  LaneMachine& m;
  u32 time;              // cycles since the step began, as in an entry of the log
  u32 instructions;      // since then
  LogEntry* next;        // for m.next
  const u32 first_beam;  // where the beam was then, in cycles
  const InterleavedRam ram;
  u32 base = 0;  // of the block's bank in the image
  u32 word = 0;  // the running instruction
  Reach reach = Reach::kAnything;
  bool must_leave = false;  // the frame may be over, or the bank may have changed
  bool asks = false;        // for the log to be rendered, before a latch is read

  CULE_HD CULE_INLINE BlockBus(LaneMachine& machine, Clock clock)
      : m(machine), first_beam(machine.step_cycle + machine.s.phase_cycles), ram(machine.ram) {
    resume(clock);
  }

  // The functions of the machine run between clock() and resume().
  CULE_HD CULE_INLINE Clock clock() const {
    m.next = next;
    return Clock(m.step_cycle + log_cycle(time)) << kClockShift | instructions;
  }
  CULE_HD CULE_INLINE void resume(Clock clock) {
    time = (cycles_of(clock) - m.step_cycle) << kLogCycleShift;
    instructions = instructions_of(clock);
    next = m.next;
  }

  CULE_HD CULE_INLINE void begin(u32 cycles) {
    charge(cycles);
    ++instructions;
  }
  CULE_HD CULE_INLINE void charge(u32 cycles) { time += cycles << kLogCycleShift; }
  CULE_HD CULE_INLINE u32 operand(u32) { return word >> 8 & 0xFF; }
  CULE_HD CULE_INLINE u32 operand_high(u32) { return word >> 16 & 0xFF; }
  CULE_HD CULE_INLINE u32 operand_word(u32) { return word >> 8 & 0xFFFF; }

  CULE_HD CULE_INLINE bool has_much_to_render() {
    return m.renderer.has_much_to_render(m, u32(next - m.log->entries));
  }

  CULE_HD CULE_INLINE u32 rom(u32 address) const {
    return Program::image(base + Fetch::index(m.s, address));
  }
  CULE_HD CULE_INLINE u32 read(u32 address, u32 open_bus) {
    if (reach == Reach::kRom) return rom(address);
    if (reach == Reach::kInput && (address & 0x1088) == 8) return read_input(address, open_bus);
    // Loaded before it is known whether it is ROM: the wait for the load hides the check.
    const u32 byte = rom(address);
    const u32 in_rom = (address & 0x1FFF) - 0x1000 - Program::kFast.begin;
    if (CULE_LIKELY(in_rom < Program::kFast.size)) return byte;
    if ((address & 0x1280) == 0x80) return ram[address & 0x7F];
    must_leave = must_leave || (address & 0x1000);
    const u32 value = read_device(m, clock(), address, open_bus);
    next = m.next;
    return value;
  }
  CULE_HD CULE_INLINE u32 read_zero_page(u32 address, u32 open_bus) {
    if (CULE_LIKELY(address & 0x80)) return ram[address & 0x7F];
    if (reach == Reach::kInput && (address & 8)) return read_input(address, open_bus);
    const u32 value = read_tia(m, clock(), address, open_bus);
    next = m.next;
    return value;
  }
  CULE_HD CULE_INLINE u32 read_stack(u32 sp, u32 open_bus) { return read_zero_page(sp, open_bus); }

  CULE_HD CULE_INLINE void write(u32 address, u32 value) {
    if ((address & 0x1280) == 0x80) {
      ram[address & 0x7F] = u8(value);
    } else if (!(address & 0x1080)) {
      write_tia(address & 0x3F, value, false);
    } else {
      resume(write_device(m, clock(), address, value));
      must_leave = must_leave || (address & 0x1000);
    }
  }
  CULE_HD CULE_INLINE void write_zero_page(u32 address, u32 value) {
    if (address & 0x80) {
      ram[address & 0x7F] = u8(value);
    } else {
      write_tia(address & 0x3F, value, false);
    }
  }
  CULE_HD CULE_INLINE void write_stack(u32 sp, u32 value, bool follows_write) {
    if (CULE_LIKELY(sp & 0x80)) {
      ram[sp & 0x7F] = u8(value);
    } else {
      write_tia(sp & 0x3F, value, follows_write);
    }
  }
  CULE_HD CULE_INLINE void transfer(Execution<BlockBus>& e, u32 last_byte) {
    if (!(e.pc & 0x1000)) m.s.data_bus = u8(last_byte);  // the next opcode fetch may see it
  }
  CULE_HD CULE_INLINE void branch_taken(Execution<BlockBus>&, u32) {}
  CULE_HD CULE_INLINE void jam(Execution<BlockBus>&) {}  // jams have no block

 private:
  // In quiet time: the log is not full, and the length of the frame does not end it.
  CULE_HD CULE_INLINE void append(u32 reg, u32 value) {
    *next++ = time + pack_log_entry(0, reg, value);
  }
  CULE_HD CULE_INLINE u32 read_input(u32 address, u32 open_bus) {
    append(kBeamMark, 0);
    return (open_bus & 0x3F) | m.read_input(address & 0xF, m.step_cycle + log_cycle(time));
  }
  CULE_HD CULE_INLINE void write_tia(u32 reg, u32 value, bool follows_write) {
    if (reg >= WSYNC) {
      append(reg, value);
      if (reg == WSYNC && !follows_write) wait_for_line();
      return;
    }
    resume(write_tia_slow(m, clock(), reg, value, follows_write));
    must_leave = must_leave || m.must_stop;
  }
  // The stall of WSYNC.
  CULE_HD CULE_INLINE void wait_for_line() {
    const u32 into_line = (first_beam + log_cycle(time)) % kCyclesPerLine;
    if (into_line != 0) charge(kCyclesPerLine - into_line);
  }
};

// What the skip of an idle loop moves.
struct IdleBus {
  LaneMachine& m;
  Clock clock;
};

// A lane of a compiled program between blocks. Lanes: as in warp/lane_engine.hpp.
template <class Program, class Lanes>
struct BlockRun {
  using Bus = BlockBus<Program>;
  using Cpu = Execution<Bus>;

  Lanes all;
  Lanes together;   // lanes that run the same block
  u32 limit = 0;    // no block begins at or after this time,
  u32 full = 0;     // nor with the end of the log at or after it, in the lower bits of its address
  u32 meeting = 0;  // the block that those run, in all lanes; 0: none
  bool is_running;

  CULE_HD CULE_INLINE BlockRun(const Lanes& lanes, bool runs)
      : all(lanes), together(lanes), is_running(runs) {}

  // All lanes meet. Returns the number of the block that this lane runs now, kWaits if it runs none
  // and meets again, kDone if no lane runs any more. The blocks follow in one place, so lanes
  // converge again whatever the compiler makes of the blocks.
  static constexpr u32 kWaits = 0;
  static constexpr u32 kDone = kBlockMask;
  CULE_HD CULE_INLINE u32 next_block(Cpu& e, Bus& bus) {
    constexpr u32 kInterpreted = kDone;
    LaneMachine& m = bus.m;
    all.sync();
    if (bus.must_leave) {
      is_running = is_running && !m.must_stop;
      bus.must_leave = false;
    }
    const u32 block = find_block(e, bus);
    const u32 beam = bus.first_beam + log_cycle(bus.time);
    const u32 here = block ? block : kInterpreted;
    const u32 key = bus.asks ? kAsks : meeting_key(beam, here);
    const u32 first = all.lowest(is_running ? key : kNoLane);
    meeting = (first & kBlockMask) == kInterpreted ? kWaits : first & kBlockMask;
    if (first == kNoLane) return meeting = kDone;
    if (!Lanes::kIsLone && first == kAsks) {
      bus.clock();
      render_logs(m, bus.asks);
      bus.asks = false;
      return meeting = kWaits;
    }
    const bool is_here = is_running && (first & kInterpreted) == here;
    together = all.only(all.ballot(is_here));
    if (!is_here) return kWaits;
    if (block) return block;
    all.note_instruction(true);
    e.store(m.s.cpu);
    bus.resume(step_slowly(m, bus.clock()));
    e.load(m.s.cpu);
    is_running = !(m.must_stop || e.is_jammed || bus.instructions >= kMaxInstructions);
    return kWaits;
  }

  // One instruction of a block.
  template <u32 kOpcode>
  CULE_HD CULE_INLINE void run(Cpu& e, Bus& bus, u32 pc, u32 word, Reach reach) const {
    together.note_instruction(false);
    e.pc = pc;
    bus.word = word;
    bus.reach = reach;
    e.template execute<kOpcode>();
  }

  // Whether one of the lanes must leave the block.
  CULE_HD CULE_INLINE bool must_meet(const Bus& bus) const {
    return together.ballot(bus.must_leave) != 0;
  }
  // Before a latch is read: whether all lanes must meet, because one asks for its log to be
  // rendered.
  CULE_HD CULE_INLINE bool must_render(Bus& bus) const {
    if (bus.m.renderer.team.is_lone) return false;
    bus.asks = bus.has_much_to_render();
    return together.ballot(bus.asks) != 0;
  }
  CULE_HD CULE_INLINE bool is_late(const Bus& bus) const {
    return together.ballot(bus.time >= limit || is_full(bus)) != 0;
  }

  // A branch. kIdle is the instruction at its target if that may be an idle loop, else 0.
  enum Way : u32 { kStays, kGoes, kParts };
  template <u32 kOpcode, u32 kIdle>
  CULE_HD CULE_INLINE Way branch(Cpu& e, Bus& bus, u32 pc, u32 word) const {
    together.note_instruction(false);
    const u32 offset = word >> 8 & 0xFF;
    const u32 next = pc + 2;
    const u32 target = (next + (offset ^ 0x80) - 0x80) & 0xFFFF;
    const bool is_taken = e.takes_branch(kOpcode);
    bus.begin(2);
    if (is_taken) bus.charge(((target ^ next) & 0xFF00) ? 2 : 1);
    e.pc = is_taken ? target : next;
    if (kIdle != 0 && is_taken) {
      IdleBus idle{bus.m, bus.clock()};
      skip_idle_loop(e, idle, kIdle, kOpcode, offset);
      bus.resume(idle.clock);
    }
    const u32 votes = together.ballot(is_taken);
    return votes == 0 ? kStays : votes == together.all() ? kGoes : kParts;
  }

 private:
  // The block at the program counter if it may begin now, else 0.
  CULE_HD CULE_INLINE u32 find_block(const Cpu& e, const Bus& bus) {
    using Fetch = typename Program::Fetch;
    const LaneMachine& m = bus.m;
    if (!is_running || !(e.pc & 0x1000)) return 0;
    const u32 entry = Program::block_at(Fetch::base(m.s) + Fetch::index(m.s, e.pc));
    if ((entry >> 16) != (e.pc & Program::kWindow)) return 0;
    const u32 end = cycles_of(m.end_clock);
    const u32 quiet_end = end < m.step_cycle + kQuietCycles ? 0 : end - m.step_cycle - kQuietCycles;
    limit = quiet_end << kLogCycleShift;
    full = u32(reinterpret_cast<u64>(m.log_end)) - kQuietEntries * u32(sizeof(LogEntry));
    return bus.time < limit && !is_full(bus) ? entry & 0xFFFF : 0;
  }
  CULE_HD CULE_INLINE bool is_full(const Bus& bus) const {
    return i32(u32(reinterpret_cast<u64>(bus.next)) - full) >= 0;
  }
};

// A lane between two parts; its registers are in the machine.
template <class Program, class Lanes>
struct LaneState {
  BlockRun<Program, Lanes> run;
  Clock clock;
  u32 block;  // that it runs next, or BlockRun::kWaits
};

// Runs blocks until all lanes meet at a block of another part. Part has the numbers of its blocks,
// kFirst to kLast, and run_block(). Bus and registers are two local variables, as in
// warp/interpreter.hpp.
template <class Program, class Part, class Lanes>
CULE_HD CULE_INLINE void run_part(LaneMachine& m, LaneState<Program, Lanes>& state) {
  using Run = BlockRun<Program, Lanes>;
  CULE_ASSUME_LOCAL(&m);
  CULE_ASSUME_LOCAL(&state);
  Run r = state.run;
  BlockBus<Program> bus(m, state.clock);
  Execution<BlockBus<Program>> e(bus, m.s.cpu);
  CULE_ASSUME_SHARED(bus.ram.base);
  u32 block = state.block;
  do {
    if (block != Run::kWaits) Part::run_block(block, r, e, bus);
    block = r.next_block(e, bus);
  } while (r.meeting == Run::kWaits || r.meeting - Part::kFirst <= Part::kLast - Part::kFirst);
  e.store(m.s.cpu);
  state = {r, bus.clock(), block};
}

// A frame step of a lane.
template <class Program, class Lanes>
CULE_HD CULE_INLINE void run_program(LaneMachine& m, const Lanes& lanes) {
  using Run = BlockRun<Program, Lanes>;
  const Clock begin = Clock(m.s.cycles) << kClockShift;
  LaneState<Program, Lanes> state{Run(lanes, !m.s.cpu.is_jammed), begin, Run::kWaits};
  do Program::run_part(state.run.meeting, m, state);
  while (state.run.meeting != Run::kDone);
  m.s.cycles = cycles_of(state.clock);
}

}  // namespace cule
