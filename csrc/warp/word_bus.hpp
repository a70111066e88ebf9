// warp/word_bus.hpp: how a lane's instructions reach the machine.
//
// Like FastBus, but a fetch is one instruction word (cart/cartridge.hpp, instruction_word), and RAM
// is interleaved across the warp. Used where no byte of the instruction needs a decoded access.
#pragma once

#include "console/bus.hpp"
#include "warp/lane_access.hpp"

namespace cule {

template <class Fetch>
struct WordBus {
  Machine<LaneAccess>& m;
  Clock clock;
  const InterleavedRam ram;
  const FastRegion fast;
  const u32* words;  // of the selected bank
  u32 word = 0;      // the running instruction
  bool must_leave;   // the next instruction executes slowly, or none follows

  CULE_HD CULE_INLINE WordBus(Machine<LaneAccess>& machine, Clock c)
      : m(machine), clock(c), ram(machine.ram), fast(machine.fast) {
    reload();
  }

  CULE_HD CULE_INLINE void reload() {
    words = m.console.cart.words + Fetch::base(m.s);
    must_leave = m.opcodes == m.console.cart.traps;
  }

  // After a write to the TIA, which selects no bank but may end the frame.
  CULE_HD CULE_INLINE void notice_end() { must_leave = must_leave || m.must_stop; }

  // Fetches the instruction at pc. Returns false if it must execute slowly.
  CULE_HD CULE_INLINE bool fetch(u32 pc) {
    word = kTrapBit;
    if (!must_leave && (pc & 0x1000)) word = words[Fetch::index(m.s, pc)];
    return !(word & kTrapBit);
  }

  CULE_HD CULE_INLINE void begin(u32 cycles) { clock += (Clock(cycles) << kClockShift) + 1; }
  CULE_HD CULE_INLINE void charge(u32 cycles) { clock += Clock(cycles) << kClockShift; }
  CULE_HD CULE_INLINE u32 operand(u32) { return word >> 8 & 0xFF; }
  CULE_HD CULE_INLINE u32 operand_high(u32) { return word >> 16 & 0xFF; }
  CULE_HD CULE_INLINE u32 operand_word(u32) { return word >> 8 & 0xFFFF; }

  CULE_HD CULE_INLINE u32 read(u32 address, u32 open_bus) {
    if (address & 0x1000) {
      if (CULE_LIKELY((address & 0xFFF) - fast.begin < fast.size))
        return words[Fetch::index(m.s, address)] & 0xFF;
    } else if ((address & 0x280) == 0x80) {
      return ram[address & 0x7F];
    }
    const u32 value = m.read_device(clock, address, open_bus);
    reload();
    return value;
  }
  // As read(), without a branch between RAM and ROM.
  CULE_HD CULE_INLINE u32 read_flat(u32 address, u32 open_bus) {
    const bool is_rom = (address & 0x1FFF) - 0x1000 - fast.begin < fast.size;
    const bool is_ram = (address & 0x1280) == 0x80;
    u32 value = ram[address & 0x7F];
    if (is_rom) value = words[Fetch::index(m.s, address)] & 0xFF;
    if (CULE_UNLIKELY(!is_rom && !is_ram)) {
      value = m.read_device(clock, address, open_bus);
      reload();
    }
    return value;
  }
  CULE_HD CULE_INLINE u32 read_zero_page(u32 address, u32 open_bus) {
    if (CULE_LIKELY(address & 0x80)) return ram[address & 0x7F];
    return m.read_tia(clock, address, open_bus);
  }
  CULE_HD CULE_INLINE u32 read_stack(u32 sp, u32 open_bus) { return read_zero_page(sp, open_bus); }
  CULE_HD CULE_INLINE void write(u32 address, u32 value) {
    if ((address & 0x1280) == 0x80) {
      ram[address & 0x7F] = u8(value);
    } else if (!(address & 0x1080)) {
      clock = m.write_tia(clock, address & 0x3F, value, false);
      notice_end();
    } else {
      clock = m.write_device(clock, address, value, false);
      reload();
    }
  }
  CULE_HD CULE_INLINE void write_stack(u32 sp, u32 value, bool follows_write) {
    if (CULE_LIKELY(sp & 0x80)) {
      ram[sp & 0x7F] = u8(value);
    } else {
      clock = m.write_tia_slow(clock, sp & 0x3F, value, follows_write);
      notice_end();
    }
  }
  CULE_HD CULE_INLINE void transfer(Execution<WordBus>& e, u32 last_byte) {
    if (!(e.pc & 0x1000)) m.s.data_bus = u8(last_byte);  // the next opcode fetch may see it
    if (CULE_UNLIKELY(instructions_of(clock) >= kCountFrom)) {
      m.opcodes = m.console.cart.traps;
      must_leave = true;
    }
  }
  CULE_HD CULE_INLINE void branch_taken(Execution<WordBus>& e, u32 offset) {
    if (offset >= kShortestIdleLoop && (e.pc & 0x1000) && !must_leave) {
      const u32 target = words[Fetch::index(m.s, e.pc)];
      if (!(target & kTrapBit)) skip_idle_loop(e, *this, target, word & 0xFF, offset);
    }
    transfer(e, offset);
  }
  CULE_HD CULE_INLINE void jam(Execution<WordBus>&) {}  // its words carry the trap bit
};

}  // namespace cule
