// jit/lane_source.hpp: a ROM as the source of a state-update kernel of its own.
//
// In: a cartridge, and the places that its program has reached. Out: C++ that cuda/step_kernel.hpp
// and jit/lane_program.hpp give a meaning, for the compiler of the device or, in tests, of the
// host. From the places reached all others are followed that direct jumps, branches and calls lead
// to, as long as there is room. Facts and rules: NOTES.md 5.
#pragma once

#include <string>
#include <vector>

#include "cart/cartridge.hpp"

namespace cule::jit {

// An instruction that a program has executed.
struct Place {
  u32 image_offset;
  u32 pc;
  bool is_entered;  // otherwise than from the instruction before it
  u64 count;        // how often
};

// is_alone: for lanes that have a warp each. They vote with nobody and need not wait at the end of
// a line.
// most: instructions that are translated, the most frequent ones first; the others are interpreted.
std::string make_lane_source(const Cart& cart, size_t image_bytes, bool is_alone, u32 most,
                             std::vector<Place> reached);

}  // namespace cule::jit
