// tests/shim/instruction_counts.cpp: returns what lanes have executed since the last call.
#include <device_runtime.hpp>
#include <utility>

extern "C" __attribute__((visibility("default"))) void cule_pop_instruction_counts(
    cule::InstructionCounts* out) {
  *out = std::exchange(cule::instruction_counts, {});
  out->launches = std::exchange(cule::shim::launches, 0);
  out->modules = cule::shim::modules;
}
