// cpu/staged.hpp: one instruction in stages: address, load, function, write.
//
// The same instructions as opcodes.hpp, in the form for lanes that execute different opcodes side
// by side: one place computes addresses, one loads, one writes, so lanes part only within a stage,
// and the code is small. Order of accesses as in execute.hpp; the functions are Execution's own.
#pragma once

#include "cpu/execute.hpp"
#include "cpu/micro_ops.hpp"

namespace cule {

template <class Bus>
struct Staged {
  using Cpu = Execution<Bus>;

  // `op`: the micro-operation of `opcode`.
  CULE_HD static CULE_INLINE void step(Cpu& e, u32 opcode, u32 op) {
    e.bus.begin(micro_cycles(op));
    u32 address = 0;
    u32 open_bus = 0;
    u32 loaded = 0;
    find_address(e, op, address, open_bus, loaded);
    if (loads_byte(op)) loaded = e.bus.read(address, open_bus);
    finish(e, opcode, op, loaded, address);
  }

  // What follows once the address is known and the byte loaded.
  CULE_HD static CULE_INLINE void finish(Cpu& e, u32 opcode, u32 op, u32 loaded, u32 address) {
    const u32 result = apply(e, op, opcode, source(e, micro_source(op), loaded), address);
    switch (micro_target(op)) {
      case Target::kToA:
        e.a = result;
        break;
      case Target::kToX:
        e.x = result;
        break;
      case Target::kToY:
        e.y = result;
        break;
      case Target::kToSp:
        e.sp = result;
        break;
      case Target::kToAX:
        e.a = e.x = result;
        break;
      case Target::kToMemory:
        e.bus.write(address, result);
        break;
      default:
        break;
    }
  }

 private:
  CULE_HD static CULE_INLINE u32 source(const Cpu& e, Source from, u32 loaded) {
    switch (from) {
      case Source::kFromA:
        return e.a;
      case Source::kFromX:
        return e.x;
      case Source::kFromY:
        return e.y;
      case Source::kFromSp:
        return e.sp;
      case Source::kFromAX:
        return e.a & e.x;
      default:
        return loaded;
    }
  }

  // Also takes an immediate operand into `loaded`, and moves pc past the instruction.
  CULE_HD static CULE_INLINE void find_address(Cpu& e, u32 op, u32& address, u32& open_bus,
                                               u32& loaded) {
    const Mode mode = micro_mode(op);
    if (mode == Mode::kOwn) return;
    if (mode == Mode::kImplied) {
      e.pc += 1;
      return;
    }
    const u32 low = e.bus.operand(e.pc);
    u32 index = 0;
    switch (mode) {
      case Mode::kZeroPageX:
      case Mode::kAbsoluteX:
      case Mode::kIndirectX:
        index = e.x;
        break;
      case Mode::kZeroPageY:
      case Mode::kAbsoluteY:
      case Mode::kIndirectY:
        index = e.y;
        break;
      default:
        break;
    }
    if (mode < Mode::kAbsolute) {
      e.pc += 2;
      address = (low + index) & 0xFF;
      open_bus = loaded = low;
      return;
    }
    u32 base;
    if (mode < Mode::kIndirectX) {
      open_bus = e.bus.operand_high(e.pc);
      base = low | open_bus << 8;
      e.pc += 3;
    } else {
      e.pc += 2;
      const u32 p = mode == Mode::kIndirectX ? (low + index) & 0xFF : low;
      const u32 first = e.bus.read(p, low);
      open_bus = e.bus.read(p + 1, first);
      base = first | open_bus << 8;
      if (mode == Mode::kIndirectX) index = 0;
    }
    address = (base + index) & 0xFFFF;
    if (pays_crossing(op) && ((address ^ base) & 0xFF00)) e.bus.charge(1);
  }

