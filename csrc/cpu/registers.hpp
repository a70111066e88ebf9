// cpu/registers.hpp: the registers of the 6507 between instructions.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// Status byte: N V 1 B D I Z C. Bits 5 and 4 are always pushed as 1 and ignored when pulled.
constexpr u32 kC = 0x01, kZ = 0x02, kI = 0x04, kD = 0x08, kV = 0x40, kN = 0x80;
constexpr u32 kPushedBits = 0x30;

struct Registers {
  u16 pc;
  u8 a;
  u8 x;
  u8 y;
  u8 sp;
  u8 p;          // C Z I D V N; bits 4 and 5 clear
  u8 is_jammed;  // an illegal opcode stopped the processor; only a machine reset clears it
};

CULE_HD CULE_INLINE Registers reset_registers(u32 vector) {
  Registers r{};
  r.pc = u16(vector);
  r.sp = 0xFF;
  return r;
}

}  // namespace cule
