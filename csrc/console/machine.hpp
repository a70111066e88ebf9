// console/machine.hpp: the running frame step: what the CPU can reach and what it records.
//
// The wiring of the console: an address selects the cartridge (bit 12), the TIA, the RIOT RAM or
// the RIOT registers (cpu/NOTES.md 3). TIA accesses are logged; only WSYNC, VSYNC, VBLANK and the
// line limit act on the program at once. A read of a collision register renders the log so far.
#pragma once

#include "console/access.hpp"

namespace cule {

// Cycle counter and instruction count of the step in one word: cycles << 16 | instructions.
using Clock = u64;
constexpr u32 kClockShift = 16;
CULE_HD CULE_INLINE constexpr u32 cycles_of(Clock clock) { return u32(clock >> kClockShift); }
CULE_HD CULE_INLINE constexpr u32 instructions_of(Clock clock) { return u32(clock & 0xFFFF); }

template <class Access>
struct Machine {
  using Ram = typename Access::Ram;

  ConsoleState& s;
  const Console& console;
  const Ram ram;
  TiaWriteLog* const log;
  LogEntry* next;  // where the next entry goes
  LogEntry* const log_end;
  Clock end_clock;         // a TIA write from here on is beyond the last line and ends the frame
  u32 step_cycle;          // counter at the start of this frame step
  u32 rendered = 0;        // log entries rendered
  bool must_stop = false;  // the frame is over after this instruction
  FastRegion fast;         // of the cartridge
  const u8* opcodes;       // image to fetch opcodes from; the traps once the loop must be left
  u32 charge_ends[4];      // with Access::kForeseesCharges: charge_end() of each paddle
  typename Access::Renderer renderer;

  template <class Engine>
  CULE_HD Machine(const Console& c, const Engine& engine)
      : s(c.s),
        console(c),
        ram(engine.ram(c.s)),
        log(&begin_log(c, c.s.cycles)),
        next(log->entries),
        log_end(log->entries + c.memory.log_capacity),
        step_cycle(c.s.cycles),
        fast(fast_region(c.cart.type)),
        opcodes(c.cart.opcodes),
        renderer(c, engine) {
    const u32 end_cycle = (max_line(c.properties.format) + 1) * kCyclesPerLine - s.phase_cycles;
    end_clock = Clock(end_cycle) << kClockShift;
    find_charge_ends();
  }

  CULE_HD CULE_INLINE void record(Clock clock, u32 reg, u32 value) {
    if (CULE_UNLIKELY(next == log_end)) spill();
    append(clock, reg, value);
  }
  // Where the log is known to have room.
  CULE_HD CULE_INLINE void append(Clock clock, u32 reg, u32 value) {
    const u32 kept = value & register_row(reg).kept;
    *next++ = pack_log_entry(cycles_of(clock) - step_cycle, reg, kept);
  }

  // Brings TIA state and latches up to the last access.
  CULE_HD CULE_INLINE void render(bool is_end = false) {
    log->size = u32(next - log->entries);
    renderer.render(*this, is_end);
    rendered = log->size;
  }

  // The log is full: paints what it holds and continues with an empty one.
  CULE_HD CULE_NOINLINE void spill() {
    render();
    renderer.before_spill(*this);
    paint_part(console, *log);
    s.picture.is_painted = 1;
    begin_log(console, step_cycle);
    next = log->entries;
    rendered = 0;
  }

  // Returns the clock, which WSYNC moves to the start of the next line.
  CULE_HD CULE_INLINE Clock write_tia(Clock clock, u32 reg, u32 value, bool follows_write) {
    if (CULE_UNLIKELY(reg <= WSYNC || clock >= end_clock || next == log_end)) {
      return write_tia_slow(clock, reg, value, follows_write);
    }
    append(clock, reg, value);
    return clock;
  }

  CULE_HD CULE_NOINLINE Clock write_tia_slow(Clock clock, u32 reg, u32 value, bool follows_write) {
    record(clock, reg, value);
    if (clock >= end_clock) end_frame();
    return reg <= WSYNC ? write_sync(clock, reg, value, follows_write) : clock;
  }

  // The stall of WSYNC.
  CULE_HD CULE_INLINE Clock next_line(Clock clock) const {
    const u32 into_line = (cycles_of(clock) + s.phase_cycles) % kCyclesPerLine;
    return into_line ? clock + (Clock(kCyclesPerLine - into_line) << kClockShift) : clock;
  }

