// tests/shim/step_counts.cpp: hands out what lanes have executed since the last call.
#include <utility>

#include "cuda/lane_group.hpp"
#include "cuda_runtime.h"

extern "C" __attribute__((visibility("default"))) void cule_take_step_counts(
    cule::StepCounts* out) {
  *out = cule::step_counts;
  out->launches = std::exchange(cule::shim::launches, 0);
  cule::step_counts = {};
}