  CULE_HD static CULE_INLINE u32 apply(Cpu& e, u32 op, u32 opcode, u32 s, u32 address) {
    const Function function = micro_function(op);
    switch (function) {
      case Function::kPass:
        return e.nz = s;
      case Function::kKeep:
        return s;
      case Function::kInc:
        return e.inc(s);
      case Function::kDec:
        return e.dec(s);
      case Function::kOr:
        return e.nz = e.a | s;
      case Function::kAnd:
        return e.nz = e.a & s;
      case Function::kEor:
        return e.nz = e.a ^ s;
      case Function::kAdc:
        e.adc(s);
        return 0;
      case Function::kSbc:
        e.sbc(s);
        return 0;
      case Function::kCompareA:
        e.compare(e.a, s);
        return 0;
      case Function::kCompareX:
        e.compare(e.x, s);
        return 0;
      case Function::kCompareY:
        e.compare(e.y, s);
        return 0;
      case Function::kBit:
        e.bit(s);
        return 0;
      case Function::kAsl:
        return e.asl(s);
      case Function::kLsr:
        return e.lsr(s);
      case Function::kRol:
        return e.rol(s);
      case Function::kRor:
        return e.ror(s);
      case Function::kFlag:
        set_flag(e, opcode);
        return 0;
      case Function::kBranch:
        e.branch(e.takes_branch(opcode));
        return 0;
      case Function::kJump:
        e.pc = e.bus.operand_word(e.pc);
        e.bus.transfer(e, e.pc >> 8);
        return 0;
      case Function::kJsr:
        e.jsr();
        return 0;
      case Function::kRts:
        e.rts();
        return 0;
      case Function::kPha:
        e.push(e.a);
        return 0;
      case Function::kPla:
        e.set_a(e.pull(e.bus.read_stack(e.sp, 0x68)));
        return 0;
      default:
        return apply_rare(e, function, s, address);
    }
  }

  // Out of line, on copies: what is handed to a call lies in memory, and the registers of an
  // instruction loop are not to lie there for the sake of the rarest instructions.
  CULE_HD static CULE_INLINE u32 apply_rare(Cpu& e, Function function, u32 s, u32 address) {
    Bus bus(e.bus);
    Cpu copy(bus, e);
    const u32 result = apply_to_copy(copy, function, s, address);
    e.copy_from(copy);
    e.bus.copy_from(bus);
    return result;
  }

  // CLC SEC CLI SEI CLV CLD SED: bits 7 and 6 of the opcode name the flag, bit 5 its new value.
  CULE_HD static CULE_INLINE void set_flag(Cpu& e, u32 opcode) {
    const u32 value = opcode >> 5 & 1;
    switch (opcode >> 6) {
      case 0:
        e.c = value;
        break;
      case 1:
        e.i = value;
        break;
      case 2:
        e.v = 0;
        break;
      default:
        e.d = value;
        break;
    }
  }

  CULE_HD static CULE_NOINLINE u32 apply_to_copy(Cpu& e, Function function, u32 s, u32 address) {
    switch (function) {
      case Function::kPhp:
        e.push(e.status() | kPushedBits);
        return 0;
      case Function::kPlp:
        e.set_status(e.pull(e.bus.read_stack(e.sp, 0x28)));
        return 0;
      case Function::kRti:
        e.rti();
        return 0;
      case Function::kBrk:
        e.brk();
        return 0;
      case Function::kJumpIndirect:
        e.jump_indirect();
        return 0;
      case Function::kSlo:
        return e.slo(s);
      case Function::kRla:
        return e.rla(s);
      case Function::kSre:
        return e.sre(s);
      case Function::kRra:
        return e.rra(s);
      case Function::kDcp:
        return e.dcp(s);
      case Function::kIsc:
        return e.isc(s);
      case Function::kAnc:
        e.set_a(e.a & s);
        e.c = e.a >> 7;
        return 0;
      case Function::kAlr:
        e.a = e.lsr(e.a & s);
        return 0;
      case Function::kArr:
        e.arr(s);
        return 0;
      case Function::kAne:
        e.set_a((e.a | 0xEE) & e.x & s);
        return 0;
      case Function::kLxa:
        e.set_x(e.a = (e.a | 0xEE) & s);
        return 0;
      case Function::kSbx:
        e.sbx(s);
        return 0;
      case Function::kLas:
        e.set_x(e.a = e.sp = e.sp & s);
        return 0;
      case Function::kStoreHigh:
        return s & ((address >> 8) + 1) & 0xFF;
      case Function::kTas:
        e.sp = s;
        return s & ((address >> 8) + 1) & 0xFF;
      default:  // kJam: whoever fetches has to see to it
        return 0;
    }
  }
};

}  // namespace cule
