// tia/log.hpp: the record of what the program did to the TIA during one frame step.
//
// One entry is 32 bits: cycles since the step began (18), register (6), value (8): the bits of it
// that the register keeps, so that writes which do the same are the same. Every write is kept, and
// reads are kept as writes to the unused register kBeamMark, because each access moves the beam
// mark (NOTES.md 4); the drawing of unfinished frames depends on it.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

constexpr u32 kLogCapacity = 3072;  // entries at most; a full log is painted early (Machine::spill)

using LogEntry = u32;
constexpr u32 kLogCycleShift = 14;

CULE_HD CULE_INLINE constexpr LogEntry pack_log_entry(u32 cycle, u32 reg, u32 value) {
  return cycle << kLogCycleShift | reg << 8 | value;
}
CULE_HD CULE_INLINE constexpr u32 log_cycle(LogEntry e) { return e >> kLogCycleShift; }
CULE_HD CULE_INLINE constexpr u32 log_register(LogEntry e) { return (e >> 8) & 0x3F; }
CULE_HD CULE_INLINE constexpr u32 log_value(LogEntry e) { return e & 0xFF; }

}  // namespace cule
