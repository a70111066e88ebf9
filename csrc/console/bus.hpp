// console/bus.hpp: the two ways an instruction reaches the machine.
//
// SlowBus: every byte through the decoder, every access recorded on the data bus. Right everywhere.
//
// FastBus: the instruction's bytes were fetched at once from a stretch of ROM whose reads have no
// effect; RAM and ROM are accessed directly. Used wherever the result is identical.
#pragma once

#include "base/bits.hpp"
#include "console/idle.hpp"
#include "console/machine.hpp"
#include "cpu/execute.hpp"

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
  CULE_HD u32 read(u32 address, u32 /*open_bus*/) {
    const u32 value = m.read_device(clock, address, m.s.data_bus);
    m.s.data_bus = u8(value);
    return value;
  }
  CULE_HD u32 read_zero_page(u32 address, u32 open_bus) { return read(address, open_bus); }
  CULE_HD u32 read_stack(u32 sp, u32 open_bus) { return read(0x100 | sp, open_bus); }
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

// Near the instruction limit of a step every instruction is counted. Between two control transfers
// at most one bank of instructions is executed.
constexpr u32 kCountFrom = kMaxInstructions - kBankBytes - 16;

// Index of the byte at an address of the cartridge, counted from base() of the image, by cartridge
// family. In a linear one a whole window of 4 KiB is contiguous, from piece() on, and an
// instruction that runs fast leaves it only by a control transfer.
constexpr u32 kWindowBits = 0xF000;

struct BankFetch {
  static constexpr bool kIsLinear = true;
  CULE_HD static CULE_INLINE u32 base(const ConsoleState& s) { return s.cart.bank_bytes; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState&, u32 address) { return address & 0xFFF; }
  CULE_HD static CULE_INLINE u32 piece(u32 /*window*/) { return 0; }
};

struct FeFetch {
  static constexpr bool kIsLinear = true;
  CULE_HD static CULE_INLINE u32 base(const ConsoleState&) { return 0; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState&, u32 address) {
    return (address & 0xFFF) + piece(address);
  }
  CULE_HD static CULE_INLINE u32 piece(u32 window) { return window & 0x2000 ? 0 : kBankBytes; }
};

struct E0Fetch {
  static constexpr bool kIsLinear = false;
  CULE_HD static CULE_INLINE u32 base(const ConsoleState&) { return 0; }
  CULE_HD static CULE_INLINE u32 index(const ConsoleState& s, u32 address) {
    const u32 o = address & 0xFFF;
    return s.cart.window_bytes[o / kSliceBytes] + o % kSliceBytes;
  }
  CULE_HD static CULE_INLINE u32 piece(u32 /*window*/) { return 0; }
};

// TIA accesses of one instruction at most (RTI); none makes more than it takes cycles.
constexpr u32 kMaxInstructionAccesses = 4;

template <class Fetch, class Access>
struct FastBus {
  Machine<Access>& m;
  Clock clock;
  Clock quiet_end;  // until then a TIA write neither ends the frame nor fills the log
  u8* const ram;
  const u8* image;     // of the selected bank
  const u8* opcodes;   // likewise; traps once the loop has to be left
  u64 image_origin;    // linear: address that the byte at address 0 would have,
  u64 opcodes_origin;  // and its opcode
  u32 window;          // linear: kWindowBits of pc
  u32 at;              // not linear: index of the running instruction
  const u32 region_begin;
  const u32 region_size;

  CULE_HD CULE_INLINE explicit FastBus(Machine<Access>& machine, Clock c, u32 pc)
      : m(machine),
        clock(c),
        ram(machine.ram.base),
        window(pc & kWindowBits),
        at(0),
        region_begin(machine.fast.begin),
        region_size(machine.fast.size) {
    reload();
    find_quiet_end();
  }

  // The opcode at pc; a trap where the loop has to be left.
  CULE_HD CULE_INLINE u32 fetch(u32 pc) {
    if constexpr (Fetch::kIsLinear) return *byte_at(opcodes_origin, pc);
    at = Fetch::index(m.s, pc);
    return opcodes[at];
  }

  CULE_HD CULE_INLINE void begin(u32 cycles) { clock += (Clock(cycles) << kClockShift) + 1; }
  CULE_HD CULE_INLINE void charge(u32 cycles) { clock += Clock(cycles) << kClockShift; }
  CULE_HD CULE_INLINE u32 operand(u32 pc) { return instruction(pc)[1]; }
  CULE_HD CULE_INLINE u32 operand_high(u32 pc) { return instruction(pc)[2]; }
  CULE_HD CULE_INLINE u32 operand_word(u32 pc) { return load_u16(instruction(pc) + 1); }

