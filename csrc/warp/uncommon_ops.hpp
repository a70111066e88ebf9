// warp/uncommon_ops.hpp: the functions of opcodes that warp/branch_free.hpp does not cover.
//
// Stack, subroutines, flags, decimal mode and undocumented opcodes, once the address is known and
// the byte is loaded. The functions are those of Execution (cpu/execute.hpp).
#pragma once

#include "cpu/execute.hpp"
#include "cpu/micro_ops.hpp"

namespace cule {

template <class Bus>
struct UncommonOps {
  using Cpu = Execution<Bus>;

  // `op` is the micro-operation of `opcode`.
  CULE_HD static CULE_INLINE void run(Cpu& e, u32 opcode, u32 op, u32 loaded, u32 address) {
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

  CULE_HD static CULE_INLINE u32 apply(Cpu& e, u32 op, u32 opcode, u32 s, u32 address) {
    const Function function = micro_function(op);
    switch (function) {
      case Function::kPass:
        return e.nz = s;
      case Function::kKeep:
        return s;
      case Function::kAdc:
        e.adc(s);
        return 0;
      case Function::kSbc:
        e.sbc(s);
        return 0;
      case Function::kFlag:
        set_flag(e, opcode);
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

  // Out of line, on copies: an object whose address a call gets is in memory, and the registers of
  // an instruction loop must not be there for the sake of the rarest instructions.
  CULE_HD static CULE_INLINE u32 apply_rare(Cpu& e, Function function, u32 s, u32 address) {
    Bus bus(e.bus);
    Cpu copy(bus, e);
    const u32 result = apply_to_copy(copy, function, s, address);
    e.copy_from(copy);
    e.bus.copy_from(bus);
    return result;
  }

  // CLI SEI CLV CLD SED: bits 7 and 6 of the opcode name the flag, bit 5 its new value.
  CULE_HD static CULE_INLINE void set_flag(Cpu& e, u32 opcode) {
    const u32 value = opcode >> 5 & 1;
    switch (opcode >> 6) {
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
      default:  // the other functions are common, and kJam has no fast word
        return 0;
    }
  }
};

}  // namespace cule
