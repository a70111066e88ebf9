// jit/engine.hpp: the instruction loop of one frame step, translated where it can be.
//
// Translated code and the interpreter hand over to each other at instruction boundaries.
#pragma once

#include <cstring>

#include "console/step.hpp"
#include "jit/translation.hpp"

namespace cule::jit {

template <class Access>
u32 read_device(Context* c, u32 access) {
  auto& m = *static_cast<Machine<Access>*>(c->machine);
  m.next = c->next;
  const u32 value = m.read_device(Clock(c->time >> kTimeShift) << kClockShift, access & 0xFFFF,
                                  access >> kValueShift);
  c->next = m.next;
  return value;
}

// Not for writes that end the frame or stall.
template <class Access>
u32 write_device(Context* c, u32 access) {
  auto& m = *static_cast<Machine<Access>*>(c->machine);
  m.next = c->next;
  m.write_device(Clock(c->time >> kTimeShift) << kClockShift, access & 0xFFFF,
                 access >> kValueShift, false);
  memcpy(c->charge_ends, m.charge_ends, sizeof c->charge_ends);
  c->next = m.next;
  return 0;
}

template <class Access>
u32 count_polls(Context* c, u32 poll) {
  constexpr u32 kMost = 1024;  // at once: code looks at the time in between
  const auto& m = *static_cast<const Machine<Access>*>(c->machine);
  const u32 count = skipped_polls(m.s.timer, {true, poll & 0xFF, poll >> 8 & 0xFF},
                                  c->time >> kTimeShift, poll >> 16);
  return count < kMost ? count : kMost;
}

// Where the piece of the image that is shown at pc begins, in bytes.
template <class Fetch>
CULE_INLINE u32 piece_at(const CartState& cart, u32 pc) {
  return Fetch::kIsLinear ? cart.bank_bytes : cart.window_bytes[pc / kSliceBytes % 4];
}

// What stays the same while a frame step runs.
template <class Access>
CULE_INLINE void begin_context(Context& c, Machine<Access>& m) {
  c.phase = m.s.phase_cycles << kTimeShift;
  c.phase_rounding = (m.s.phase_cycles + kCyclesPerLine - 1) << kTimeShift;
  c.inputs = &m.s.inputs;
  c.ram = m.ram.base;
  c.image = m.console.cart.image;
  c.read = read_device<Access>;
  c.write = write_device<Access>;
  c.count_polls = count_polls<Access>;
  c.machine = &m;
}

// Runs translated code from pc on, if any can be made. Returns whether more may follow at once: the
// quiet time was over, or a table led to a place that had no code yet.
template <class Fetch, class Access>
CULE_INLINE bool run_translated(Machine<Access>& m, FastBus<Fetch, Access>& bus,
                                Execution<FastBus<Fetch, Access>>& e, Translation& translation,
                                Context& c) {
  constexpr Clock kMargin = Clock(kUnwatchedCycles) << kClockShift;
  const CartState& cart = m.s.cart;
  const u64 code = translation.find(piece_at<Fetch>(cart, e.pc), e.pc, c.table);
  if (code == 0) return false;
  if (bus.clock + kMargin >= bus.quiet_end) bus.find_quiet_end();
  if (bus.clock + kMargin >= bus.quiet_end) return false;
  c.a = e.a;
  c.x = e.x;
  c.y = e.y;
  c.sp = e.sp;
  c.nz = e.nz;
  c.c = e.c;
  c.v = e.v;
  c.d = e.d;
  c.pushed = kPushedBits | e.i * kI;
  c.time = cycles_of(bus.clock) << kTimeShift;
  c.quiet_end = cycles_of(bus.quiet_end - kMargin) << kTimeShift;
  c.instructions = instructions_of(bus.clock);
  if constexpr (!Fetch::kIsLinear) memcpy(c.window_bytes, cart.window_bytes, sizeof c.window_bytes);
  c.next = m.next;
  memcpy(c.charge_ends, m.charge_ends, sizeof c.charge_ends);
  translation.run(c, code);
  e.a = c.a;
  e.x = c.x;
  e.y = c.y;
  e.sp = c.sp;
  e.nz = c.nz;
  e.c = c.c;
  e.v = c.v;
  e.d = c.d;
  e.i = (c.pushed & kI) != 0;
  e.pc = c.pc;
  m.next = c.next;
  bus.clock = Clock(c.time >> kTimeShift) << kClockShift | c.instructions;
  bus.follow_window(c.pc);
  return c.time >= c.quiet_end || translation.is_unknown(piece_at<Fetch>(cart, c.pc), c.pc);
}

// As run_fast() of the interpreter.
template <class Fetch, class Access>
CULE_NOINLINE Clock run_fast(Machine<Access>& m, Clock clock, Translation& translation) {
  static_assert(Access::kForeseesCharges);
  FastBus<Fetch, Access> bus(m, clock, m.s.cpu.pc);
  Execution<FastBus<Fetch, Access>> e(bus, m.s.cpu);
  Context context;
  begin_context(context, m);
  do {
    if (m.opcodes == m.console.cart.opcodes && (e.pc & 0x1000)) {
      while (run_translated(m, bus, e, translation, context)) {
      }
    }
    e.step(bus.fetch(e.pc));
  } while (!e.is_jammed);
  e.is_jammed = false;  // a trap
  e.store(m.s.cpu);
  return bus.clock;
}

}  // namespace cule::jit
