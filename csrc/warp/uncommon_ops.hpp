// warp/uncommon_ops.hpp: the functions of opcodes that warp/branch_free.hpp does not cover.
//
// Stack, subroutines, flags and decimal mode, once the address is known and the byte is loaded. The
// functions are those of Execution (cpu/execute.hpp).
#pragma once

#include "cpu/execute.hpp"
#include "cpu/micro_ops.hpp"

namespace cule {

template <class Bus>
struct UncommonOps {
  using Cpu = Execution<Bus>;

  // `op` is the micro-operation of `opcode`.
  CULE_HD static CULE_INLINE void run(Cpu& e, u32 opcode, u32 op, u32 loaded, u32 address) {
    const u32 result = apply(e, opcode, micro_function(op), source(e, micro_source(op), loaded));
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

  CULE_HD static CULE_INLINE u32 apply(Cpu& e, u32 opcode, Function function, u32 s) {
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
      case Function::kPhp:
        e.push(e.status() | kPushedBits);
        return 0;
      case Function::kPlp:
        e.set_status(e.pull(e.bus.read_stack(e.sp, 0x28)));
        return 0;
      default:  // common, or slow (lane_opcodes.hpp)
        return 0;
    }
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
};

}  // namespace cule
