// warp/branch_free.hpp: one instruction by masks instead of switches.
//
// For lanes that execute different opcodes at the same time: common opcodes share one instruction
// sequence, so lanes diverge only over what they access (a pointer, the TIA, a device), and over
// the stack, subroutines, flags and decimal mode. Order of accesses as in cpu/execute.hpp.
//
// The Bus delivers operands with the opcode: reading them where an opcode has none is harmless.
#pragma once

#include "cpu/execute.hpp"
#include "warp/lane_opcodes.hpp"

namespace cule {

template <class Bus>
struct BranchFree {
  using Cpu = Execution<Bus>;

  // Executes the instruction with opcode byte `code`.
  CULE_HD static CULE_INLINE void step(Cpu& e, u32 code, const LaneOpcode opcode) {
    e.bus.begin(opcode.path >> kPathCycles & 0xF);
    const u32 low = e.bus.operand(e.pc);
    u32 base = opcode.path & kPathAbsolute ? e.bus.operand_word(e.pc) : low;
    if (opcode.path & kPathIndirect) {
      const u32 p = (low + (opcode.path & kPathPreIndexed ? e.x : 0)) & 0xFF;
      const u32 first = e.bus.read(p, low);
      base = first | e.bus.read(p + 1, first) << 8;
    }
    const u32 address = move(e, opcode.path, base, low);
    const u32 open_bus = opcode.path & kPathWraps ? low : base >> 8;
    const u32 loaded = opcode.path & kPathLoads ? e.bus.read_flat(address, open_bus) : low;
    if (CULE_LIKELY(!(opcode.work & (e.d * kWorkDecimal + kWorkAlone)))) {
      work(e, opcode, loaded, address);
    } else if (opcode.work & kWorkAlone) {
      work_alone(e, code);
    } else if (opcode.masks & kRightNot) {
      e.sbc(loaded);
    } else {
      e.adc(loaded);
    }
  }

 private:
  // The opcodes with kWorkAlone, which are no sum.
  CULE_HD static CULE_INLINE void work_alone(Cpu& e, u32 code) {
    switch (code) {
      case 0x08:  // PHP
        return e.push(e.status() | kPushedBits);
      case 0x20:
        return e.jsr();
      case 0x28:  // PLP
        return e.set_status(e.pull(e.bus.read_stack(e.sp, 0x28)));
      case 0x48:  // PHA
        return e.push(e.a);
      case 0x60:
        return e.rts();
      case 0x68:  // PLA
        return e.set_a(e.pull(e.bus.read_stack(e.sp, 0x68)));
      case 0x58:  // CLI
      case 0x78:  // SEI
        e.i = code >> 5 & 1;
        return;
      case 0x9A:  // TXS
        e.sp = e.x;
        return;
      case 0xB8:  // CLV
        e.v = 0;
        return;
      case 0xBA:  // TSX
        return e.set_x(e.sp);
      default:  // CLD, SED
        e.d = code >> 5 & 1;
    }
  }

  // Returns the address, and moves pc past the instruction or to the target of a branch or jump.
  CULE_HD static CULE_INLINE u32 move(Cpu& e, u32 path, u32 base, u32 low) {
    const u32 next = e.pc + (path >> kPathSize);
    const bool is_branch = path & 0xFF << kPathTaken;
    const bool is_taken = path & conditions(e) << kPathTaken;
    u32 index = path & kPathIndexX ? e.x : 0;
    index = path & kPathIndexY ? e.y : index;
    index = is_branch ? (low ^ 0x80) - 0x80 : index;
    base = is_branch ? next : base;
    const u32 address = (base + index) & (path & kPathWraps ? 0xFF : 0xFFFF);
    const bool pays = is_taken || path & kPathCrossing;
    const u32 crossing = pays && ((address ^ base) & 0xFF00) ? 1 : 0;
    e.bus.charge(is_taken ? crossing + 1 : crossing);
    e.pc = next;
    if (is_taken || path & kPathJumps) {
      e.pc = address;
      if (is_branch) {
        e.bus.branch_taken(e, low);
      } else {
        e.bus.transfer(e, address >> 8);
      }
    }
    return address;
  }

  // Bits as in kPathTaken: the branches that are taken.
  CULE_HD static CULE_INLINE u32 conditions(const Cpu& e) {
    const u32 n = e.nz & 0x180 ? 1 : 0;
    const u32 z = e.nz & 0xFF ? 0 : 8;
    const u32 set = n + 2 * e.v + 4 * e.c + z;
    return set * 15 + 15;  // set << 4 | (set ^ 15)
  }

  CULE_HD static CULE_INLINE void work(Cpu& e, const LaneOpcode& opcode, u32 loaded, u32 address) {
    const u32 work = opcode.work;
    const u32 masks = opcode.masks;
    u32 reg = work & kWorkRegX ? e.x : e.a;
    reg = work & kWorkRegY ? e.y : reg;
    const u32 s = work & kWorkFromReg ? reg : loaded;
    const u32 left = (reg & masks) ^ (s & masks >> 8);
    const u32 right = (s & (work & kWorkAnd ? reg : masks >> 16)) ^ masks >> 24;
    const u32 carry = work & kWorkCarry ? e.c : work & kWorkOne;
    u32 sum = left + right + carry;
    const u32 overflow = (left ^ sum) & (right ^ sum);
    const u32 wide = carry << 8 | s;
    sum = work & kWorkShiftsRight ? wide >> 1 | (wide & 1) << 8 : sum;
    const u32 result = sum & 0xFF;
    e.nz = work & kWorkNz ? result | (s & work & kWorkBit) << 1 : e.nz;
    e.c = work & kWorkC ? sum >> 8 : e.c;
    e.v = work & kWorkV ? (work & kWorkBit ? s << 1 : overflow) >> 7 & 1 : e.v;
    e.a = work & kWorkToA ? result : e.a;
    e.x = work & kWorkToX ? result : e.x;
    e.y = work & kWorkToY ? result : e.y;
    if (work & kWorkStores) e.bus.write(address, result);
  }
};

}  // namespace cule
