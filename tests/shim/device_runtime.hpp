// tests/shim/device_runtime.hpp: what kernels need from the machine that runs them, under the shim.
//
// Counts the instructions of all lanes.
#pragma once

#include <cuda_runtime.h>

namespace cule {

// Read by tests/support/kernels.py.
struct InstructionCounts {
  unsigned long long instructions;  // iterations of idle loops that are skipped are none
  unsigned long long slow;          // of these, executed with every access through the decoder
  unsigned long long launches;      // of kernels, whatever they do
  unsigned long long modules;       // loaded now
};

inline InstructionCounts instruction_counts{};

inline unsigned char* dynamic_shared() { return cule_dynamic_shared(); }

inline void note_instruction(bool is_slow) {
  ++instruction_counts.instructions;
  instruction_counts.slow += is_slow;
}

}  // namespace cule
