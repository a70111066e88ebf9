// console/machine.hpp: the running frame step: what the CPU can reach and what it records.
//
// The wiring of the console: an address goes to the cartridge (bit 12), the TIA, the RIOT RAM or
// the RIOT registers (cpu/NOTES.md 3). TIA accesses are logged; only WSYNC, VSYNC, VBLANK and the
// line limit act on the program. A read of a collision register first brings the replay of the log
// up to date.
#pragma once

#include "console/latches.hpp"

namespace cule {

// Cycle counter and instruction count of the step in one word: cycles << 16 | instructions.
using Clock = u64;
constexpr u32 kClockShift = 16;
CULE_HD CULE_INLINE constexpr u32 cycles_of(Clock clock) { return u32(clock >> kClockShift); }
CULE_HD CULE_INLINE constexpr u32 instructions_of(Clock clock) { return u32(clock & 0xFFFF); }

// In place of a painter, where nothing is drawn.
struct Nothing {
  CULE_HD explicit Nothing(const Canvas&) {}
};

template <class Access>
struct Machine {
  using Ram = typename Access::Ram;

  ConsoleState& s;
  const Console& console;
  const Ram ram;
  TiaWriteLog* log;
  LogEntry* next;  // where the next entry goes
  LogEntry* log_end;
  Shapes shapes;
  CollisionSink collisions;
  std::conditional_t<Access::kObserves, PaintSink<false>, Nothing> painter;  // of the observation
  LineCache* lines = nullptr;  // on the host, if it is used in this step
  u32 rendered = 0;            // log entries the replay has consumed
  u32 step_cycle;              // counter at the start of this frame step
  Clock end_clock;         // a TIA write from here on is beyond the last line and ends the frame
  bool must_stop = false;  // the frame is over after this instruction
  FastRegion fast;         // of the cartridge
  const u8* opcodes;       // image to fetch opcodes from; the traps once the loop must be left
  // Host: cycles after which the paddles' capacitors are charged (charge_end()).
  u32 charge_ends[4];

  CULE_HD Machine(const Console& c, Ram r)
      : s(c.s),
        console(c),
        ram(r),
        log(&c.memory.logs[c.s.picture.recording_slot]),
        painter(observation_canvas(c)) {
    step_cycle = s.cycles;
    const u32 end_cycle = (max_line(c.properties.format) + 1) * kCyclesPerLine - s.phase_cycles;
    end_clock = Clock(end_cycle) << kClockShift;
    fast = fast_region(c.cart.type);
    opcodes = c.cart.opcodes;
    shapes.reset();
    next = log->entries;
    log_end = next + kLogCapacity;
    begin_log(*log, s, step_cycle);
    if constexpr (Access::kObserves) {
      collisions.wanted = choose_latches(c.memory.watch);
      s.tia.are_latches_partial = collisions.wanted != kAllLatches;
      begin_lines();
      find_charge_ends();
    }
  }

  CULE_HD CULE_INLINE void record(Clock clock, u32 reg, u32 value) {
    if (CULE_UNLIKELY(next == log_end)) spill();
    append(clock, reg, value);
  }
  // Where the log is known to have room.
  CULE_HD CULE_INLINE void append(Clock clock, u32 reg, u32 value) {
    *next++ = pack_log_entry(cycles_of(clock) - step_cycle, reg, value);
  }

  // Brings collisions and TIA state up to the last access, and draws the observation so far.
  CULE_HD void render() {
    log->size = u32(next - log->entries);
    render_log();
    rendered = log->size;
  }

  // The frame step is over, its observation drawn to the end or not.
  CULE_HD void finish_lines(bool is_drawn) {
    if constexpr (Access::kObserves) {
      if (lines != nullptr) lines->end_frame(is_drawn, log->base_clock);
    }
  }

  // The frame step is over. has_log: this log stays as long as its picture.
  CULE_HD void finish_latches(bool has_log) {
    if constexpr (Access::kObserves) {
      LatchWatch* watch = console.memory.watch;
      if (watch == nullptr) return;
      const bool was_lazy = s.tia.are_latches_partial;
      const bool is_missing = was_lazy && !(has_log && collisions.has_seen_clear);
      if (is_missing) record_all_latches();
      age_watch(*watch, was_lazy, is_missing);
    }
  }

