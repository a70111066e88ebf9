// tests/shim/step_counts.cpp: hands out what lanes have executed since the last call.
#include "cuda/lane_group.hpp"

extern "C" __attribute__((visibility("default"))) void cule_take_step_counts(
    cule::StepCounts* out) {
  *out = cule::step_counts;
  cule::step_counts = {};
}
