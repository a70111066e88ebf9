// jit/assembler.hpp: the assembler of this processor, and the registers that translated code has.
#pragma once

#include "base/platform.hpp"

#if defined(CULE_ARM64)
#include "jit/arm64.hpp"
namespace cule::jit {
using namespace arm64;
}
#else
#include "jit/x86.hpp"
namespace cule::jit {
using namespace x86;
}
#endif
