// rom_kernel/limits.hpp: what the source of a ROM's kernel and its parts agree on.
#pragma once

#include "base/int.hpp"

namespace cule {

// No block begins within this time before a TIA write could end the frame, or with less room in the
// log; a block checks both more often (rom_kernel/source.cpp).
constexpr u32 kQuietCycles = 1024;
constexpr u32 kQuietEntries = 72;
// What a possible entry counts for in the choice of places to check, beside the cycles that pass.
constexpr u32 kEntryCost = 8;

// Registers that the parts may use, as the launch bounds of the kernel that calls them allow.
constexpr u32 kPartRegisters = 168;

}  // namespace cule