  // The log is full: draw what it holds and go on with an empty one.
  CULE_HD CULE_NOINLINE void spill() {
    render();
    record_all_latches();
    stop_caching();
    paint_part(console, *log);
    s.picture.is_painted = 1;
    begin_log(*log, s, step_cycle);
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

  CULE_HD CULE_NOINLINE u32 read_tia(Clock clock, u32 address, u32 open_bus) {
    record(clock, kBeamMark, 0);
    const u32 reg = address & 0x0F;
    open_bus &= 0x3F;
    if (reg < 8) return open_bus | read_latches(reg);
    if (reg < 12) return open_bus | (is_charged(reg - 8, cycles_of(clock)) ? 0x80 : 0);
    if (reg < 14) return open_bus | s.inputs.fire[reg - 12];
    return open_bus;
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

  // Anything but the fast part of the cartridge and RAM. `open_bus`: byte last on the bus.
  CULE_HD CULE_NOINLINE u32 read_device(Clock clock, u32 address, u32 open_bus) {
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
  // The program has read a register: from now on its latches are recorded.
  CULE_HD CULE_INLINE void watch_register(LatchWatch& watch, u32 reg) {
    const u32 latches = latches_of_register(reg);
    watch.recent = u16(watch.recent | latches);
    watch.watched = u16(watch.watched | latches);
    if (CULE_LIKELY(!(latches & ~collisions.wanted))) return;
    s.tia.collisions = all_latches(console, *log, log->size);
    record_latches(collisions.wanted | latches);
  }

  CULE_HD CULE_NOINLINE u32 read_latches(u32 reg) {
    render();
    if constexpr (Access::kObserves) {
      if (console.memory.watch != nullptr) watch_register(*console.memory.watch, reg);
    }
    return (s.tia.collisions >> (2 * reg) & 3u) << 6;
  }

  // What has not been recorded is made up, and from now on everything is recorded.
  CULE_HD CULE_INLINE void record_all_latches() {
    if constexpr (Access::kObserves) {
      if (!s.tia.are_latches_partial) return;
      s.tia.collisions = all_latches(console, *log, log->size);
      s.tia.are_latches_partial = 0;
      record_latches(kAllLatches);
    }
  }

  CULE_HD CULE_INLINE void record_latches(u32 latches) {
    collisions.wanted = latches;
    collisions.full_line_version = 0;
    stop_caching();
  }

  CULE_HD CULE_INLINE void stop_caching() {
    if constexpr (Access::kObserves) {
      if (lines != nullptr) lines->forget();
      lines = nullptr;
    }
  }

  // Lines are cached with their pixels: of no use where those are wanted elsewhere.
  void begin_lines() {
    const Observation* wanted = console.observation;
    lines = console.memory.lines;
    if (lines == nullptr) return;
    if (wanted != nullptr && wanted->rows != lines->next_frame().rows) {
      lines->forget();
      lines = nullptr;
    } else if (!lines->begin_frame(wanted != nullptr, collisions.wanted, picture_window(console))) {
      lines = nullptr;
    }
  }

  CULE_HD CULE_INLINE void render_log() {
    if constexpr (Access::kObserves) {
      if (console.observation != nullptr) {
        ObservingSink sink{collisions, painter};
        render_into(sink);
        return;
      }
    }
    render_into(collisions);
  }

  template <class Sink>
  CULE_HD CULE_NOINLINE void render_into(Sink& sink) {
    LogRenderer<Sink, TiaState, Beam> r{
        s.tia, s.beam, shapes, sink, picture_window(console), console.properties.hmove_blanks != 0};
    if constexpr (Access::kObserves) {
      if (lines != nullptr) {
        CachedLogRenderer(r, *lines, log->base_clock).run(log->entries, rendered, log->size);
      } else {
        r.run(log->entries, rendered, log->size, log->base_clock);
      }
    } else {
      r.run(log->entries, rendered, log->size, log->base_clock);
    }
    r.flush(log->size);
    s.tia = r.s;
    s.beam = r.beam;
  }

  CULE_HD static Canvas observation_canvas(const Console& c) {
    if (c.observation == nullptr) return Canvas{};
    return {c.observation->rows, c.s.first_line, c.properties.height, c.observation->map};
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
      if constexpr (Access::kObserves) find_charge_ends();
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
  // as unsigned 32-bit values: NOTES.md of tia, 11.2. Without branches: a program that polls
  // several capacitors would never let them be foreseen.
  CULE_HD CULE_INLINE u32 charge_end(u32 n) const {
    const i32 r = s.inputs.resistance[n];
    const u32 end = u32(s.dump_cycle) + u32(u64(u32(r)) * 119 / 6250);
    const bool is_open = (r == kNoPaddle) | ((s.vblank & 0x80) != 0);
    return r == 0 ? 0 : is_open ? ~0u : end;
  }
  CULE_HD CULE_INLINE void find_charge_ends() {
    for (u32 n = 0; n < 4; ++n) charge_ends[n] = charge_end(n);
  }
  CULE_HD CULE_INLINE bool is_charged(u32 n, u32 cycle) const {
    if constexpr (Access::kObserves) return cycle > charge_ends[n];
    return cycle > charge_end(n);
  }
};

}  // namespace cule
