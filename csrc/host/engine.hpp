// host/engine.hpp: runs frame steps on the host: the interpreter, or translated code where a game
// has it. The instruction loops are compiled once, in host/engine_*.cpp.
#pragma once

#include "console/step.hpp"
#include "env/ale.hpp"
#include "host/incremental/renderer.hpp"
#include "host/interruption.hpp"
#include "host/ram_code.hpp"
#include "jit/engine.hpp"

namespace cule {

// Out of line, so that each instruction loop has the registers to itself. Returns the clock at the
// end of the step, as below.
template <class Fetch>
CULE_NOINLINE Clock interpret_step(Machine<HostAccess>& m) {
  return run_step(m, run_fast<Fetch, HostAccess>);
}

// Instructions up to the first that has to be executed slowly. Enters with pc in the cartridge.
template <class Fetch>
CULE_INLINE Clock run_translated_and_ram(Machine<HostAccess>& m, Clock clock,
                                         jit::Translation& translation) {
  const Registers& cpu = m.s.cpu;
  for (;;) {
    clock = jit::run_fast<Fetch>(m, clock, translation);
    if (!is_in_ram(cpu.pc) || m.must_stop) return clock;
    clock = run_ram_code<Fetch>(m, clock);
    if (!(cpu.pc & 0x1000) || m.must_stop || instructions_of(clock) >= kCountFrom) return clock;
  }
}

template <class Fetch>
Clock run_host_step(Machine<HostAccess>& m, jit::Translation* translation) {
  // Translated code counts time from the start of the step.
  if (translation != nullptr && m.step_cycle == 0) {
    return run_step(m, [translation](Machine<HostAccess>& machine, Clock clock) {
      return run_translated_and_ram<Fetch>(machine, clock, *translation);
    });
  }
  return interpret_step<Fetch>(m);
}

extern template Clock run_host_step<BankFetch>(Machine<HostAccess>&, jit::Translation*);
extern template Clock run_host_step<E0Fetch>(Machine<HostAccess>&, jit::Translation*);
extern template Clock run_host_step<FeFetch>(Machine<HostAccess>&, jit::Translation*);

// Engine of BasicAle: a single thread.
struct HostEngine {
  using Access = HostAccess;

  jit::Translation* translation = nullptr;   // of the game; null: interpret everything
  IncrementalMemory* incremental = nullptr;  // of the console; null: render everything

  FlatRam ram(ConsoleState& s) const { return {s.ram}; }
  Clock run(Machine<HostAccess>& m) const {
    if (current_interruption != nullptr) current_interruption->check();
    switch (m.console.cart.type) {
      case Bankswitch::kE0:
        return run_host_step<E0Fetch>(m, translation);
      case Bankswitch::kFE:
        return run_host_step<FeFetch>(m, translation);
      default:
        return run_host_step<BankFetch>(m, translation);
    }
  }
  // A single thread has no other lanes to agree with.
  bool align(bool is_running, bool /*emulates*/) const { return is_running; }
};

using Ale = BasicAle<HostEngine>;

}  // namespace cule
