// console/bus.hpp: the two ways an instruction reaches the machine.
//
// SlowBus  every byte through the decoder, every access recorded on the data bus. Right everywhere.
// FastBus  the instruction's bytes were fetched at once from a stretch of ROM whose reads have no
// effect;
//          RAM and ROM are accessed directly. Used wherever that is the same.
#pragma once

#include "base/bits.hpp"
#include "console/idle.hpp"
#include "console/machine.hpp"
#include "cpu/opcodes.hpp"

namespace cule {

template <class Access>
struct SlowBus {
  Machine<Access>& m;
  Clock clock;

  CULE_HD void begin(u32 cycles) { clock += (Clock(cycles) << kClockShift) + 1; }
  CULE_HD void charge(u32 cycles) { clock += Clock(cycles) << kClockShift; }
  CULE_HD u32 operand(u32 pc) { return read((pc + 1) & 0xFFFF, 0); }
  CULE_HD u32 operand_high(u32 pc) { return read((pc + 2) & 0xFFFF, 0); }
  CULE_HD u32 operand_word(u32 pc) {
    const u32 low = operand(pc);
    return low | operand_high(pc) << 8;
  }
  CULE_HD u32 read(u32 address, u32 /*noise*/) {
    const u32 value = m.read_device(clock, address, m.s.data_bus);
    m.s.data_bus = u8(value);
    return value;
  }
  CULE_HD u32 read_zero_page(u32 address, u32 noise) { return read(address, noise); }
  CULE_HD u32 read_stack(u32 sp, u32 noise) { return read(0x100 | sp, noise); }
  CULE_HD void write(u32 address, u32 value, bool follows_write = false) {
    clock = m.write_device(clock, address, value, follows_write);
    m.s.data_bus = u8(value);
  }
  CULE_HD void write_zero_page(u32 address, u32 value) { write(address, value); }
  CULE_HD void write_stack(u32 sp, u32 value, bool follows_write) {
    write(0x100 | sp, value, follows_write);
  }
  CULE_HD void transfer(Execution<SlowBus>&, u32) {}
  CULE_HD void branch_taken(Execution<SlowBus>&, u32) {}
  CULE_HD void jam(Execution<SlowBus>& e) {
    begin(2);
    e.pc += 1;
    e.is_jammed = true;
  }
};

// Near the instruction limit of a step the loop goes over to counting every instruction. Between
// two control transfers at most one bank of instructions is executed.
constexpr u32 kCountFrom = kMaxInstructions - kBankBytes - 16;

// Where the byte at an address of the cartridge stands, counted from base() of the image, by
// cartridge family.
struct BankFetch {
  CULE_HD static CULE_INLINE u32 base(const ConsoleState& s) { return s.cart.bank_bytes; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState&, u32 address) { return address & 0xFFF; }
};

struct FeFetch {
  CULE_HD static CULE_INLINE u32 base(const ConsoleState&) { return 0; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState&, u32 address) {
    return (address & 0xFFF) + (address & 0x2000 ? 0 : kBankBytes);
  }
};

struct E0Fetch {
  CULE_HD static CULE_INLINE u32 base(const ConsoleState&) { return 0; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState& s, u32 address) {
    const u32 o = address & 0xFFF;
    return s.cart.window_bytes[o / kSliceBytes] + o % kSliceBytes;
  }
};

template <class Fetch>
struct FastBus {
  Machine<HostAccess>& m;
  Clock clock;
  u8* const ram;
  const u8* image;    // of the selected bank
  const u8* opcodes;  // likewise; traps once the loop has to be left
  u32 at;             // index of the running instruction
  const u32 region_begin;
  const u32 region_size;

  CULE_HD CULE_INLINE explicit FastBus(Machine<HostAccess>& machine, Clock c)
      : m(machine),
        clock(c),
        ram(machine.ram.base),
        at(0),
        region_begin(machine.fast.begin),
        region_size(machine.fast.size) {
    reload();
  }

  CULE_HD CULE_INLINE void begin(u32 cycles) { clock += (Clock(cycles) << kClockShift) + 1; }
  CULE_HD CULE_INLINE void charge(u32 cycles) { clock += Clock(cycles) << kClockShift; }
  CULE_HD CULE_INLINE u32 operand(u32) { return image[at + 1]; }
  CULE_HD CULE_INLINE u32 operand_high(u32) { return image[at + 2]; }
  CULE_HD CULE_INLINE u32 operand_word(u32) { return load_u16(image + at + 1); }

  CULE_HD CULE_INLINE u32 read(u32 address, u32 noise) {
    if (address & 0x1000) {
      if (CULE_LIKELY((address & 0xFFF) - region_begin < region_size))
        return image[Fetch::index(m.s, address)];
    } else if ((address & 0x280) == 0x80) {
      return ram[address & 0x7F];
    }
    const u32 value = m.read_device(clock, address, noise);
    reload();
    return value;
  }
  CULE_HD CULE_INLINE u32 read_zero_page(u32 address, u32 noise) {
    if (CULE_LIKELY(address & 0x80)) return ram[address & 0x7F];
    return m.read_tia(clock, address, noise);
  }
  CULE_HD CULE_INLINE u32 read_stack(u32 sp, u32 noise) { return read_zero_page(sp, noise); }
  CULE_HD CULE_INLINE void write(u32 address, u32 value) {
    if ((address & 0x1280) == 0x80) {
      ram[address & 0x7F] = u8(value);
    } else {
      clock = m.write_device(clock, address, value, false);
      reload();
    }
  }
  CULE_HD CULE_INLINE void write_zero_page(u32 address, u32 value) {
    if (address & 0x80) {
      ram[address & 0x7F] = u8(value);
    } else {
      clock = m.write_tia(clock, address & 0x3F, value, false);
      reload_opcodes();
    }
  }
  CULE_HD CULE_INLINE void write_stack(u32 sp, u32 value, bool follows_write) {
    if (CULE_LIKELY(sp & 0x80)) {
      ram[sp & 0x7F] = u8(value);
    } else {
      clock = m.write_tia_slow(clock, sp & 0x3F, value, follows_write);
      reload_opcodes();
    }
  }
  CULE_HD CULE_INLINE void transfer(Execution<FastBus>& e, u32 last_byte) {
    if (CULE_UNLIKELY(!(e.pc & 0x1000))) {
      m.s.data_bus = u8(last_byte);  // the next opcode fetch may see it
      opcodes = m.console.cart.traps;
    }
    if (CULE_UNLIKELY(instructions_of(clock) >= kCountFrom)) {
      m.opcodes = m.console.cart.traps;
      reload_opcodes();
    }
  }
  CULE_HD CULE_INLINE void branch_taken(Execution<FastBus>& e, u32 offset) {
    if (offset >= kShortestIdleLoop && (e.pc & 0x1000)) {
      const u32 target = Fetch::index(m.s, e.pc);
      if (opcodes[target] != kTrapOpcode)
        skip_idle_loop(e, *this, load_u32(image + target), image[at], offset);
    }
    transfer(e, offset);
  }
  CULE_HD CULE_INLINE void jam(Execution<FastBus>& e) {
    e.is_jammed = true;
  }  // a trap: nothing has happened

 private:
  CULE_HD CULE_INLINE void reload_opcodes() { opcodes = m.opcodes + Fetch::base(m.s); }
  CULE_HD CULE_INLINE void reload() {
    image = m.console.cart.image + Fetch::base(m.s);
    reload_opcodes();
  }
};

}  // namespace cule