  CULE_HD CULE_INLINE u32 read(u32 address, u32 open_bus) {
    if (address & 0x1000) {
      if (CULE_LIKELY((address & 0xFFF) - region_begin < region_size))
        return image[Fetch::index(m.s, address)];
    } else if ((address & 0x280) == 0x80) {
      return ram[address & 0x7F];
    }
    const u32 value = m.read_device(clock, address, open_bus);
    reload();
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
      write_tia(address & 0x3F, value, false);
    } else {
      clock = m.write_device(clock, address, value, false);
      reload();
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
  CULE_HD CULE_INLINE void transfer(Execution<FastBus>& e, u32 last_byte) {
    if (CULE_UNLIKELY((e.pc ^ window) & kWindowBits)) change_window(e.pc, last_byte);
    if (CULE_UNLIKELY(instructions_of(clock) >= kCountFrom)) {
      m.opcodes = m.console.cart.traps;
      reload_opcodes();
    }
  }
  CULE_HD CULE_INLINE void branch_taken(Execution<FastBus>& e, u32 offset) {
    if (CULE_UNLIKELY(offset >= kShortestIdleLoop) && !((e.pc ^ window) & kWindowBits)) {
      const u32 target = Fetch::index(m.s, e.pc) + Fetch::base(m.s);
      if (m.opcodes[target] != kTrapOpcode) {
        const u32 branch = *instruction(e.pc - (offset | ~0xFFu) - 2);
        skip_idle_loop(e, *this, load_u32(m.console.cart.image + target), branch, offset);
      }
    }
    transfer(e, offset);
  }
  CULE_HD CULE_INLINE void jam(Execution<FastBus>& e) {
    e.is_jammed = true;
  }  // a trap: nothing has happened

  // The log takes at least as many cycles to fill as it has free entries, less what the running
  // instruction may still record.
  CULE_HD CULE_INLINE void find_quiet_end() {
    const u64 room = u64(m.log_end - m.next);
    const u64 cycles = room > kMaxInstructionAccesses ? room - kMaxInstructionAccesses : 0;
    const Clock full = clock + (cycles << kClockShift);
    quiet_end = full < m.end_clock ? full : m.end_clock;
  }
  // pc has changed by other means than transfer(); it is in the cartridge.
  CULE_HD CULE_INLINE void follow_window(u32 pc) {
    if (CULE_UNLIKELY((pc ^ window) & kWindowBits)) change_window(pc, 0);
  }

 private:
  CULE_HD static CULE_INLINE const u8* byte_at(u64 origin, u32 address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an origin lies before its array
    return reinterpret_cast<const u8*>(origin + address);
  }
  // The bytes of the instruction at pc; where it is not linear, of the running one.
  CULE_HD CULE_INLINE const u8* instruction(u32 pc) const {
    if constexpr (Fetch::kIsLinear) return byte_at(image_origin, pc);
    return image + at;
  }

  CULE_HD CULE_INLINE void write_tia(u32 reg, u32 value, bool follows_write) {
    if (CULE_LIKELY(clock < quiet_end)) {
      if (CULE_LIKELY(reg > WSYNC)) {
        m.append(clock, reg, value);
        return;
      }
      if (reg == WSYNC) {
        m.append(clock, reg, value);
        if (!follows_write) clock = m.next_line(clock);
        return;
      }
    }
    clock = m.write_tia_slow(clock, reg, value, follows_write);
    reload_opcodes();
    find_quiet_end();
  }

  CULE_HD CULE_INLINE void change_window(u32 pc, u32 last_byte) {
    window = pc & kWindowBits;
    reload();
    if (pc & 0x1000) return;
    m.s.data_bus = u8(last_byte);  // the next opcode fetch may see it
    opcodes = m.console.cart.traps;
    opcodes_origin = origin_of(opcodes);
  }

  CULE_HD CULE_INLINE u64 origin_of(const u8* piece) const {
    return reinterpret_cast<u64>(piece) + Fetch::piece(window) - window;
  }
  CULE_HD CULE_INLINE void reload_opcodes() {
    opcodes = m.opcodes + Fetch::base(m.s);
    opcodes_origin = origin_of(opcodes);
  }
  CULE_HD CULE_INLINE void reload() {
    image = m.console.cart.image + Fetch::base(m.s);
    image_origin = origin_of(image);
    reload_opcodes();
  }
};

}  // namespace cule
