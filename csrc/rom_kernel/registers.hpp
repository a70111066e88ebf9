// rom_kernel/registers.hpp: a limit of the compiler, for the parts of a ROM's kernel.
#pragma once

#include "base/int.hpp"

namespace cule {

// Registers that the parts may use, as the launch bounds of the kernel that calls them allow.
constexpr u32 kPartRegisters = 168;

}  // namespace cule