  CULE_HD CULE_DEVICE_NOINLINE u32 read_tia(Clock clock, u32 address, u32 open_bus) {
    CULE_ASSUME_LOCAL(this);
    record(clock, kBeamMark, 0);
    const u32 reg = address & 0x0F;
    open_bus &= 0x3F;
    return open_bus | (reg < 8 ? read_latches(reg) : read_input(reg, cycles_of(clock)));
  }
  // The driven bits of registers 8 to 15: paddles, fire buttons, nothing.
  CULE_HD CULE_INLINE u32 read_input(u32 reg, u32 cycle) const {
    if (reg < 12) return is_charged(reg - 8, cycle) ? 0x80 : 0;
    if (reg < 14) return s.inputs.fire[reg - 12];
    return 0;
  }

  CULE_HD CULE_NOINLINE u32 read_riot(u32 address, u32 cycle) {
    switch (address & 7) {
      case 0:
        return s.inputs.swcha;
      case 1:
        return s.swacnt;
      case 2:
        return s.inputs.swchb;
      case 3:
        return 0;
      case 4:
      case 6:
        return read_intim(s.timer, cycle);
      default:
        return read_instat(s.timer, cycle);
    }
  }

  CULE_HD CULE_NOINLINE void write_riot(u32 address, u32 value, u32 cycle) {
    const u32 reg = address & 7;
    if (reg == 1) s.swacnt = u8(value);
    if (reg >= 4 && (address & 0x10)) set_timer(s.timer, reg & 3, value, cycle);
  }

  // Slow path: every address outside RAM and plain ROM. `open_bus`: byte last on the bus.
  CULE_HD CULE_NOINLINE u32 read_device(Clock clock, u32 address, u32 open_bus) {
    CULE_ASSUME_LOCAL(this);
    if (address & 0x1000) return read_cart(console.cart, s.cart, address, cycles_of(clock));
    if (!(address & 0x80)) return read_tia(clock, address, open_bus);
    if (!(address & 0x200)) return ram[address & 0x7F];
    return read_riot(address, cycles_of(clock));
  }

  CULE_HD CULE_NOINLINE Clock write_device(Clock clock, u32 address, u32 value,
                                           bool follows_write) {
    if (address & 0x1000) {
      write_cart(console.cart, s.cart, address, value);
    } else if (!(address & 0x80)) {
      return write_tia_slow(clock, address & 0x3F, value, follows_write);
    } else if (!(address & 0x200)) {
      ram[address & 0x7F] = u8(value);
    } else {
      write_riot(address, value, cycles_of(clock));
    }
    return clock;
  }

 private:
  CULE_HD CULE_DEVICE_NOINLINE u32 read_latches(u32 reg) {
    CULE_ASSUME_LOCAL(this);
    return (renderer.read_latches(*this, reg) >> (2 * reg) & 3u) << 6;
  }

  CULE_HD void end_frame() {
    s.is_unfinished = 0;
    must_stop = true;
    opcodes = console.cart.traps;
  }

  CULE_HD CULE_NOINLINE Clock write_sync(Clock clock, u32 reg, u32 value, bool follows_write) {
    const u32 cycle = cycles_of(clock);
    if (reg == WSYNC) {
      return follows_write ? clock : next_line(clock);
    }
    if (reg == VBLANK) {
      if (s.vblank & ~value & 0x80) s.dump_cycle = i32(cycle);
      s.vblank = u8(value);
      find_charge_ends();
      return clock;
    }
    const i32 now = i32(clocks_from_cycles(cycle));
    if (value & 2) {
      s.vsync_finish_clock = i32(u32(now) + kClocksPerLine);
    } else if (now >= s.vsync_finish_clock) {
      s.vsync_finish_clock = kNoVsyncFinish;
      end_frame();
    }
    return clock;
  }

  // Cycle after which paddle capacitor n is charged, at most ~0u, which no step reaches. Compared
  // as unsigned 32-bit values (tia/NOTES.md 11.2). Without branches, because a program that polls
  // several capacitors would mispredict them.
  CULE_HD CULE_INLINE u32 charge_end(u32 n) const {
    const i32 r = s.inputs.resistance[n];
    const u32 end = u32(s.dump_cycle) + u32(u64(u32(r)) * 119 / 6250);
    const bool is_open = (r == kNoPaddle) | ((s.vblank & 0x80) != 0);
    return r == 0 ? 0 : is_open ? ~0u : end;
  }
  CULE_HD CULE_INLINE void find_charge_ends() {
    if constexpr (Access::kForeseesCharges) {
      for (u32 n = 0; n < 4; ++n) charge_ends[n] = charge_end(n);
    }
  }
  CULE_HD CULE_INLINE bool is_charged(u32 n, u32 cycle) const {
    if constexpr (Access::kForeseesCharges) return cycle > charge_ends[n];
    return cycle > charge_end(n);
  }
};

}  // namespace cule
