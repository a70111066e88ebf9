// host/ram_code.hpp: runs code in RAM.
//
// Does what step_slowly() does, instruction after instruction with the registers at hand, and reads
// RAM and ROM without the decoder. Games copy loops to RAM whose operands they change.
#pragma once

#include "console/step.hpp"

namespace cule {

CULE_INLINE constexpr bool is_in_ram(u32 address) { return (address & 0x1280) == 0x80; }

// A SlowBus that records the data bus in a register.
template <class Fetch, class Access>
struct RamCodeBus {
  Machine<Access>& m;
  Clock clock;
  u8* const ram;
  u32 data_bus;  // as ConsoleState has it

  RamCodeBus(Machine<Access>& machine, Clock c)
      : m(machine), clock(c), ram(machine.ram.base), data_bus(machine.s.data_bus) {}

  CULE_INLINE void begin(u32 cycles) { clock += (Clock(cycles) << kClockShift) + 1; }
  CULE_INLINE void charge(u32 cycles) { clock += Clock(cycles) << kClockShift; }
  CULE_INLINE u32 operand(u32 pc) { return read((pc + 1) & 0xFFFF, 0); }
  CULE_INLINE u32 operand_high(u32 pc) { return read((pc + 2) & 0xFFFF, 0); }
  CULE_INLINE u32 operand_word(u32 pc) {
    const u32 low = operand(pc);
    return low | operand_high(pc) << 8;
  }
  CULE_INLINE u32 read(u32 address, u32 /*open_bus*/) {
    if (is_in_ram(address)) return data_bus = ram[address & 0x7F];
    if ((address & 0x1000) && (address & 0xFFF) - m.fast.begin < m.fast.size) {
      return data_bus = m.console.cart.image[Fetch::base(m.s) + Fetch::index(m.s, address)];
    }
    return data_bus = m.read_device(clock, address, data_bus);
  }
  CULE_INLINE u32 read_zero_page(u32 address, u32 open_bus) { return read(address, open_bus); }
  CULE_INLINE u32 read_stack(u32 sp, u32 open_bus) { return read(0x100 | sp, open_bus); }
  CULE_INLINE void write(u32 address, u32 value, bool follows_write = false) {
    data_bus = value;
    if (is_in_ram(address)) {
      ram[address & 0x7F] = u8(value);
    } else if (!(address & 0x1080)) {
      clock = m.write_tia(clock, address & 0x3F, value, follows_write);
    } else {
      clock = m.write_device(clock, address, value, follows_write);
    }
  }
  CULE_INLINE void write_zero_page(u32 address, u32 value) { write(address, value); }
  CULE_INLINE void write_stack(u32 sp, u32 value, bool follows_write) {
    write(0x100 | sp, value, follows_write);
  }
  void transfer(Execution<RamCodeBus>& /*e*/, u32 /*last_byte*/) {}
  void branch_taken(Execution<RamCodeBus>& /*e*/, u32 /*offset*/) {}
  // Nothing has happened: step_slowly() stops the processor.
  void jam(Execution<RamCodeBus>& e) { e.is_jammed = true; }
};

// Instructions up to the first that is not in RAM, or that only step_slowly() can execute.
template <class Fetch, class Access>
CULE_NOINLINE Clock run_ram_code(Machine<Access>& m, Clock clock) {
  RamCodeBus<Fetch, Access> bus(m, clock);
  Execution<RamCodeBus<Fetch, Access>> e(bus, m.s.cpu);
  while (is_in_ram(e.pc) && instructions_of(bus.clock) < kCountFrom) {
    e.step(bus.read(e.pc, 0));
    if (CULE_UNLIKELY(e.is_jammed || m.must_stop)) break;
  }
  e.is_jammed = false;
  e.store(m.s.cpu);
  m.s.data_bus = u8(bus.data_bus);
  return bus.clock;
}

}  // namespace cule
